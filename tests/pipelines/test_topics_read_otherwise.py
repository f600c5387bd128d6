"""Topics with rules of their own in one pipeline: from Bronze to Gold, and through all that reads them again."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.errors import ContractError, RulesChangedError
from lakehouse.extract.sources import Source, Sources
from lakehouse.run.context import Run
from lakehouse.settings.pipeline import Settings
from pipelines import arrival_order, bronze_to_silver
from pipelines.operate import requests
from pipelines.recover import rebuild
from silver.state.request import RecordFilter, Request
from tests.support.bronze import Record, put
from tests.support.prepared import Histories, History
from tests.support.small_config import small_config
from tests.support.stages import ran, require_sound
from tidemark.readers.why import why

TOPICS: dict[str, Any] = {
    "orders": {"sequence": {"json": "$.n"}, "value": {"schema": "id STRING, lines ARRAY<INT>"}},
    "raw": {"sequence": {"bytes": "0:8"}, "producer": {"header": "who"}, "value": None},
    "logs": {"epoch": {"header": "epoch"}, "value": {"undecodable": "accept"}},
    "code": {"sequence": {"custom": f"{__name__}:first_byte"}},
}
NAMES = ("t", *TOPICS)


def first_byte(value: Any) -> Any:
    from pyspark.sql import functions as F

    return F.coalesce(F.left(value.cast("string"), F.lit(1)), F.raise_error(F.lit("no value")).cast("string"))


def of(run: Run, topics: dict[str, Any] = TOPICS, names: tuple[str, ...] = NAMES, **more: Any) -> Settings:
    kafka = {"bootstrap_servers": "localhost:9092", "topics": list(names)}
    given = {"kafka": kafka, "value": {"format": "json", "schema": "id STRING, amount DOUBLE"}, "topics": topics}
    return Settings.model_validate(small_config(str(run.lakehouse.root), **(given | more)))


def sent(topic: str, offset: int, number: int, **headers: Any) -> Record:
    value = {
        "orders": b'{"n": %d, "id": "o%d", "lines": [1, %d], "amount": 9}' % (number, number, number),
        "raw": number.to_bytes(8) + b"rest",
        "code": b"%d" % number,
    }.get(topic.partition("@")[0], b'{"id": "%d", "amount": %d.5}' % (number, number))
    named = {"seq": number, **headers}
    return Record(offset, value, headers=tuple((key, str(each).encode()) for key, each in named.items()), topic=topic)


FIRST = [
    *(sent("t", 0, 5), sent("t", 1, 6), sent("t", 2, 5)),
    *(sent("orders", 0, 1, seq=9), sent("orders", 1, 3, seq=8), sent("orders", 2, 1, seq=7)),
    *(sent("raw", 0, 3, who="a"), sent("raw", 1, 1, who="b"), sent("raw", 2, 3, who="a"), sent("raw", 3, 4)),
    *(sent("logs", 0, 7, epoch=1), sent("logs", 1, 1, epoch=2)),
    Record(2, b"no JSON", headers=(("seq", b"2"), ("epoch", b"2")), topic="logs"),
    *(sent("code", 0, 4), Record(1, b"{}", headers=(("seq", b"1"),), topic="code")),
]
OTHER_ORDERS = {**TOPICS, "orders": {**TOPICS["orders"], "sequence": {"header": "seq"}}}


def decided(spark: SparkSession, run: Run) -> None:
    put(spark, run, FIRST, Sources.of(of(run)))
    ran(spark, run, of(run))


def rebuilt(spark: SparkSession, run: Run, settings: Settings) -> Any:
    return rebuild.rebuild(spark, run, settings, apply=True, reason="all of it", by="ann")


def duplicates(spark: SparkSession, run: Run, settings: Settings) -> dict[Any, int]:
    return {each.stream: each.duplicates for each in arrival_order.orders(spark, run, settings)["bronze"]}


def kept(spark: SparkSession, run: Run, name: str = "silver_records") -> dict[str, list[Any]]:
    rows = spark.read.table(run.table(name).sql).orderBy("topic", "partition", "offset").toArrow().to_pylist()
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(row["topic"], []).append((row["producer"], row["epoch"], row["sequence"], row["payload"]))
    return found


def fields(**known: Any) -> dict[str, Any]:
    return {"id": None, "amount": None, "lines": None, **known}


def fingerprints(spark: SparkSession, run: Run, table: str) -> set[tuple[str, str | None]]:
    return {tuple(row) for row in spark.read.table(run.table(table).sql).select("topic", "rules_fingerprint").collect()}


def test_each_topic_is_read_decided_and_decoded_by_its_own_rules(spark: SparkSession, histories: Histories) -> None:
    run = histories.original(decided)
    settings = of(run)
    rows = spark.read.table(run.table("silver_rejects").sql).orderBy("topic", "first_offset").collect()
    assert [(row["topic"], row["first_offset"], row["class"], row["reason"]) for row in rows] == [
        ("code", 0, "invalid", "value_undecodable"),
        ("code", 1, "invalid", "sequence_not_a_whole_number"),
        ("orders", 2, "duplicate", None),
        ("raw", 2, "duplicate", None),
        ("raw", 3, "invalid", "producer_missing"),
        ("t", 2, "duplicate", None),
    ]
    assert kept(spark, run) == {
        "t": [(None, 0, 5, fields(id="5", amount=5.5)), (None, 0, 6, fields(id="6", amount=6.5))],
        "orders": [(None, 0, 1, fields(id="o1", lines=[1, 1])), (None, 0, 3, fields(id="o3", lines=[1, 3]))],
        "raw": [("a", 0, 3, fields()), ("b", 0, 1, fields())],
        "logs": [(None, 1, 7, fields(id="7", amount=7.5)), (None, 2, 1, fields(id="1", amount=1.5)), (None, 2, 2, None)],
    }
    assert kept(spark, run, "gold_records") == kept(spark, run)
    by_topic = {name: Sources.of(settings).of_topic(name).fingerprint for name in NAMES}
    assert fingerprints(spark, run, "silver_watermarks") == fingerprints(spark, run, "silver_loads") == {*by_topic.items()}
    assert fingerprints(spark, run, "bronze_records") == {*(by_topic | {"code": None}).items()}
    assert by_topic["t"] == Sources(Source("header", "seq")).fingerprint
    require_sound(spark, run, is_deep=True)
    health = spark.read.table(run.table("gold_stream_health").sql).where("undecodable > 0").collect()
    assert [(row["topic"], row["undecodable"]) for row in health] == [("logs", 1)]
    found = why(run.lakehouse, "orders", 0, 2)
    assert (found["class"], found["sequence"], found["winner"]["offset"]) == ("duplicate", 1, 0)
    assert why(run.lakehouse, "raw", 0, 2)["producer"] == "a"
    of_bronze = duplicates(spark, run, settings)
    assert of_bronze["orders", 0, None] == of_bronze["raw", 0, "a"] == of_bronze["t", 0, None] == 1


def test_topics_leave_and_come_back_by_their_own_rules(spark: SparkSession, prepared: Callable[[History], Run]) -> None:
    run = prepared(decided)
    settings = of(run)
    sources = Sources.of(settings)
    with pytest.raises(RulesChangedError, match="for the topic orders"):
        ran(spark, run, of(run, OTHER_ORDERS))
    logs = {**TOPICS, "logs": {**TOPICS["logs"], "sequence": {"header": "seq"}}}
    with pytest.raises(RulesChangedError, match="for the topic t") as raised:
        ran(spark, run, of(run, logs, sequence={"json": "$.n"}))
    assert "for the topic orders" not in str(raised.value)

    put(spark, run, [sent("orders", 3, 2), sent("orders", 4, 4), sent("t", 3, 7)], sources)
    read_by_silver = [sent("raw", 4, 5, who="a"), sent("logs", 3, 3, epoch=2), sent("code", 2, 5)]
    created_again = [sent("t@2", 0, 1), sent("orders@2", 0, 5)]  # and accepted
    put(spark, run, [*read_by_silver, *created_again], None)
    planned: Any = bronze_to_silver.preview(spark, run, settings)
    done: Any = ran(spark, run, settings)
    counted = [(row["topic"], row["accepted"], row["late"], row["invalid"]) for row in planned["streams"]]
    assert sorted(counted) == [
        *(("code", 0, 0, 1), ("logs", 1, 0, 0), ("orders", 1, 1, 0), ("orders@2", 1, 0, 0)),
        *(("raw", 1, 0, 0), ("t", 1, 0, 0), ("t@2", 1, 0, 0)),
    ]
    assert (done["accepted"], done["late"], done["invalid"]) == (6, 1, 1)
    assert json.dumps(planned["kept_out"], default=str)
    found = kept(spark, run)
    assert (found["orders@2"], found["orders"][-1][2]) == ([(None, 0, 5, fields(id="o5", lines=[1, 5]))], 4)
    assert (found["raw"][-1], found["logs"][-1]) == (("a", 0, 5, fields()), (None, 2, 3, fields(id="3", amount=3.5)))
    late = Request("release", "checked", "ann", wanted=RecordFilter(kind="late", topic="orders", offset=3))
    requests.carry_out(spark, run, settings, late, is_dry_run=False)
    orders = kept(spark, run)["orders"]
    assert [row[2] for row in orders] == [1, 3, 2, 4]

    fewer = of(run, {name: own for name, own in TOPICS.items() if name not in ("orders", "raw")}, ("t", "logs", "code"))
    put(spark, run, [sent("t", 4, 8)], Sources.of(fewer))
    bronze_to_silver.run(spark, run, fewer)
    assert kept(spark, run)["orders"] == orders
    assert kept(spark, run)["t"][-1] == (None, 0, 8, fields(id="8", amount=8.5))
    put(spark, run, [sent("orders", 5, 6)], sources)
    bronze_to_silver.run(spark, run, settings)
    assert kept(spark, run)["orders"][-1] == (None, 0, 6, fields(id="o6", lines=[1, 6]))
    with pytest.raises(ContractError, match="tidemark rebuild"):
        ran(spark, run, of(run, {**TOPICS, "orders": {**TOPICS["orders"], "value": {"schema": "id STRING"}}}))

    done = rebuilt(spark, run, of(run, OTHER_ORDERS))
    assert {(each["before"], each["after"], each["records"]) for each in done["changes"]} == {
        ("accepted", "accepted", 1),  # under another sequence
        ("accepted", "late, held", 3),
        ("duplicate", "late, held", 1),
    }
    require_sound(spark, run, is_deep=True)
