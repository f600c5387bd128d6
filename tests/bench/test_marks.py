"""What the benchmark's parts come to: their marks, and the sections that they have on the page."""

import json
from pathlib import Path

import pytest

from bench import event_log, marks, parts, report
from bench.backfill import BACKFILL, INPUT_BYTES, LONGEST_SILENCE, SPILLED_BYTES
from bench.cold import BARE_PROCESS, COLD, FEW_NEW, NOTHING_NEW, SMALL, SPARK_START
from bench.endless import HEAP, KEPT, SLOWEST
from bench.growth import GROWN_LOAD, GROWN_MERGE, Sizes
from bench.peers import page
from bench.sitting import BARE_COMMITS, SILVER, WARM, Fact, Measurement, RoundStart, Sitting
from bench.streams import BARE_LOAD, STREAMS_LOAD, Case
from bench.whole import BARE_COPY, THREE_COPIES, TO_BRONZE, TO_GOLD


def taken(name: str, pattern: str, *seconds: float, records: int = 100, peak_bytes: int | None = None) -> list[Measurement]:
    return [Measurement(name, pattern, nth, records, each, 1.0, 0.1, peak_bytes) for nth, each in enumerate(seconds, start=1)]


def met(found: list[marks.Mark]) -> list[tuple[str, bool | None]]:
    return [(each.measured, each.is_met) for each in found]


def test_the_last_history_is_held_against_the_first_and_a_load_against_merge() -> None:
    small = taken(GROWN_LOAD, "on 500,000", 9.0, 4.0, 1.0, peak_bytes=1_000)
    large = taken(GROWN_LOAD, "on 32,000,000", 5.0, 5.3, 9.0, peak_bytes=1_100)
    between = taken(GROWN_LOAD, "on 2,000,000", 99.0, peak_bytes=9_000)
    assert met(marks.of_growth(Sitting(small + between + large))) == [("1.32 times", False), ("1.10 times", True)]
    assert marks.of_growth(Sitting(small)) == []
    merge = taken(GROWN_MERGE, "on 500,000", 2.0) + taken(GROWN_MERGE, "on 8,000,000", 9.0)
    assert met(marks.of_growth(Sitting(merge))) == [("4.50 times", None)]  # MERGE's growth has no mark
    ours = taken(GROWN_LOAD, "on 500,000", 2.2, peak_bytes=9) + taken(GROWN_LOAD, "on 8,000,000", 2.7, peak_bytes=9)
    beside = [each for each in marks.of_growth(Sitting(merge + ours)) if "beside" in each.what]
    assert met(beside) == [("1.10 times", False), ("0.30 times", True)]


@pytest.mark.parametrize("most", [16_000, 123_457, 32_000_000])
def test_measured_loads_lie_around_the_named_history_and_divide_among_partitions(most: int) -> None:
    sizes = Sizes.up_to(most, 3)
    assert all(size % 8 == 0 for size in (*sizes.histories, sizes.load))
    assert sizes.before(sizes.histories[0]) > 0
    if most == 32_000_000:  # of five loads, the first two warm up
        starts = [sizes.before(500_000) + nth * sizes.load for nth in range(5)]
        assert starts == [200_000, 300_000, 400_000, 500_000, 600_000]


def test_streams_are_held_against_one_and_against_their_commits_both_where_few_and_where_all_are_touched() -> None:
    one, few = taken(STREAMS_LOAD, "1 of 1 stream", 2.0), taken(STREAMS_LOAD, Case(50_000, 8).pattern, 3.5)
    every = taken(STREAMS_LOAD, Case(50_000, 50_000).pattern, 5.5)
    assert met(marks.of_streams(Sitting(one + few + every))) == [("+1.50 s", True), ("+3.50 s", False)]
    bare = taken(BARE_LOAD, Case(50_000, 8).pattern, 2.0) + taken(BARE_LOAD, Case(50_000, 50_000).pattern, 5.0)
    assert met(marks.of_streams(Sitting(one + few + every + bare)))[:2] == [("1.75 times", False), ("1.10 times", True)]


def test_a_run_cold_or_warm_is_held_against_sparks_start_and_its_bare_commits() -> None:
    start, nothing_new = taken(SPARK_START, "", 5.0, 6.0, 7.0), taken(COLD, NOTHING_NEW, 13.0, 14.0, 15.0)
    verify = taken("tidemark verify", SMALL, 16.5)
    assert met(marks.of_cold(Sitting(start + nothing_new + verify))) == [
        ("+8.00 s, 6.00 s the start", True),
        ("+10.50 s, 6.00 s the start", False),
    ]
    few_new, bare = taken(COLD, FEW_NEW, 30.0, 33.0, 99.0), taken(BARE_PROCESS, FEW_NEW, 20.0, 20.0, 20.0)
    held = marks.of_cold(Sitting(start + few_new + bare))
    assert met(held) == [("1.65 times", False), ("+27.00 s, 6.00 s the start", False)]
    warm = taken(WARM, "1,000 new", 3.9, 3.9) + taken(BARE_COMMITS, "1,000 new", 2.0, 3.0)
    assert met(marks.of_loads(Sitting(warm))) == [("1.62 times", False), ("3.90 s", True)]


def test_the_last_of_many_runs_are_held_against_the_first_and_in_speed_against_the_second() -> None:
    facts = [
        Fact(name, pattern, value, "")
        for name, values in {HEAP: (100, 115, 121), KEPT: (50, 60, 40), SLOWEST: (9.0, 2.0, 2.4)}.items()
        for pattern, value in zip(("runs 1 to 9", "runs 10 to 18", "runs 19 to 27"), values, strict=True)
    ]
    found = marks.of_endless(Sitting(facts=facts))
    assert met(found) == [("1.21 times", False), ("0.80 times", True), ("1.20 times", True)]
    assert found[2].what.endswith("runs 19 to 27 against runs 10 to 18")
    assert marks.of_endless(Sitting()) == []


def test_the_whole_path_is_held_against_the_copies_of_the_same_round_and_topic() -> None:
    copies = taken(BARE_COPY, "clean", 9.0, 18.0) + taken(BARE_COPY, "other", 1.0) + taken(THREE_COPIES, "clean", 16.0, 20.0)
    bronze, gold = taken(TO_BRONZE, "clean", 9.4, 18.8), taken(TO_GOLD, "clean", 16.0, 40.0)
    assert met(marks.of_whole(Sitting(copies + bronze + gold))) == [("96%", True), ("1.50 times", False)]
    commits = taken(BARE_COMMITS, "clean", 16.0, 25.0)
    assert met(marks.of_whole(Sitting(gold + commits))) == [("1.30 times", True)]


def test_a_backfill_may_spill_as_much_as_it_reads_and_has_to_speak() -> None:
    counted = [
        Fact(INPUT_BYTES, "p", 100, "bytes"),
        Fact(SPILLED_BYTES, "p", 101, "bytes"),
        Fact(LONGEST_SILENCE, "p", 15, "s"),
    ]
    sitting = Sitting(taken(BACKFILL, "p", 60.0), [], counted)
    assert met(marks.of_backfill(sitting))[1:] == [("1.01 times its input", False), ("15.0 s", True)]


def test_spills_are_summed_over_the_tasks_of_the_event_log(tmp_path: Path) -> None:
    log = event_log.write_conf(tmp_path)
    with pytest.raises(FileNotFoundError):
        event_log.spilled(log)
    tasks = [{"Memory Bytes Spilled": 7, "Disk Bytes Spilled": 2}, {"Memory Bytes Spilled": 5, "Disk Bytes Spilled": 1}]
    events = [{"Event": "SparkListenerTaskEnd", "Task Metrics": each} for each in tasks]
    events += [{"Event": "SparkListenerTaskEnd"}, {"Event": "SparkListenerStageCompleted", "Task Metrics": tasks[0]}]
    (log / "local-1").write_text("\n".join(json.dumps(each, separators=(",", ":")) for each in events))
    assert event_log.spilled(log) == (12, 3)


def test_raw_numbers_are_read_as_they_were_kept(tmp_path: Path) -> None:
    sitting = Sitting(taken(SILVER, "none", 1.5), [RoundStart(1, 0.2, None)], [Fact("bytes", "p", 3, "bytes")])
    report.save(tmp_path / "part.json", sitting, {"cores": 2})
    found, conditions = report.load(tmp_path / "part.json")
    assert (found.measurements, found.starts, found.facts) == (sitting.measurements, sitting.starts, sitting.facts)
    assert conditions == {"cores": 2}


def test_the_page_shows_what_is_kept_and_says_what_was_never_run(tmp_path: Path) -> None:
    small = taken(GROWN_LOAD, "on 8", 4.0, records=100, peak_bytes=10**9)
    sitting = Sitting(small + taken(GROWN_LOAD, "on 32", 8.0, peak_bytes=10**9), [RoundStart(1, 0.2, 0.75)])
    report.save(parts.file_of(tmp_path, parts.GROWTH), sitting, {"cores": 2})
    page.write(tmp_path)
    text = (tmp_path / page.PAGE).read_text(encoding="utf-8")
    assert f"| {GROWN_LOAD}: on 32 against on 8 | at most 1.3 times | 2.00 times | **no**, busy machine |" in text
    assert f"| {GROWN_LOAD} | on 8 | 4.00 | 4.00 to 4.00 | 1 | 1.0 | 25 | 1,000 |" in text
    assert "| Backfill | never run: `make bench-scale` |  |  |" in text
    assert "> - before round 1: 0.75 cores" in text
    assert "Conditions: cores 2." in text
    assert "| Beside what others use | never run: `make bench` |  |  |" in text
