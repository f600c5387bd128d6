"""Loads over real tables: the classes, the ledger, and whatever cutting of the input gives the same tables."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from chispa import assert_df_equality

from lakehouse.errors import AnotherWriterError, RulesChangedError, TableStateError
from silver import load, plan, recovery
from silver.rules import Payload, Rules, Source
from tests.support.bronze import Record, put
from tests.support.reference import Seen, decide

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from lakehouse.run import Run

pytestmark = pytest.mark.spark

BY_HEADER = Rules(Source("header", "seq"))
BY_PRODUCER = Rules(Source("header", "seq"), producer=Source("header", "producer"), epoch=Source("header", "epoch"))


def load_all(spark: SparkSession, run: Run, rules: Rules = BY_HEADER) -> load.Load | None:
    load.create_tables(spark, run, rules)
    return load.load_once(spark, run, rules)


def kept(spark: SparkSession, run: Run) -> list[tuple[int, int]]:
    rows = spark.read.table(run.table("silver_records").sql).orderBy("partition", "offset").collect()
    return [(row["offset"], row["sequence"]) for row in rows]


def test_a_resent_block_is_kept_out_and_listed_as_one_block(spark: SparkSession, run: Run) -> None:
    put(spark, run, [Record.of(offset, sequence) for offset, sequence in enumerate([1, 2, 3, 4, 2, 3, 4, 5])])

    done = load_all(spark, run)

    assert done is not None
    assert (done.counts["accepted"], done.counts["below_watermark"]) == (5, 3)
    rejects = spark.read.table(run.table("silver_rejects").sql)
    expected = spark.createDataFrame(
        [("t", 0, None, 0, "below_watermark", None, 4, 6, 2, 4, 3, 1, "held")], rejects.schema
    )
    assert_df_equality(rejects, expected, transforms=[])
    marks = spark.read.table(run.table("silver_watermarks").sql).select("topic", "partition", "high_watermark", "last_offset")
    assert [tuple(row) for row in marks.collect()] == [("t", 0, 5, 7)]


def test_every_kind_of_bad_record_ends_in_its_class_and_the_rest_flows(spark: SparkSession, run: Run) -> None:
    put(
        spark,
        run,
        [
            Record.of(0, 1),
            Record(1, value=b"no header"),
            Record(2, headers=(("seq", b"2"), ("seq", b"3"))),
            Record.of(3, "9" * 40),
            Record.of(4, -5),
            Record.of(5, "2.5"),
            Record(6, headers=(("seq", b"\xff\xfe"),)),
            Record(7, headers=(("seq", None),)),
            Record(8, headers=(("seq", b"2"), ("seq", b"2"))),
            Record(9, key=None, value=None, headers=(("seq", b"3"),)),
            Record(10, value=b"", headers=(("seq", b"4"),)),
            Record(11, value=b"x" * 1_000_000, headers=(("seq", b"5"),)),
        ],
    )

    load_all(spark, run)

    rows = spark.read.table(run.table("silver_rejects").sql).orderBy("first_offset").collect()
    assert [(row["first_offset"], row["class"], row["reason"]) for row in rows] == [
        (1, "invalid", "sequence_missing"),
        (2, "invalid", "sequence_disagrees"),
        (3, "invalid", "sequence_out_of_range"),
        (4, "invalid", "sequence_not_a_whole_number"),
        (5, "invalid", "sequence_not_a_whole_number"),
        (6, "invalid", "sequence_not_a_whole_number"),
        (7, "invalid", "sequence_null"),
    ]
    assert kept(spark, run) == [(0, 1), (8, 2), (9, 3), (10, 4), (11, 5)]


def test_records_that_name_no_stream_still_move_the_partition(spark: SparkSession, run: Run) -> None:
    put(spark, run, [Record.of(0, 1), Record.of(1, 2)])  # no producer header

    load_all(spark, run, BY_PRODUCER)
    again = load_all(spark, run, BY_PRODUCER)

    marks = spark.read.table(run.table("silver_watermarks").sql).select("producer", "epoch", "high_watermark", "last_offset")
    assert [tuple(row) for row in marks.collect()] == [(None, None, None, 1)]
    assert again is None


def test_a_greater_epoch_starts_the_sequence_anew_and_fences_the_one_before(spark: SparkSession, run: Run) -> None:
    of = Record.of
    put(
        spark,
        run,
        [
            of(0, 5, producer="a", epoch=1),
            of(1, 1, producer="a", epoch=2),
            of(2, 6, producer="a", epoch=1),
            of(3, 5, producer="b", epoch=0),
        ],
    )

    done = load_all(spark, run, BY_PRODUCER)

    assert done is not None
    assert (done.counts["accepted"], done.counts["fenced"]) == (3, 1)
    marks = spark.read.table(run.table("silver_watermarks").sql).orderBy("producer")
    assert [(r["producer"], r["epoch"], r["high_watermark"]) for r in marks.collect()] == [("a", 2, 1), ("b", 0, 5)]


def test_one_corrupt_huge_number_is_set_aside_and_silences_nothing(spark: SparkSession, run: Run) -> None:
    put(spark, run, [Record.of(offset, sequence) for offset, sequence in enumerate([1, 2, 2**63 - 1, 3, 4])])

    done = load_all(spark, run, Rules(Source("header", "seq"), max_jump=100))

    assert done is not None
    assert (done.counts["accepted"], done.counts["jump"]) == (4, 1)
    assert kept(spark, run) == [(0, 1), (1, 2), (3, 3), (4, 4)]


def test_records_that_bronze_read_twice_are_counted_and_kept_once(spark: SparkSession, new_run: Callable[[], Run]) -> None:
    records = [Record.of(offset, offset + 1) for offset in range(6)]
    put(spark, new_run(), records[:3])
    load_all(spark, new_run())
    put(spark, new_run(), records[1:5] + records[3:4])  # a lost checkpoint: 1 and 2 were decided, 3 comes twice
    put(spark, new_run(), records[4:])  # 4 again

    done = load_all(spark, new_run())

    assert done is not None
    assert (done.records, done.counts["accepted"], done.counts["replay"]) == (7, 3, 4)
    assert kept(spark, new_run()) == [(offset, offset + 1) for offset in range(6)]


def test_payload_is_decoded_where_a_format_is_configured_and_null_where_it_cannot_be(spark: SparkSession, run: Run) -> None:
    rules = Rules(Source("json", "$.seq"), payload=Payload("json", "seq BIGINT, name STRING"))
    values = [b'{"seq": 1, "name": "a"}', b'{"seq": 2, "name": "b", "more": 1}', b'{"seq": 3, "name"', b'{"seq": 4}']
    put(spark, run, [Record(offset, value=value) for offset, value in enumerate(values)])

    load_all(spark, run, rules)

    rows = spark.read.table(run.table("silver_records").sql).orderBy("offset").select("payload.seq", "payload.name")
    assert [tuple(row) for row in rows.collect()] == [(1, "a"), (2, "b"), (4, None)]


def test_what_a_plan_says_is_what_the_load_does_and_planning_writes_nothing(spark: SparkSession, run: Run) -> None:
    put(spark, run, [Record.of(offset, sequence) for offset, sequence in enumerate([1, 3, 3, 4])])
    load.create_tables(spark, run, BY_HEADER)
    marks = recovery.recover(spark, run, BY_HEADER).watermarks

    planned = plan.plan(spark, run, BY_HEADER, watermarks=marks, after_version=-1)
    before = [spark.read.table(run.table(name).sql).count() for name in ("silver_loads", "silver_records")]
    done = load_all(spark, run)

    assert planned is not None
    assert done is not None
    assert before == [0, 0]
    assert {name: planned.count(name) for name in done.counts} == done.counts
    assert planned.count("missing") == 1


def test_changed_extractors_stop_the_load_and_name_the_way_out(spark: SparkSession, run: Run) -> None:
    put(spark, run, [Record.of(0, 1)])
    load_all(spark, run)

    with pytest.raises(RulesChangedError, match="rebuild"):
        load_all(spark, run, Rules(Source("header", "other")))


def test_another_pipelines_ledger_is_refused(spark: SparkSession, run: Run) -> None:
    put(spark, run, [Record.of(0, 1)])
    load_all(spark, run)

    other = type(run)("another", run.lakehouse, run.report)
    with pytest.raises(TableStateError, match="another pipeline"):
        load_all(spark, other)


@pytest.mark.parametrize("table", ["silver_records", "silver_watermarks", "silver_loads"])
def test_a_table_that_was_changed_alone_is_refused(spark: SparkSession, run: Run, table: str) -> None:
    put(spark, run, [Record.of(0, 1), Record.of(1, 2)])
    load_all(spark, run)
    put(spark, run, [Record.of(2, 3)])
    load_all(spark, run)

    spark.sql(f"DELETE FROM {run.table(table).sql} WHERE load_seq = 2")

    with pytest.raises(TableStateError):
        load_all(spark, run)


def test_of_two_runs_that_claim_the_same_load_one_goes_on(spark: SparkSession, new_run: Callable[[], Run]) -> None:
    first, second = new_run(), new_run()
    put(spark, first, [Record.of(0, 1)])
    load.create_tables(spark, first, BY_HEADER)
    marks = recovery.recover(spark, first, BY_HEADER).watermarks
    one = plan.plan(spark, first, BY_HEADER, watermarks=marks, after_version=-1)
    two = plan.plan(spark, second, BY_HEADER, watermarks=marks, after_version=-1)
    assert one is not None
    assert two is not None

    load.claim(spark, first, one)
    with pytest.raises(AnotherWriterError):
        load.claim(spark, second, two)

    load_all(spark, second)
    assert kept(spark, second) == [(0, 1)]


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_a_load_that_stopped_after_any_step_is_finished_with_what_it_had_claimed(
    spark: SparkSession, new_run: Callable[[], Run], steps: int
) -> None:
    stopped = new_run()
    put(spark, stopped, [Record.of(offset, sequence) for offset, sequence in enumerate([1, 2, 2, 3])])
    load.create_tables(spark, stopped, BY_HEADER)
    marks = recovery.recover(spark, stopped, BY_HEADER).watermarks
    planned = plan.plan(spark, stopped, BY_HEADER, watermarks=marks, after_version=-1)
    assert planned is not None
    load.claim(spark, stopped, planned)
    for step in (load.append_silver, load.append_rejects, load.advance)[:steps]:
        step(spark, stopped, planned)
    put(spark, stopped, [Record.of(offset, offset) for offset in range(4, 8)])  # Bronze grows before the retry

    done = [load_all(spark, new_run()) for _ in range(3)]

    assert [each and (each.load_seq, each.is_repeat) for each in done] == (
        [(2, False), None, None] if steps == 3 else [(1, True), (2, False), None]
    )
    assert kept(spark, new_run()) == [(0, 1), (1, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7)]
    rejects = spark.read.table(stopped.table("silver_rejects").sql).select("first_offset", "records").collect()
    assert [tuple(row) for row in rejects] == [(2, 1)]


@pytest.mark.parametrize("seed", [1, 2])
def test_any_cutting_into_bronze_versions_and_loads_gives_the_tables_of_the_reference(
    spark: SparkSession, new_run: Callable[[], Run], seed: int
) -> None:
    chance = random.Random(seed)
    log = [
        Seen(topic, partition, offset, sequence, chance.choice(["a", "b"]), chance.choice([0, 0, 0, 1, 2]))
        for topic in ("t", "u")
        for partition in range(3)
        for offset, sequence in enumerate(chance.choice([None, *range(40), *range(40)]) for _ in range(80))
    ]
    expected = decide(log)
    replays = 0
    for low in range(0, 80, 20):
        commit = [seen for seen in log if low <= seen.offset < low + 20]
        again = [seen for seen in log if low - 5 <= seen.offset < low] if chance.random() < 0.7 else []
        replays += len(again)
        batch = commit + again
        chance.shuffle(batch)  # the order that rows are stored in says nothing
        put(spark, new_run(), [_record(seen) for seen in batch])
        if chance.random() < 0.6 or low == 60:
            load_all(spark, new_run(), BY_PRODUCER)

    run = new_run()
    silver = spark.read.table(run.table("silver_records").sql).orderBy("topic", "partition", "offset").collect()
    assert [(r["topic"], r["partition"], r["offset"]) for r in silver] == sorted(
        key for key, kind in expected.classes.items() if kind == "accepted"
    )
    marks = spark.read.table(run.table("silver_watermarks").sql).where("high_watermark IS NOT NULL").collect()
    assert {
        (r["topic"], r["partition"], r["producer"]): (r["epoch"], r["high_watermark"]) for r in marks
    } == expected.watermarks
    assert _rejected(spark, run, log) == {key: kind for key, kind in expected.classes.items() if kind != "accepted"}
    ledger = spark.read.table(run.table("silver_loads").sql).collect()
    assert sum(row["replay"] for row in ledger) == replays
    assert sum(row["records"] for row in ledger) == len(log) + replays


def _record(seen: Seen) -> Record:
    record = Record.of(
        seen.offset, "x" if seen.sequence is None else seen.sequence, partition=seen.partition, producer=seen.producer,
        epoch=seen.epoch,
    )
    return type(record)(**{**vars(record), "topic": seen.topic})


def _rejected(spark: SparkSession, run: Run, log: list[Seen]) -> dict[tuple[str, int, int], str]:
    """The class of each rejected record, from the spans of `silver_rejects`."""
    found: dict[tuple[str, int, int], str] = {}
    for row in spark.read.table(run.table("silver_rejects").sql).collect():
        stream = (row["topic"], row["partition"], row["producer"])
        span = [s for s in log if s.stream == stream and row["first_offset"] <= s.offset <= row["last_offset"]]
        assert len(span) == row["records"]
        found |= {(seen.topic, seen.partition, seen.offset): row["class"] for seen in span}
    return found
