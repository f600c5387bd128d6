"""The rows of the page's table of costs: what is compared with what, the aim, and whether it is met."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from bench.cold import BARE_PROCESS, COLD, FEW_NEW, SPARK_START, VERIFY
from bench.endless import HEAP, KEPT, SLOWEST
from bench.events import IN_EVENT, IN_HEADER, LOAD
from bench.growth import GROWN_LOAD, GROWN_MERGE
from bench.readers import FOLDER, READERS, S3
from bench.shapes import SHAPED_FLOOR, SHAPED_LOAD, SHAPES
from bench.small import BARE_COMMITS, NOTHING, RECOVERY, WARM
from bench.streams import STREAMS_LOAD
from bench.whole import BARE_COPY, THREE_COPIES, TO_BRONZE, TO_GOLD

if TYPE_CHECKING:
    from bench.sitting import Measurement, Sitting

MOST_COMMITS_TIMES = 1.5
MOST_SECONDS = {NOTHING: 1.0, RECOVERY: 5.0}
MOST_START_SECONDS = 8.0  # more than Spark's own start
MOST_S3_SECONDS = 3.0
MOST_GROWTH_TIMES = 1.3
MOST_MEMORY_TIMES = 1.2  # what counts as flat: a JVM's memory is never the same twice
MOST_MERGE_TIMES = 0.25
MOST_STREAMS_SECONDS = 2.0
MOST_SLOWER_TIMES = 1.2
MOST_EVENTS_TIMES = 1.3
LEAST_BRONZE_SHARE = 0.95


@dataclass(frozen=True)
class Mark:
    """A comparison: what is measured, its aim (empty for none), its value, and whether the aim is met (None for no aim)."""

    what: str
    mark: str
    measured: str
    is_met: bool | None


def of_shapes(sitting: Sitting) -> list[Mark]:
    """A load of each shape held against its commits, bare, of the same round."""
    most = {shape.pattern: shape.most_times for shape in SHAPES}
    loads = _times(sitting, SHAPED_LOAD, SHAPED_FLOOR)
    return [_at_most(f"Silver load, {each}", times, most[each], "times its commits, bare") for each, times in loads.items()]


def of_events(sitting: Sitting) -> list[Mark]:
    """Change events read by their position, held against the same events read by a header, of the same round."""
    times = _times(sitting, IN_EVENT, IN_HEADER)
    return [
        _at_most(f"{LOAD}, {IN_EVENT}", times[LOAD], MOST_EVENTS_TIMES, f"times {IN_HEADER}"),
        Mark(f"{TO_BRONZE}, {IN_EVENT}", "", f"{times[TO_BRONZE]:.2f} times", None),
    ]


def of_whole(sitting: Sitting) -> list[Mark]:
    """Bronze compared with the bare copy of the same round, and all stages with three plain copies."""
    least, seconds = LEAST_BRONZE_SHARE, _seconds(sitting, TO_GOLD)
    records = {each.pattern: each.records for each in sitting.measurements if each.name == TO_GOLD}
    share = {pattern: 1 / times for pattern, times in _times(sitting, TO_BRONZE, BARE_COPY).items()}
    aim = f"at least {least:.0%} of a bare copy's throughput"
    bronze = [Mark(f"{TO_BRONZE}, {each}", aim, f"{found:.0%}", found >= least) for each, found in share.items()]
    speed = {pattern: f"{records[pattern] / seconds[pattern]:,.0f} records/s" for pattern in records}
    return bronze + [
        Mark(f"{TO_GOLD}, {each}", "", f"{speed[each]}; {times:.2f} times three plain copies", None)
        for each, times in _times(sitting, TO_GOLD, THREE_COPIES).items()
    ]


def of_small(sitting: Sitting) -> list[Mark]:
    """A warm run compared with its commits alone, and the seconds of the runs that have nothing new to write."""
    found = _against_commits(sitting, WARM, BARE_COMMITS)
    return found + [
        _at_most(f"{name}, {pattern}", taken, most, "s", f"{taken:.2f} s")
        for name, most in MOST_SECONDS.items()
        for pattern, taken in _seconds(sitting, name).items()
    ]


def of_cold(sitting: Sitting) -> list[Mark]:
    """A run in its own process compared with its commits alone in another; the rest with Spark's own start."""
    found = _against_commits(sitting, COLD, BARE_PROCESS)
    start = _seconds(sitting, SPARK_START).get("")
    return found + [
        _more(f"{name}, {pattern}", taken, start, MOST_START_SECONDS, " than Spark's own start")
        for name in (COLD, VERIFY)
        for pattern, taken in _seconds(sitting, name).items()
        if pattern != FEW_NEW and start is not None
    ]


def of_growth(sitting: Sitting) -> list[Mark]:
    """The load on the largest history compared with the one on the smallest, and both with MERGE on the same history."""
    seconds, merge = _seconds(sitting, GROWN_LOAD), _seconds(sitting, GROWN_MERGE)
    memory = _medians(sitting, GROWN_LOAD, lambda each: float(each.peak_bytes or 0))
    if len(seconds) < 2:  # noqa: PLR2004 -- nothing to compare with
        return []
    first, *_, last = seconds
    times, held = seconds[last] / seconds[first], memory[last] / memory[first]
    found = [
        _in_seconds(f"Silver load of 100,000 {last} records, against {first}", seconds[last], times, MOST_GROWTH_TIMES),
        _at_most(f"memory of this load, against {first}", held, MOST_MEMORY_TIMES, "times"),
    ]
    if first in merge:
        measured = f"{seconds[first] / merge[first]:.2f} times"
        found.append(Mark(f"the same load {first}, against MERGE", "", measured, None))
    if last in merge:
        times = seconds[last] / merge[last]
        found.append(_at_most(f"the same load {last}, against MERGE", times, MOST_MERGE_TIMES, "times"))
    return found


def of_streams(sitting: Sitting) -> list[Mark]:
    """Loads on the most streams compared with the load on one, in seconds."""
    (first, base), *more = list(_seconds(sitting, STREAMS_LOAD).items()) or [("", 0.0)]
    return [
        _more(f"Silver load of 100,000, {pattern}, against {first}", taken, base, MOST_STREAMS_SECONDS)
        for pattern, taken in more
    ]


def of_readers(sitting: Sitting) -> list[Mark]:
    """Each command on tables in S3, with its time in a folder."""
    taken = {name: _seconds(sitting, f"tidemark {name}") for name in READERS}
    return [
        _at_most(f"tidemark {name}, {S3}", each[S3], MOST_S3_SECONDS, "s", f"{each[S3]:.2f} s, {each[FOLDER]:.2f} s {FOLDER}")
        for name, each in taken.items()
        if S3 in each
    ]


def of_endless(sitting: Sitting) -> list[Mark]:
    """The last tenth of the runs compared with the first; in speed with the second, because the first warms up."""
    found = []
    for name, base, most in ((HEAP, 0, MOST_MEMORY_TIMES), (KEPT, 0, MOST_MEMORY_TIMES), (SLOWEST, 1, MOST_SLOWER_TIMES)):
        facts = [each for each in sitting.facts if each.name == name]
        if facts:
            times = facts[-1].value / facts[base].value
            what = f"{name}, {facts[-1].pattern}, against {facts[base].pattern}"
            found.append(_at_most(what, times, most, "times"))
    return found


def _against_commits(sitting: Sitting, name: str, base: str) -> list[Mark]:
    """A run compared with its commits alone, of the same round."""
    seconds = _seconds(sitting, name)
    return [
        _in_seconds(f"{name}, {pattern}", seconds[pattern], times, MOST_COMMITS_TIMES, f"times {base}")
        for pattern, times in _times(sitting, name, base).items()
    ]


def _at_most(what: str, value: float, most: float, unit: str, measured: str = "") -> Mark:
    return Mark(what, f"at most {most:g} {unit}", measured or f"{value:.2f} times", value <= most)


def _in_seconds(what: str, seconds: float, times: float, most: float, unit: str = "times") -> Mark:
    return _at_most(what, times, most, unit, f"{seconds:.2f} s, {times:.2f} times")


def _more(what: str, seconds: float, base: float, most: float, than: str = "") -> Mark:
    return _at_most(what, seconds - base, most, f"s more{than}", f"{seconds:.2f} s, {seconds - base:+.2f} s")


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
    """A measure's time divided by its base's in the same round, the median over rounds, by its inputs."""
    bases = {(each.pattern, each.round): each for each in sitting.measurements if each.name == base}
    times: dict[str, list[float]] = {}
    for each in sitting.measurements:
        other = bases.get((each.pattern, each.round))
        if each.name == name and other is not None:
            times.setdefault(each.pattern, []).append(each.seconds / other.seconds)
    return {pattern: median(some) for pattern, some in times.items()}
