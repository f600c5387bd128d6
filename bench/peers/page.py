"""The page of the peers: its tables as Markdown, made from the raw numbers that are kept beside it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from bench import parts
from bench.machine import QUIET_CORES
from bench.markdown import disturbed, table
from bench.peers import chart, marks
from bench.peers.figures import SHOWN, checked, cold_seconds, figures, small_quantiles
from bench.peers.outcome import Outcome, SmallLoad
from bench.peers.registry import CHECKED, FROM_BRONZE, FROM_KAFKA, TIMED, TO_TOPIC
from bench.peers.small import NAME, RECORDS
from bench.truth import Counts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bench.peers.figures import Figure
    from bench.peers.rounds import Found
    from bench.sitting import Sitting

PAGE, RAW, CHART = "benchmarks.md", "benchmarks.json", "benchmarks.svg"
_MEGABYTE = 1e6

_INTRODUCTION = """\
# Benchmarks

What Tidemark costs, compared with its marks and with what people use instead. `make bench`, `make bench-scale` and
`make bench-endless` write this page. Each part was measured in one sitting, under the conditions that it names.
"""

_BESIDE = "Beside what others use"

_READING = """\
## How it is measured

- One topic of 8 partitions on a local broker, with numbered records whose values do not compress. What is resent is planned, so
  the right result is known.
- Each peer has a process of its own and is set up as its own documents advise. The peers take turns, round by round. A time is
  the median of the rounds, with the least and the most.
- Times of small runs are compared with the run's commits alone, made in the same sitting: a run cannot be faster.
- Nothing else may use more than {quiet} cores meanwhile; otherwise the page begins by saying so.
- *CPU* is that of the peer and the broker. *Memory* is the most that the peer's processes held. *Written* is what is on disk at
  the end. *State* is what the peer needs to continue.
- One counter reads each result by the sequence in each record's header. *Lost*: sent, and neither in the result nor held.
  *Doubled*: rows whose sequence the result has already. *Out of order*: rows behind one of their partition with a higher
  sequence. *Held*: kept out and listed, for an operator to decide.
- *Cold* is from the start of the process to the end of its first job.
- Slow peers, and those that start at Kafka, are timed on one input; every result is counted on every input.
"""


def save(folder: Path, sitting: Sitting, found: Found, conditions: Mapping[str, object]) -> None:
    """Keep the raw numbers, and write the page and its chart from them."""
    raw = {
        "conditions": conditions,
        "is_valid": not sitting.disturbances(),
        "disturbances": sitting.disturbances(),
        "rounds": [asdict(start) for start in sitting.starts],
        "peers": {name: {"title": peer.title, "what": peer.what, "way": peer.way} for name, peer in SHOWN.items()},
        "outcomes": [asdict(each) for each in found.outcomes],
        "small_loads": [asdict(each) for each in found.small_loads],
        "failures": found.failures,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RAW).write_text(json.dumps(raw, indent=1) + "\n", encoding="utf-8")
    write(folder)


def write(folder: Path) -> None:
    """Write the page and its chart from the raw numbers that the folder holds; what was never run says so."""
    marked: list[tuple[str, ...]] = [(_BESIDE, "never run: `make bench`", "", "")]
    last = ""
    if (folder / RAW).exists():
        raw = json.loads((folder / RAW).read_text(encoding="utf-8"))
        outcomes = [Outcome(**{**each, "counts": Counts(**each["counts"])}) for each in raw["outcomes"]]
        small = [SmallLoad(**each) for each in raw["small_loads"]]
        (folder / "images").mkdir(exist_ok=True)
        (folder / "images" / CHART).write_text(chart.svg(figures(outcomes)), encoding="utf-8")
        found = [*marks.of_peers(figures(outcomes)), *marks.of_small(small_quantiles(small))]
        marked = parts.mark_lines(found, is_busy=bool(raw["disturbances"]))
        last = beside(raw, outcomes, small)
    text = "\n".join([_INTRODUCTION, parts.sections(folder, marked), last])
    (folder / PAGE).write_text(f"{text.rstrip()}\n", encoding="utf-8")


def beside(raw: Mapping[str, Any], outcomes: Sequence[Outcome], small: Sequence[SmallLoad]) -> str:
    """The peers' sections of the page."""
    conditions = "; ".join(f"{name} {value}" for name, value in raw["conditions"].items())
    sections = [
        f"## {_BESIDE}\n",
        disturbed(raw["disturbances"]),
        f"Conditions: {conditions}. Raw numbers: [{RAW}]({RAW}), by `make bench`.\n",
        f"![Records per second of each peer](images/{CHART})\n",
        *(_way(way, [figure for figure in figures(outcomes) if figure.peer.way == way]) for way in _WAYS),
        _correctness(checked(outcomes)),
        _small(small, raw["failures"]),
        _peers(cold_seconds(outcomes), raw["failures"]),
        _READING.format(quiet=QUIET_CORES),
    ]
    return "\n".join(section for section in sections if section)


_WAYS = {
    FROM_BRONZE: "From a Delta table that holds the topic as it came (Bronze) to a Delta table that holds each record once.",
    FROM_KAFKA: "All the way from the topic to a Delta table.",
    TO_TOPIC: "From the topic to another topic: half of the way.",
}


def _way(way: str, rows: Sequence[Figure]) -> str:
    if not rows:
        return ""
    head = (
        *("peer", "input", "seconds", "least to most", "records/s", "MB/s", "CPU s per million"),
        *("memory MB", "written MB", "files", "state MB", "lost", "doubled", "out of order"),
    )
    lines = [
        (
            *(row.peer.title, row.input, f"{row.seconds:.1f}", f"{min(row.times):.1f} to {max(row.times):.1f}"),
            *(f"{row.records_per_second:,.0f}", f"{row.megabytes_per_second:.0f}", _number(row.cpu_seconds_per_million)),
            *(_megabytes(row.peak_bytes), _megabytes(row.written_bytes), f"{row.written_files:,}"),
            *(_megabytes(row.state_bytes, ".2f"), f"{row.counts.lost:,}"),
            *(f"{row.counts.doubled:,}", f"{row.counts.out_of_order:,}"),
        )
        for row in rows
    ]
    return f"## {way}\n\n{_WAYS[way]} {rows[0].records:,} records.\n\n{table(head, lines, words=2)}"


def _correctness(results: Mapping[str, Mapping[str, Counts]]) -> str:
    names = [each.name for each in CHECKED]
    lines = [
        (SHOWN[peer].title, *(verdict(counts[name]) if name in counts else "did not run" for name in names))
        for peer, counts in results.items()
    ]
    if not lines:
        return ""
    rows = max(next(iter(counts.values())).rows for counts in results.values() if counts)
    text = (
        f"What each result holds, of small editions of the inputs (some {rows:,} records): exact is each record once, in order."
    )
    return f"## Correctness\n\n{text}\n\n{table(('peer', *names), lines, words=1 + len(names))}"


def verdict(counts: Counts) -> str:
    """A result in words.

    >>> verdict(Counts(rows=9, lost=0, doubled=0, out_of_order=0)), verdict(Counts(rows=9, lost=1, doubled=0, out_of_order=2))
    ('exact', '1 lost, 2 out of order')
    """
    found = {"lost": counts.lost, "doubled": counts.doubled, "out of order": counts.out_of_order, "held": counts.held}
    return ", ".join(f"{number:,} {name}" for name, number in found.items() if number) or "exact"


def _small(loads: Sequence[SmallLoad], failures: Mapping[str, str]) -> str:
    lines = [
        (SHOWN[peer].title, f"{number}", f"{middle:.2f}", f"{high:.2f}")
        for peer, (number, middle, high) in small_quantiles(loads).items()
    ]
    if not lines:
        return f"## Small loads\n\nThey failed: {_cell(failures[NAME])}\n" if NAME in failures else ""
    text = (
        f"{RECORDS:,} records more, on a history. Of a peer that loads a table: from when Bronze has them to its commit. Of\n"
        "one that runs on: from when Kafka has them to when a consumer has read them, committed. The 99th percentile of fewer\n"
        "than a hundred loads is the slowest. The others begin anew with every load, or were not tried."
    )
    return f"## Small loads\n\n{text}\n\n{table(('peer', 'loads', 'p50 s', 'p99 s'), lines)}"


def _peers(cold: Mapping[str, float], failures: Mapping[str, str]) -> str:
    lines = []
    for name, peer in SHOWN.items():
        ran = f"{cold[name]:.1f}" if name in cold else ""
        why = f"; did not run: {_cell(failures[name])}" if name in failures else "" if ran else "; not asked for"
        timed = "; ".join(each.name for each in TIMED if each in peer.timed)
        lines.append((peer.title, ran, peer.what + why, timed))
    peers = table(("peer", "cold s", "what it is", "timed on"), lines)
    return f"## The peers\n\n{peers}"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _megabytes(size: int, form: str = ",.0f") -> str:
    return format(size / _MEGABYTE, form)


def _number(number: float | None) -> str:
    return "" if number is None else f"{number:.1f}"
