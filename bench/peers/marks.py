"""The marks of the peers: ours held against the plain copy, against Spark's and Delta's idioms, and against Kafka Streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.marks import Mark
from bench.peers.registry import CLEAN, TO_DELTA

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bench.peers.figures import Figure

MOST_COPY_TIMES = 1.1
MOST_COPY_TIMES_OF_RESENT = 1.2
"""Where records are sent again."""
LEAST_TIMES = 3.0
LEAST_TIMES_OF_STREAMS = 1.0
MOST_COMMITS_TIMES = 1.5
MOST_P99_TIMES = 2.0

_SPARK = ("drop_duplicates", "row_number", "within_watermark", "merge")
_STREAMS = tuple(name + TO_DELTA for name in ("streams", "streams_exactly_once"))


def of_peers(figures: Iterable[Figure]) -> list[Mark]:
    """Ours held against each peer that was timed on the same input.

    Args:
        figures: Those of all peers, ours among them; by the medians of their times.
    """
    seconds = {(figure.peer.name, figure.input): figure for figure in figures}
    found = []
    for (name, given), peer in seconds.items():
        ours = seconds.get(("ours_from_kafka" if name in _STREAMS else "ours", given))
        if ours is None:
            continue
        times = peer.seconds / ours.seconds
        if name == "copy":
            most = MOST_COPY_TIMES if given == CLEAN.name else MOST_COPY_TIMES_OF_RESENT
            mark, measured, is_met = f"at most {most:g} times its time", f"{1 / times:.2f} times", 1 / times <= most
        elif name in (*_SPARK, *_STREAMS):
            least = LEAST_TIMES_OF_STREAMS if name in _STREAMS else LEAST_TIMES
            mark, measured, is_met = f"at least {least:g} times its throughput", f"{times:.2f} times", times >= least
        else:
            continue
        what = f"{ours.peer.title} against {peer.peer.title}, {given}, {ours.records:,} records"
        found.append(Mark(what, mark, measured, is_met))
    return found


def of_small(quantiles: Mapping[str, tuple[int, float, float]]) -> list[Mark]:
    """Our small loads held against their commits alone, and the slowest against the median.

    Args:
        quantiles: Of each peer's small loads: how many, the 50th and the 99th percentile in seconds.
    """
    if not {"ours", "commits"} <= quantiles.keys():
        return []
    (_, middle, high), (_, floor, _) = quantiles["ours"], quantiles["commits"]
    times, spread, what = middle / floor, high / middle, "Tidemark, Silver load of 1,000 records"
    return [
        Mark(
            f"{what}, p50",
            f"at most {MOST_COMMITS_TIMES:g} times its three commits, bare",
            f"{times:.2f} times",
            times <= MOST_COMMITS_TIMES,
        ),
        Mark(f"{what}, p99", f"at most {MOST_P99_TIMES:g} times its p50", f"{spread:.2f} times", spread <= MOST_P99_TIMES),
    ]
