"""Kafka timestamps that are no time: Bronze keeps the number, every record once, and the whole pipeline goes on."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession

from bronze.ingest import ingest
from bronze.records import bronze_records, timestamp_columns
from lakehouse.contracts.bronze import BRONZE
from lakehouse.contracts.contract import HEADERS
from lakehouse.extract.sources import Source, Sources
from lakehouse.run.context import Run
from tests.bronze.test_ingest import kafka_of
from tests.support.kafka import Sent, send, send_header_name
from tests.support.small_config import write_config
from tidemark.commands import main
from tidemark.extras.demo.broker import LocalBroker

_ANY = {"message.timestamp.after.max.ms": str(2**63 - 1), "message.timestamp.before.max.ms": str(2**63 - 1)}
_GOOD = 1_795_254_019_123
_MOST = 2**63 - 1
_YEAR_1 = int(datetime(1, 1, 1, tzinfo=UTC).timestamp()) * 1_000
_YEAR_10_000 = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp()) * 1_000 + 86_400_000


def test_a_timestamp_outside_the_years_1_to_9999_and_kafkas_word_for_none_are_numbers(spark: SparkSession) -> None:
    first, last, gregorian = -62_135_596_800_000, 253_402_300_799_999, -12_219_292_800_000
    numbers = [0, -2, gregorian, gregorian - 1, first, last, -1, first - 1, last + 1, 9_223_372_036_854_775]
    two_days, ten_days = 2 * 86_400_000, 10 * 86_400_000
    # What Spark's source makes of them: it takes a Julian day for ours.
    read = {gregorian - 1: gregorian - 1 - ten_days, first: first + two_days, first - 1: first - 1 + two_days}
    times = "|".join(str(read.get(number, number)) for number in numbers)
    consumed = spark.sql(
        f"""
        SELECT CAST(NULL AS BINARY) AS key, CAST(NULL AS BINARY) AS value, 't' AS topic, 0 AS partition,
            CAST(nth AS BIGINT) AS offset, timestamp_millis(CAST(number AS BIGINT)) AS timestamp, 1 AS timestampType,
            CAST(NULL AS {HEADERS}) AS headers
        FROM (SELECT posexplode(split('{times}', '[|]')) AS (nth, number))
        """
    )
    records = bronze_records(consumed, "r1")
    assert records.columns == BRONZE.names
    expected = [(nth, number, None, 1) if nth < 6 else (nth, None, number, 1) for nth, number in enumerate(numbers)]
    assert_df_equality(
        records.selectExpr("offset", "unix_millis(timestamp) AS at", "timestamp_ms", "timestamp_type"),
        spark.createDataFrame(expected, "offset bigint, at bigint, timestamp_ms bigint, timestamp_type int"),
        ignore_nullable=True,
    )
    assert [timestamp_columns(number)["timestamp_ms"] for number in numbers] == [row[2] for row in expected]


def sent(*timestamps: int, partition: int = 0, first: int = 1) -> list[Sent]:
    """Records in sequence, each with a timestamp, a key, and what has to come through untouched."""
    return [
        Sent(
            None if nth == 2 else b"" if nth == 3 else b"\xff%d" % nth,
            b"k%d" % (nth % 3) if nth % 4 else None,
            [("seq", b"%d" % nth), ("none", None), ("empty", b"")],
            partition,
            timestamp,
        )
        for nth, timestamp in enumerate(timestamps, start=first)
    ]


def expected(*parts: list[Sent]) -> list[tuple[Any, ...]]:
    """What Bronze holds of partitions, each from its first record on."""
    rows: list[tuple[Any, ...]] = []
    for part in parts:
        for offset, record in enumerate(part):
            at = record.timestamp
            is_time = _YEAR_1 <= at < _YEAR_10_000 and at != -1
            of_record = (record.key, record.value, list(record.headers))
            rows.append((record.partition, offset, at if is_time else None, None if is_time else at, 0, *of_record))
    return rows


def held(spark: SparkSession, run: Run, topic: str) -> list[tuple[Any, ...]]:
    rows = spark.read.table(run.table("bronze_records").sql).where(f"topic = '{topic}'").orderBy("partition", "offset")
    named = rows.selectExpr(
        "partition", "offset", "unix_millis(timestamp) AS at", "timestamp_ms", "timestamp_type", "key", "value", "headers"
    )
    return [(*row[:-1], [(each["key"], each["value"]) for each in row[-1]]) for row in named.collect()]


def test_odd_timestamps_anywhere_are_kept_as_numbers_and_every_record_comes_once(
    spark: SparkSession, new_run: Callable[[], Run], broker: LocalBroker, topic: Callable[..., str]
) -> None:
    name, run, servers = topic(3, _ANY), new_run(), broker.bootstrap_servers
    first = sent(_MOST, _GOOD, _GOOD, _MOST, -(2**63), _MOST, _GOOD, _GOOD * 1_000_000)
    second = sent(_GOOD, _YEAR_1 - 1, _YEAR_1, -(10**15), _YEAR_10_000 - 1, -1, -(10**13), 1, _GOOD * 1_000, partition=1)
    third = sent(_GOOD, _GOOD, _MOST, partition=2)
    for part in (first, second, third):
        send(servers, name, part)

    kafka = kafka_of(broker, name, max_offsets_per_trigger=15)
    sources = Sources(Source("header", "seq"))
    ingested = ingest(spark, run, kafka, sources)

    assert held(spark, run, name) == expected(first, second, third)
    read = spark.read.table(run.table("bronze_records").sql).orderBy("partition", "offset")
    assert [tuple(row) for row in read.select("epoch", "sequence", "problem", "rules_fingerprint").collect()] == [
        (0, nth, None, sources.fingerprint) for part in (first, second, third) for nth, _ in enumerate(part, start=1)
    ]
    assert ingested.records == 20
    assert cast(Any, run.report).named("bronze.timestamps_met")
    again = new_run()
    assert ingest(spark, again, kafka).records == 0
    assert cast(Any, again.report).named("bronze.timestamps_met") == []

    later = sent(_GOOD, _GOOD, partition=2, first=4)
    send(servers, name, later)
    assert ingest(spark, new_run(), kafka).records == 2
    odd = sent(_MOST, _GOOD, partition=2, first=6)
    send(servers, name, odd)
    assert ingest(spark, new_run(), kafka).records == 2
    assert held(spark, run, name) == expected(first, second, [*third, *later, *odd])


def test_a_headers_name_that_is_no_text_stops_nothing(
    spark: SparkSession, run: Run, broker: LocalBroker, topic: Callable[..., str]
) -> None:
    name, servers = topic(1, _ANY), broker.bootstrap_servers
    for timestamp in (_MOST, _GOOD, _MOST, _GOOD):
        send_header_name(servers, name, b"\xff", timestamp=timestamp)
    ingest(spark, run, kafka_of(broker, name))
    rows = spark.read.table(run.table("bronze_records").sql).orderBy("offset").collect()
    assert [(row["offset"], row["timestamp_ms"], bytes(row["value"])) for row in rows] == [
        (offset, timestamp, b"named") for offset, timestamp in enumerate([_MOST, None, _MOST, None])
    ]
    # The client reads all headers of a record or none; what Spark can read comes by Spark.
    headers = [None if row["headers"] is None else [tuple(each) for each in row["headers"]] for row in rows]
    assert headers == [None, [("\ufffd", b"v")], None, [("\ufffd", b"v")]]


@pytest.mark.e2e
def test_records_without_a_time_go_through_every_stage_and_every_look(
    spark: SparkSession, run: Run, tmp_path: Path, broker: LocalBroker, topic: Callable[..., str], *, asked: Callable[..., Any]
) -> None:
    name = topic(2, _ANY)
    kafka = {"bootstrap_servers": broker.bootstrap_servers, "topics": [name]}
    config = ["--config", str(write_config(tmp_path, root=str(tmp_path / "lakehouse"), kafka=kafka))]
    send(broker.bootstrap_servers, name, sent(_MOST, _GOOD, _MOST, _MOST, _GOOD, _GOOD))
    send(broker.bootstrap_servers, name, [*sent(_MOST, -1, partition=1), *sent(_MOST, partition=1)])

    assert main(["run", *config]) == 0

    gold = spark.read.table(run.table("gold_records").sql).orderBy("partition", "offset")
    assert [(row["partition"], row["sequence"], row["timestamp"] is not None) for row in gold.collect()] == [
        *((0, nth, nth in {2, 5, 6}) for nth in range(1, 7)),
        (1, 1, False),
        (1, 2, False),
    ]
    latest = spark.read.table(run.table("gold_latest").sql).collect()
    # Of two streams that have k2 the one with a time is the latest, though the other's record comes after it by its place.
    assert {row["key"]: (row["partition"], row["sequence"]) for row in latest} == {b"k0": (0, 6), b"k1": (1, 1), b"k2": (0, 5)}
    health = spark.read.table(run.table("gold_stream_health").sql).orderBy("load_seq", "partition").collect()
    assert [row["newest_record_at"] for row in health if row["partition"] == 1] == [None]
    assert main(["report", "-o", str(tmp_path / "report.html"), *config]) == 0
    why = asked(tmp_path / "tidemark.yml", "why", name, "0", "0")
    assert (why["timestamp"], why["timestamp_ms"], why["class"]) == (None, _MOST, "accepted")
    assert main(["verify", "--deep", *config]) == 0
    assert asked(tmp_path / "tidemark.yml", "sql", "SELECT count(timestamp_ms) AS n FROM bronze_records") == [{"n": 6}]
