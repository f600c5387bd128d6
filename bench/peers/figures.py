"""What the runs of the peers come to: medians and spread of each peer on each input, and quantiles of small loads."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from math import ceil
from statistics import median
from typing import TYPE_CHECKING

from bench.peers.registry import CHECKED, PEERS, TIMED, TO_TOPIC, with_copy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bench.peers.outcome import Outcome, SmallLoad
    from bench.peers.registry import Peer
    from bench.truth import Counts

SHOWN: Mapping[str, Peer] = {
    each.name: each for peer in PEERS for each in ((peer, with_copy(peer)) if peer.way == TO_TOPIC else (peer,))
}
"""Every row that the tables can have: the peers, and those from topic to topic with a copy behind them."""

_MILLION = 1_000_000


@dataclass(frozen=True)
class Figure:
    """A peer on an input, over its rounds.

    Attributes:
        peer: The peer.
        input: The input's name.
        records: How many records came in.
        times: Wall times in seconds, one per round.
        megabytes_per_second: Of the records' values.
        cpu_seconds_per_million: CPU time per million records; None where it cannot be known.
        peak_bytes: Memory.
        written_bytes: What lies there afterwards.
        written_files: In how many files.
        state_bytes: What the peer needs to go on.
        counts: Of the round with the worst result.
    """

    peer: Peer
    input: str
    records: int
    times: tuple[float, ...]
    megabytes_per_second: float
    cpu_seconds_per_million: float | None
    peak_bytes: int
    written_bytes: int
    written_files: int
    state_bytes: int
    counts: Counts

    @property
    def seconds(self) -> float:
        """The median of the wall times."""
        return median(self.times)

    @property
    def records_per_second(self) -> float:
        """Throughput, by the median."""
        return self.records / self.seconds


def figures(outcomes: Iterable[Outcome]) -> list[Figure]:
    """The timed runs, in the order of the peers and of the inputs; memory and sizes are medians too."""
    peers, inputs = list(SHOWN), [each.name for each in TIMED]
    timed = sorted((each for each in outcomes if each.round), key=lambda one: (peers.index(one.peer), inputs.index(one.input)))
    return [_figure(list(runs)) for _, runs in groupby(timed, key=lambda one: (one.peer, one.input))]


def _figure(runs: Sequence[Outcome]) -> Figure:
    first, seconds = runs[0], median(run.seconds for run in runs)
    cpu = [run.cpu_seconds for run in runs if run.cpu_seconds is not None]
    return Figure(
        SHOWN[first.peer],
        first.input,
        first.records,
        tuple(run.seconds for run in runs),
        first.value_megabytes / seconds,
        median(cpu) * _MILLION / first.records if cpu else None,
        int(median(run.peak_bytes for run in runs)),
        int(median(run.written_bytes for run in runs)),
        int(median(run.written_files for run in runs)),
        int(median(run.state_bytes for run in runs)),
        max((run.counts for run in runs), key=lambda counts: (counts.lost, counts.doubled, counts.out_of_order)),
    )


def checked(outcomes: Iterable[Outcome]) -> dict[str, dict[str, Counts]]:
    """What the results of the small inputs hold, by peer and input."""
    names = [each.name for each in CHECKED]
    small = [each for each in outcomes if not each.round]
    return {
        peer: {each.input: each.counts for each in small if each.peer == peer and each.input in names}
        for peer in SHOWN
        if any(each.peer == peer for each in small)
    }


def cold_seconds(outcomes: Iterable[Outcome]) -> dict[str, float]:
    """The median cold start of each peer, over its processes."""
    starts: dict[str, set[float]] = {}
    for each in outcomes:
        starts.setdefault(each.peer, set()).add(each.cold_seconds)
    return {peer: median(starts[peer]) for peer in SHOWN if peer in starts}


def small_quantiles(loads: Iterable[SmallLoad]) -> dict[str, tuple[int, float, float]]:
    """Of each peer's small loads: how many, the 50th and the 99th percentile in seconds."""
    times: dict[str, list[float]] = {}
    for each in loads:
        times.setdefault(each.peer, []).append(each.seconds)
    return {peer: (len(some), percentile(some, 50), percentile(some, 99)) for peer, some in times.items()}


def percentile(values: Sequence[float], percent: int) -> float:
    """The smallest value that so many percent of all values do not exceed (nearest rank).

    >>> percentile([4.0, 1.0, 3.0, 2.0], 50), percentile([4.0, 1.0, 3.0, 2.0], 99)
    (2.0, 4.0)
    """
    return sorted(values)[ceil(percent / 100 * len(values)) - 1]
