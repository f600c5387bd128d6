"""`gold_latest` over real tables: the latest record of each key, however records were cut into loads; and stream health."""

import random
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from gold import latest as keeping
from gold import rows as models
from gold.latest import find_keys, merge
from gold.latest import rebuild as rebuild_latest
from lakehouse.contracts.gold import RECORD_TABLES, STREAM_HEALTH, of_records
from lakehouse.contracts.silver import CLASSES, LOADS
from lakehouse.delta import tables
from lakehouse.run.context import Run
from lakehouse.spark import frames
from pipelines.operate import requests
from pipelines.recover import rebuild
from pipelines.verify import run as verify
from silver.state.request import Erase, RecordFilter, Request
from tests.support.bronze import Record, put
from tests.support.silver_rows import claim
from tests.support.small_config import settings_of
from tests.support.stages import published, ran, require_sound, stopped_at

_AT = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
BY_PRODUCER: dict[str, Any] = {"producer": {"header": "producer"}, "epoch": {"header": "epoch"}}


class Sent(NamedTuple):
    """What of a published record its being the latest depends on."""

    topic: str
    partition: int
    producer: str | None
    key: bytes | None
    epoch: int
    sequence: int
    timestamp: datetime | None
    offset: int


Places = dict[tuple[str, bytes | None], tuple[int, int]]  # partition and offset of the latest record of each topic and key


def latest_of(records: Iterable[Sent]) -> Places:
    """The rule, read literally: in a stream the last by sequence, between streams the last by time, or else by place."""
    keyed = [record for record in records if record.key is not None]
    by_sequence = sorted(keyed, key=lambda record: (record.epoch, record.sequence))
    last = {(record.topic, record.partition, record.producer, record.key): record for record in by_sequence}
    before = _AT - timedelta(days=1)
    by_time = sorted(last.values(), key=lambda record: (record.timestamp or before, record.partition, record.offset))
    return {(record.topic, record.key): (record.partition, record.offset) for record in by_time}


def rows(spark: SparkSession, run: Run, name: str) -> list[Sent]:
    found = spark.read.table(run.table(name).sql).select(*Sent._fields).toArrow().to_pylist()
    return [Sent(**row) for row in found]


def held(spark: SparkSession, run: Run) -> Places:
    found = [((row.topic, row.key), (row.partition, row.offset)) for row in rows(spark, run, "gold_latest")]
    assert len(dict(found)) == len(found)
    return dict(found)


def assert_latest(spark: SparkSession, run: Run) -> None:
    assert held(spark, run) == latest_of(rows(spark, run, "gold_records"))


def drawn(chance: random.Random, topic: str) -> list[tuple[int, Sent]]:
    once: dict[tuple[object, ...], Sent] = {}
    for offset in range(chance.randrange(13)):
        stream = topic, chance.randrange(2), chance.choice([None, "p", "q"])
        ordinal = chance.choice([0, 0, 1]), chance.randrange(10)
        at = None if chance.random() < 0.1 else _AT + timedelta(minutes=chance.randrange(6))
        once[*stream, *ordinal] = Sent(*stream, chance.choice([b"a", b"a", b"b", None]), *ordinal, at, offset)
    return [(chance.randint(1, 3), record) for record in once.values()]


def test_however_records_are_cut_the_same_ones_are_the_latest(spark: SparkSession, run: Run) -> None:
    """A hundred topics, each an example, in one go: their loads are merged one after another, one of them twice."""
    chance = random.Random(0)
    for contract in (*(of_records(name=name) for name in RECORD_TABLES), LOADS):
        tables.create(spark, run.table(contract.name), contract)
    sent = [each for topic in range(100) for each in drawn(chance, f"t{topic}")]
    for load_seq in (1, 2, 2, 3):
        made = [{**record._asdict(), "load_seq": load_seq, "arrival": "late"} for load, record in sent if load == load_seq]
        records = frames.of_contract(spark, made, of_records())
        merge(spark, run, records, find_keys(spark, run, records), up_to=load_seq)
        known = [record for load, record in sent if load <= load_seq]
        assert held(spark, run) == latest_of(known)

    contract = of_records()
    whole = frames.of_contract(spark, [{**record._asdict(), "load_seq": load} for load, record in sent], contract)
    tables.append(whole, run.table("gold_records"), contract)
    rebuild_latest(spark, run, up_to=3)
    assert held(spark, run) == latest_of(record for _, record in sent)


def logged(chance: random.Random, topics: tuple[str, ...]) -> list[Record]:
    """Records of two partitions and producers, late ones and resent ones among them, whose keys several streams have."""
    found = []
    for topic, partition, offset in product(topics, range(2), range(24)):
        stream = ("producer", chance.choice([b"p", b"q"])), ("epoch", chance.choice([b"0", b"0", b"1"]))
        key, at = chance.choice([b"a", b"b", b"c", None]), _AT + timedelta(minutes=chance.randrange(9))
        found.append(Record(offset, b"v", key, (("seq", b"%d" % chance.randrange(30)), *stream), partition, topic, at))
    return found


def test_the_latest_of_keys_in_several_streams_holds_through_all_that_people_do(spark: SparkSession, run: Run) -> None:
    topics = ("t", "u", "v")
    config = settings_of(run, topics=topics, policies={"max_quarantined_share": 1}, **BY_PRODUCER)

    def asked(request: Request) -> None:
        requests.carry_out(spark, run, config, request, is_dry_run=False)

    records = logged(random.Random(0), topics)
    put(spark, run, records)
    ran(spark, run, config)
    assert_latest(spark, run)
    asked(Request("release", "looked at", "ann", wanted=RecordFilter(kind="late")))
    published(spark, run, config)
    assert_latest(spark, run)
    before = held(spark, run)

    asked(Request("erase", "she asked", "ann", erase=Erase.of("t", b"a")))
    without = {key: place for key, place in before.items() if key != ("t", b"a")}
    rebuild.rebuild(spark, run, config, apply=True, reason="why", by="ann")
    published(spark, run, config)
    assert held(spark, run) == without
    require_sound(spark, run, is_deep=True)


def test_what_0_1_took_for_the_latest_is_corrected_by_the_next_publish(spark: SparkSession, new_run: Callable[[], Run]) -> None:
    run, config = new_run(), settings_of(new_run(), policies={"late": "accept"})
    put(spark, run, [replace(Record.of(0, 1), timestamp=_AT + timedelta(hours=1)), Record.of(0, 1, partition=1)])
    ran(spark, run, config)
    assert held(spark, run) == {("t", b"k"): (0, 0)}
    root = run.lakehouse.local_root
    assert root is not None
    others = spark.read.table(run.table("gold_records").sql).where("partition = 1")
    shutil.rmtree(root / "gold_latest_by_stream")  # as 0.1 left it: what arrived last
    tables.overwrite(others, run.table("gold_latest"))
    require_sound(spark, run, is_deep=True)
    put(spark, run, [Record.of(1, 2, partition=2)])

    with stopped_at(keeping, "crash_point"):
        ran(spark, run, config)
    ran(spark, run, config)

    assert held(spark, run) == {("t", b"k"): (0, 0)}
    tables.overwrite(others, run.table("gold_latest"))
    found: Any = verify.verify(spark, run, is_deep=True)
    assert [each["check"] for each in found["checks"] if not each["ok"]] == ["latest_by_rule"]


def test_stream_health_has_each_stream_of_the_ledger_also_without_a_kept_record(spark: SparkSession) -> None:
    numbers = {**dict.fromkeys(CLASSES, 0), "records": 3, "high_watermark_after": 7}
    claims = [claim(4, **numbers | {"producer": producer, "accepted": kept}) for producer, kept in ((None, 2), ("a", 0))]
    silver = spark.createDataFrame(
        [("t", 0, None, 4, _AT, b"v", None), ("t", 0, None, 4, None, None, None)],
        "topic string, partition int, producer string, load_seq bigint, timestamp timestamp, value binary, payload string",
    )

    health = models.stream_health(frames.of_contract(spark, claims, LOADS), models.stream_counts(silver), "g1")

    assert sorted(health.columns) == sorted(STREAM_HEALTH.names)
    columns = ("producer", "records", "accepted", "undecodable", "high_watermark", "newest_record_at", "gate_run_id")
    rows = [tuple(row.values()) for row in health.select(*columns).toArrow().to_pylist()]
    assert sorted(rows, key=str) == [("a", 3, 0, 0, 7, None, "g1"), (None, 3, 2, 1, 7, _AT, "g1")]
