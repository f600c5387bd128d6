"""The marks: what each measure is held against, and whether it is met."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from bench import report
from bench.backfill import BACKFILL, INPUT_BYTES, LONGEST_SILENCE, SPILLED_BYTES
from bench.cold import BARE_PROCESS, COLD, COMMANDS, SPARK_START
from bench.endless import HEAP, KEPT, SLOWEST
from bench.growth import GROWN_LOAD, GROWN_MERGE
from bench.readers import FOLDER, READERS, S3
from bench.shapes import SHAPED_FLOOR, SHAPED_LOAD, SHAPES
from bench.sitting import BARE_COMMITS
from bench.streams import BARE_LOAD, STREAMS_LOAD
from bench.whole import BARE_COPY, THREE_COPIES, TO_BRONZE, TO_GOLD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from bench.sitting import Measurement, Sitting

MOST_GROWTH_TIMES = 1.3
MOST_MERGE_TIMES = {"on 500,000": 1.0, "on 8,000,000": 0.5, "on 32,000,000": 0.25}
MOST_MEMORY_TIMES = 1.2
"""What counts as flat: a JVM's memory is never the same twice."""
MOST_SLOWER_TIMES = 1.2
MOST_STREAMS_SECONDS = 2.0
MOST_S3_SECONDS = 3.0
MOST_COLD_SECONDS = 8.0
MOST_COMMAND_SECONDS = 10.0
LEAST_BRONZE_SHARE = 0.95
MOST_COPIES_TIMES = 1.2
MOST_SPILLED_TIMES = 1.0
MOST_SILENCE_SECONDS = 15.0


@dataclass(frozen=True)
class Mark:
    """A mark, and what was measured.

    Attributes:
        what: What is measured.
        mark: What it has to be.
        measured: What it is.
        is_met: Whether that is so; None where nothing is aimed at.
    """

    what: str
    mark: str
    measured: str
    is_met: bool | None


def of_loads(sitting: Sitting) -> list[Mark]:
    """The marks of ours beside its own base, as `bench.report` has them."""
    found = []
    for figure in report.figures(sitting.measurements):
        what = f"{figure.name}, {figure.pattern}" if figure.pattern else figure.name
        found += [Mark(what, *mark) for mark in figure.marks]
    return found


def of_growth(sitting: Sitting) -> list[Mark]:
    """The last history held against the first: times, and memory; and a load beside MERGE on the same history."""
    found = []
    for what, times in _growth(_seconds(sitting, GROWN_LOAD), GROWN_LOAD):
        met = times <= MOST_GROWTH_TIMES
        found.append(Mark(what, f"at most {MOST_GROWTH_TIMES:g} times", f"{times:.2f} times", met))
    for what, times in _growth(_medians(sitting, GROWN_LOAD, lambda each: float(each.peak_bytes or 0)), GROWN_LOAD):
        flat = f"flat: at most {MOST_MEMORY_TIMES:g} times"
        found.append(Mark(f"{what}, memory of driver and executor", flat, f"{times:.2f} times", times <= MOST_MEMORY_TIMES))
    merge = _seconds(sitting, GROWN_MERGE)
    for history, seconds in _seconds(sitting, GROWN_LOAD).items():
        if history in MOST_MERGE_TIMES and history in merge:
            times, most = seconds / merge[history], MOST_MERGE_TIMES[history]
            what = f"Silver load {history} beside Delta MERGE"
            found.append(Mark(what, f"at most {most:g} times its time", f"{times:.2f} times", times <= most))
    for what, times in _growth(merge, GROWN_MERGE):
        found.append(Mark(what, "none: for comparison", f"{times:.2f} times", None))
    return found


def _growth(values: Mapping[str, float], name: str) -> Iterator[tuple[str, float]]:
    """How many times the first value the last one is; nothing where there are not two."""
    if len(values) > 1:
        (first, least), *_, (last, most) = values.items()
        yield f"{name}: {last} against {first}", most / least


def of_streams(sitting: Sitting) -> list[Mark]:
    """Each load on the most streams held against the one on the fewest, in seconds, and against its bare commits."""
    seconds = _seconds(sitting, STREAMS_LOAD)
    if not seconds:
        return []
    (first, base), most = next(iter(seconds.items())), list(seconds.items())[-2:]
    times, most_times = _times(sitting, STREAMS_LOAD, BARE_LOAD), report.MOST_COMMITS_TIMES
    beside = [
        Mark(
            f"{STREAMS_LOAD}: {pattern}",
            f"at most {most_times:g} times its three commits, bare",
            f"{taken:.2f} times",
            taken <= most_times,
        )
        for pattern, _ in most
        if (taken := times.get(pattern)) is not None
    ]
    return beside + [
        Mark(
            f"{STREAMS_LOAD}: {pattern} against {first}",
            f"at most {MOST_STREAMS_SECONDS:g} s more",
            f"{taken - base:+.2f} s",
            taken - base <= MOST_STREAMS_SECONDS,
        )
        for pattern, taken in most
    ]


def of_shapes(sitting: Sitting) -> list[Mark]:
    """A load of each shape held against its commits, bare, of the same round."""
    most = {shape.pattern: shape.most_times for shape in SHAPES}
    return [
        Mark(
            f"Silver load, {pattern}",
            f"at most {most[pattern]:g} times its commits, bare",
            f"{times:.2f} times",
            times <= most[pattern],
        )
        for pattern, times in _times(sitting, SHAPED_LOAD, SHAPED_FLOOR).items()
    ]


def of_cold(sitting: Sitting) -> list[Mark]:
    """Each process whole, held against Spark's own start in the same sitting, and a run also against its bare commits."""
    start = next(iter(_seconds(sitting, SPARK_START).values()), None)
    if start is None:
        return []
    most = report.MOST_COMMITS_TIMES
    beside = [
        Mark(f"{COLD}, {pattern}", f"at most {most:g} times {BARE_PROCESS}", f"{times:.2f} times", times <= most)
        for pattern, times in _times(sitting, COLD, BARE_PROCESS).items()
    ]
    return beside + [
        Mark(
            f"{name}, {pattern}",
            f"at most {most:g} s more than Spark's own start",
            f"{taken - start:+.2f} s, {start:.2f} s the start",
            taken - start <= most,
        )
        for name, most in {COLD: MOST_COLD_SECONDS, **dict.fromkeys(COMMANDS, MOST_COMMAND_SECONDS)}.items()
        for pattern, taken in _seconds(sitting, name).items()
    ]


def of_endless(sitting: Sitting) -> list[Mark]:
    """The last tenth of the runs held against the first, and in speed against the second: the first is warming up."""
    found = []
    for name, base, most in ((HEAP, 0, MOST_MEMORY_TIMES), (KEPT, 0, MOST_MEMORY_TIMES), (SLOWEST, 1, MOST_SLOWER_TIMES)):
        facts = [each for each in sitting.facts if each.name == name]
        if facts:
            times = facts[-1].value / facts[base].value
            what = f"run after run: {name}, {facts[-1].pattern} against {facts[base].pattern}"
            found.append(Mark(what, f"at most {most:g} times", f"{times:.2f} times", times <= most))
    return found


def of_readers(sitting: Sitting) -> list[Mark]:
    """Each command on tables in S3; what a folder takes is told with it."""
    found = []
    for name in READERS:
        taken = _seconds(sitting, f"tidemark {name}")
        if S3 in taken:
            measured = f"{taken[S3]:.2f} s, {taken[FOLDER]:.2f} s {FOLDER}"
            found.append(
                Mark(f"tidemark {name}, {S3}", f"at most {MOST_S3_SECONDS:g} s", measured, taken[S3] <= MOST_S3_SECONDS)
            )
    return found


def of_whole(sitting: Sitting) -> list[Mark]:
    """Bronze held against the bare copy of the same round, all stages against three copies and against a run's bare commits.

    They take in the same records.
    """
    least = LEAST_BRONZE_SHARE
    bronze = [
        Mark(
            f"{TO_BRONZE}, {pattern}",
            f"at least {least:.0%} of the bare copy's throughput",
            f"{1 / times:.0%}",
            1 / times >= least,
        )
        for pattern, times in _times(sitting, TO_BRONZE, BARE_COPY).items()
    ]
    bases = (
        (THREE_COPIES, "three plain copies", MOST_COPIES_TIMES),
        (BARE_COMMITS, BARE_COMMITS, report.MOST_COMMITS_TIMES),
    )
    return bronze + [
        Mark(f"{TO_GOLD}, {pattern}", f"at most {most:g} times {what}", f"{times:.2f} times", times <= most)
        for base, what, most in bases
        for pattern, times in _times(sitting, TO_GOLD, base).items()
    ]


def of_backfill(sitting: Sitting) -> list[Mark]:
    """What was spilled, held against the input; and the longest time without a word."""
    facts = {each.name: each.value for each in sitting.facts}
    patterns = list(_seconds(sitting, BACKFILL))
    if not patterns or not {INPUT_BYTES, SPILLED_BYTES, LONGEST_SILENCE} <= facts.keys():
        return []
    times, silence = facts[SPILLED_BYTES] / facts[INPUT_BYTES], facts[LONGEST_SILENCE]
    return [
        Mark(f"{BACKFILL}, {patterns[0]}", "ends, and holds each record once", "it did", is_met=True),
        Mark(
            f"{BACKFILL}, {patterns[0]}: spilled to disk",
            "not more than its input",
            f"{times:.2f} times its input",
            times <= MOST_SPILLED_TIMES,
        ),
        Mark(
            f"{BACKFILL}, {patterns[0]}: longest time without a word of progress",
            f"at most {MOST_SILENCE_SECONDS:g} s",
            f"{silence:.1f} s",
            silence <= MOST_SILENCE_SECONDS,
        ),
    ]


def _seconds(sitting: Sitting, name: str) -> dict[str, float]:
    return _medians(sitting, name, lambda each: each.seconds)


def _medians(sitting: Sitting, name: str, of: Callable[[Measurement], float]) -> dict[str, float]:
    """A measure's medians over the rounds, by its inputs in the order in which they came."""
    values: dict[str, list[float]] = {}
    for each in sitting.measurements:
        if each.name == name:
            values.setdefault(each.pattern, []).append(of(each))
    return {pattern: median(some) for pattern, some in values.items()}


def _times(sitting: Sitting, name: str, base: str) -> Mapping[str, float]:
    """A measure's time held against its base's in the same round, the median over rounds, by its inputs."""
    bases = {(each.pattern, each.round): each for each in sitting.measurements if each.name == base}
    times: dict[str, list[float]] = {}
    for each in sitting.measurements:
        other = bases.get((each.pattern, each.round))
        if each.name == name and other is not None:
            times.setdefault(each.pattern, []).append(each.seconds / other.seconds)
    return {pattern: median(some) for pattern, some in times.items()}
