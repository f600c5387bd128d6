"""The rows of the parts in the table of costs, and the page."""

import shutil
from pathlib import Path

import pytest

from bench import marks, page, parts, run
from bench.cold import BARE_PROCESS, COLD, FEW_NEW, NOTHING_NEW, SMALL, SPARK_START, VERIFY
from bench.endless import HEAP, KEPT, SLOWEST
from bench.growth import GROWN_LOAD, GROWN_MERGE, Sizes
from bench.shapes import SHAPED_FLOOR, SHAPED_LOAD, SHAPES
from bench.sitting import Fact, Measurement, RoundStart, Sitting
from bench.small import BARE_COMMITS, NOTHING, RECOVERY, WARM
from bench.streams import STREAMS_LOAD, Case
from bench.whole import BARE_COPY, THREE_COPIES, TO_BRONZE, TO_GOLD


def taken(name: str, pattern: str, *seconds: float, records: int = 100, peak_bytes: int | None = None) -> list[Measurement]:
    return [Measurement(name, pattern, nth, records, each, 1.0, 0.1, peak_bytes) for nth, each in enumerate(seconds, start=1)]


def met(found: list[marks.Mark]) -> list[tuple[str, bool | None]]:
    return [(each.measured, each.is_met) for each in found]


def test_the_last_history_is_compared_with_the_first_and_both_with_merge() -> None:
    small = taken(GROWN_LOAD, "on 500,000", 9.0, 4.0, 1.0, peak_bytes=1_000)
    large = taken(GROWN_LOAD, "on 32,000,000", 5.0, 5.3, 9.0, peak_bytes=1_100)
    between = taken(GROWN_LOAD, "on 2,000,000", 99.0, peak_bytes=9_000)
    assert met(marks.of_growth(Sitting(small + between + large))) == [("5.30 s, 1.32 times", False), ("1.10 times", True)]
    assert marks.of_growth(Sitting(small)) == []
    merge = taken(GROWN_MERGE, "on 500,000", 2.0) + taken(GROWN_MERGE, "on 32,000,000", 53.0)
    found = marks.of_growth(Sitting(small + large + merge))
    assert met(found[2:]) == [("2.00 times", None), ("0.10 times", True)]


@pytest.mark.parametrize("most", [16_000, 123_457, 32_000_000])
def test_measured_loads_lie_around_the_named_history_and_divide_among_partitions(most: int) -> None:
    sizes = Sizes.up_to(most, 3)
    assert all(size % 8 == 0 for size in (*sizes.histories, sizes.load))
    assert sizes.before(sizes.histories[0]) > 0
    if most == 32_000_000:  # of five loads, the first two warm up
        starts = [sizes.before(500_000) + nth * sizes.load for nth in range(5)]
        assert starts == [200_000, 300_000, 400_000, 500_000, 600_000]


def test_loads_on_many_streams_are_compared_with_a_load_on_one() -> None:
    one, few = taken(STREAMS_LOAD, "1 of 1 stream", 2.0), taken(STREAMS_LOAD, Case(50_000, 8).pattern, 3.5)
    every = taken(STREAMS_LOAD, Case(50_000, 50_000).pattern, 5.5)
    assert met(marks.of_streams(Sitting(one + few + every))) == [("3.50 s, +1.50 s", True), ("5.50 s, +3.50 s", False)]
    assert marks.of_streams(Sitting()) == []


def test_a_load_of_each_shape_is_held_against_its_bare_commits_of_the_same_round() -> None:
    gaps, late = SHAPES[1].pattern, SHAPES[4].pattern
    loads = taken(SHAPED_LOAD, gaps, 1.2, 9.0, 1.3) + taken(SHAPED_LOAD, late, 1.3)
    bare = taken(SHAPED_FLOOR, gaps, 1.0, 2.0, 1.0) + taken(SHAPED_FLOOR, late, 1.0)
    assert met(marks.of_shapes(Sitting(loads + bare))) == [("1.30 times", False), ("1.30 times", True)]
    assert marks.of_shapes(Sitting(loads)) == []


def test_a_run_cold_or_warm_is_compared_with_sparks_start_and_its_bare_commits() -> None:
    start, nothing_new = taken(SPARK_START, "", 5.0, 6.0, 7.0), taken(COLD, NOTHING_NEW, 13.0, 14.0, 15.0)
    verify = taken(VERIFY, SMALL, 16.5)
    found = marks.of_cold(Sitting(start + nothing_new + verify))
    assert met(found) == [("14.00 s, +8.00 s", True), ("16.50 s, +10.50 s", False)]
    few_new, bare = taken(COLD, FEW_NEW, 30.0, 33.0, 99.0), taken(BARE_PROCESS, FEW_NEW, 20.0, 20.0, 20.0)
    assert met(marks.of_cold(Sitting(start + few_new + bare))) == [("33.00 s, 1.65 times", False)]
    assert marks.of_cold(Sitting(nothing_new)) == []
    warm = taken(WARM, "1,000 new", 3.9, 3.9) + taken(BARE_COMMITS, "1,000 new", 2.0, 3.0)
    few = warm + taken(NOTHING, "0 new", 1.0) + taken(RECOVERY, "on 8", 5.1)
    assert met(marks.of_small(Sitting(few))) == [("3.90 s, 1.62 times", False), ("1.00 s", True), ("5.10 s", False)]


def test_the_last_of_many_runs_are_compared_with_the_first_in_speed_with_the_second() -> None:
    facts = [
        Fact(name, pattern, value, "")
        for name, values in {HEAP: (100, 115, 121), KEPT: (50, 60, 40), SLOWEST: (9.0, 2.0, 2.4)}.items()
        for pattern, value in zip(("runs 1 to 9", "runs 10 to 18", "runs 19 to 27"), values, strict=True)
    ]
    found = marks.of_endless(Sitting(facts=facts))
    assert met(found) == [("1.21 times", False), ("0.80 times", True), ("1.20 times", True)]
    assert found[2].what.endswith("runs 19 to 27, against runs 10 to 18")
    assert marks.of_endless(Sitting()) == []


def test_the_whole_path_is_compared_with_the_copies_of_the_same_round_and_topic() -> None:
    copies = taken(BARE_COPY, "clean", 9.0, 18.0) + taken(BARE_COPY, "other", 1.0) + taken(THREE_COPIES, "clean", 16.0, 20.0)
    bronze, gold = taken(TO_BRONZE, "clean", 9.4, 18.8), taken(TO_GOLD, "clean", 16.0, 24.0)
    found = met(marks.of_whole(Sitting(copies + bronze + gold)))
    assert found == [("96%", True), ("5 records/s; 1.10 times three plain copies", None)]


def test_raw_numbers_are_read_as_they_were_saved(tmp_path: Path) -> None:
    sitting = Sitting(taken(TO_GOLD, "clean", 1.5), [RoundStart(1, 0.2, None)], [Fact("bytes", "p", 3, "bytes")])
    parts.save(tmp_path / "part.json", sitting, {"cores": 2})
    found, conditions = parts.load(tmp_path / "part.json")
    assert (found.measurements, found.starts, found.facts) == (sitting.measurements, sitting.starts, sitting.facts)
    assert conditions == {"cores": 2}


def test_the_page_shows_what_is_saved_and_names_what_was_never_run(tmp_path: Path) -> None:
    small = taken(GROWN_LOAD, "on 8", 4.0, peak_bytes=10**9)
    sitting = Sitting(small + taken(GROWN_LOAD, "on 32", 8.0, peak_bytes=10**9), [RoundStart(1, 0.2, 0.75)])
    parts.save(parts.file_of(tmp_path, parts.GROWTH), sitting, {"cores": 2, "in all": "9 minutes", "driver": "5g"})
    parts.save(parts.file_of(tmp_path, parts.COLD), Sitting(), {"cores": 2, "in all": "3 minutes"})
    page.write(tmp_path)
    text = (tmp_path / page.PAGE).read_text(encoding="utf-8")
    assert "| Silver load of 100,000 on 32 records, against on 8 | 8.00 s, 2.00 times | at most 1.3 times | **no** |" in text
    assert "| shapes: no saved numbers; `make bench` measures them |  |  |  |" in text
    assert "> - before round 1: 0.75 cores" in text
    assert "- [growth](benchmarks/growth.json), `make bench-scale`, driver 5g\n" in text
    assert "Conditions: cores 2." in text
    assert "peers: no saved numbers; `make bench` measures them" in text


def test_the_committed_page_is_the_one_that_the_saved_numbers_give(tmp_path: Path) -> None:
    docs = Path(__file__).parents[2] / "docs"
    shutil.copy(docs / page.RAW, tmp_path)
    shutil.copytree(docs / parts.FOLDER, tmp_path / parts.FOLDER)
    assert run.main(["--page", "--save", str(tmp_path)]) == 0
    assert (tmp_path / page.PAGE).read_text(encoding="utf-8") == (docs / page.PAGE).read_text(encoding="utf-8")
