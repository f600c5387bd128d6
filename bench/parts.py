"""The parts of the benchmark that are kept as files of their own, and the sections that they have on the page."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from bench import marks, report
from bench.markdown import disturbed, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from bench.marks import Mark
    from bench.sitting import Fact, Measurement, Sitting

FOLDER = "benchmarks"
"""Where the raw numbers of the parts lie, beside the page."""

LOADS, GROWTH, STREAMS, COLD, WHOLE, BACKFILL = "loads", "growth", "streams", "cold", "whole", "backfill"
READERS, ENDLESS, SHAPES = "readers", "endless", "shapes"

_MEGABYTE = 1e6
_WHOLE = 100
"""From here on a number is told without its fraction."""


@dataclass(frozen=True)
class Part:
    """A part of the benchmark.

    Attributes:
        name: Names its file.
        title: Its heading.
        text: What is done.
        command: What measures it.
        marks: Its marks.
    """

    name: str
    title: str
    text: str
    command: str
    marks: Callable[[Sitting], list[Mark]]


PARTS = (
    Part(
        LOADS,
        "Loads and commands",
        "Each measure and its base, on the same input, in turns.",
        "make bench",
        marks.of_loads,
    ),
    Part(
        SHAPES,
        "Shapes",
        "A load of each shape of numbers, values of 192 bytes, 8 partitions, next to the same commits, bare: a copy of\n"
        "all rows, and as many rows of ledger, rejects and watermarks. Bronze is made up by Spark.",
        "make bench-scale",
        marks.of_shapes,
    ),
    Part(
        GROWTH,
        "Growth",
        "Loads of the same size on histories that grow: values of 32 bytes, 8 partitions. Each size has a process of its\n"
        "own. *Memory* is the most that Python and the JVM held.",
        "make bench-scale",
        marks.of_growth,
    ),
    Part(
        STREAMS,
        "Streams",
        "Loads of some 100,000 records, with many streams in `silver_watermarks`: producers of 8 partitions that take\n"
        "turns record by record. *Bare*: the same rows go to copies of its tables, and nothing is decided.",
        "make bench-scale",
        marks.of_streams,
    ),
    Part(
        COLD,
        "Cold",
        "The installed command as a process of its own; a process that only opens the same Spark session; and one that\n"
        "only commits what a run commits (`bench/floor.py`).",
        "make bench-scale",
        marks.of_cold,
    ),
    Part(
        WHOLE,
        "The whole path",
        "The same topic of 8 partitions, values of 200 bytes, in one warm session: a bare Structured Streaming copy to\n"
        "Delta, Bronze alone, three copies from table to table, all stages to Gold, and the bare commits of a run.",
        "make bench-scale",
        marks.of_whole,
    ),
    Part(
        BACKFILL,
        "Backfill",
        "One load of all of Bronze into an empty Silver, with `SPARK_DRIVER_MEMORY=2g`, values of 32 bytes. *Memory* is\n"
        "that of the process and its JVM; a word is a line of the command's log.",
        "make bench-scale",
        marks.of_backfill,
    ),
    Part(
        READERS,
        "Readers",
        "The installed commands with `--json`, each a process of its own, on the same tables in a folder and in S3\n"
        "(SeaweedFS on this machine).",
        "make bench-scale",
        marks.of_readers,
    ),
    Part(
        ENDLESS,
        "Run after run",
        "Runs over 1,000 new records in one process, as by `tidemark run --every 0`, on a topic of 8 partitions. A row is\n"
        "a tenth of the runs; `tidemark maintain` runs after each tenth. *Live* is what a full garbage collection leaves\n"
        "of Spark's heap. Logs of tables are kept for 30 days by default, so their files grow until then.",
        "make bench-endless",
        marks.of_endless,
    ),
)


def file_of(folder: Path, name: str) -> Path:
    """Where a part's raw numbers are kept."""
    return folder / FOLDER / f"{name}.json"


def sections(folder: Path, more: Sequence[tuple[str, ...]] = ()) -> str:
    """The table of marks, and a section for each part; a part that was never run says so.

    Args:
        folder: The page's folder.
        more: Further lines of the table of marks.
    """
    lines: list[tuple[str, ...]] = []
    made = []
    for part in PARTS:
        if not file_of(folder, part.name).exists():
            lines.append((part.title, f"never run: `{part.command}`", "", ""))
            continue
        sitting, _ = report.load(file_of(folder, part.name))
        lines += mark_lines(part.marks(sitting), is_busy=bool(sitting.disturbances()))
        made.append(section(folder, part.name))
    marked = table(("what", "mark", "measured", "met?"), [*lines, *more], words=4)
    text = "The aims, and what was measured. Figures of a busy machine prove nothing; the section says if it was busy."
    return "\n".join([f"## Marks\n\n{text}\n\n{marked}", *made])


def mark_lines(marks: Iterable[Mark], *, is_busy: bool) -> list[tuple[str, ...]]:
    """Marks as lines of their table."""
    busy = ", busy machine" if is_busy else ""
    words = {True: f"yes{busy}", False: f"**no**{busy}", None: busy.removeprefix(", ")}
    return [(each.what, each.mark, each.measured, words[each.is_met]) for each in marks]


def section(folder: Path, name: str) -> str:
    """What was measured of one part, from its raw numbers."""
    part = next(part for part in PARTS if part.name == name)
    sitting, conditions = report.load(file_of(folder, name))
    told = "; ".join(f"{key} {value}" for key, value in conditions.items())
    where = f"{FOLDER}/{name}.json"
    pieces = [
        f"## {part.title}\n\n{part.text}\n",
        disturbed(sitting.disturbances()),
        f"Conditions: {told}. Raw numbers: [{where}]({where}), by `{part.command}`.\n",
        _measures(sitting.measurements),
        _facts(sitting.facts),
    ]
    return "\n".join(piece for piece in pieces if piece)


def _measures(measurements: list[Measurement]) -> str:
    groups: dict[tuple[str, str], list[Measurement]] = {}
    for each in measurements:
        groups.setdefault((each.name, each.pattern), []).append(each)
    if not groups:
        return ""
    head = ("measure", "input", "seconds", "least to most", "rounds", "CPU s", "records/s", "memory MB")
    return table(head, [_measure_line(*key, rounds) for key, rounds in groups.items()], words=2)


def _measure_line(name: str, pattern: str, rounds: list[Measurement]) -> tuple[str, ...]:
    times, records = [each.seconds for each in rounds], rounds[0].records
    cpu = [each.cpu_seconds for each in rounds if each.cpu_seconds is not None]
    peaks = [each.peak_bytes for each in rounds if each.peak_bytes is not None]
    return (
        *(name, pattern, f"{median(times):.2f}", f"{min(times):.2f} to {max(times):.2f}", f"{len(rounds)}"),
        f"{median(cpu):.1f}" if cpu else "",
        f"{records / median(times):,.0f}" if records else "",
        f"{median(peaks) / _MEGABYTE:,.0f}" if peaks else "",
    )


def _facts(facts: list[Fact]) -> str:
    """What was counted: a line for each input, a column for each count."""
    names = dict.fromkeys((each.name, each.unit) for each in facts)
    values = {(each.pattern, each.name): each.value for each in facts}
    lines = [
        (pattern, *(_number(values.get((pattern, name))) for name, _ in names))
        for pattern in dict.fromkeys(each.pattern for each in facts)
    ]
    return table(("input", *(f"{name}, {unit}" for name, unit in names)), lines, words=1) if lines else ""


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= _WHOLE else f"{value:,.4g}"
