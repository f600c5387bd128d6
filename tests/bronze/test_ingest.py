"""Kafka to Bronze on a real broker: every byte, once, and errors that help."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from bronze.ingest import ingest
from lakehouse.errors import SourceError, TableStateError
from lakehouse.extract.sources import Source, Sources
from lakehouse.settings.pipeline import Kafka
from lakehouse.table import BRONZE_RECORDS
from tests.support.kafka import Sent, send, send_transaction

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, Row, SparkSession

    from bronze.dev_broker.broker import LocalBroker
    from lakehouse.run.context import Run

    Topic = Callable[..., str]
    Runs = Callable[[], Run]

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def kafka_of(broker: LocalBroker, *topics: str, **others: Any) -> Kafka:
    return Kafka(bootstrap_servers=broker.bootstrap_servers, topics=topics, **others)


def bronze(spark: SparkSession, run: Run) -> list[Row]:
    return spark.read.table(run.table(BRONZE_RECORDS).sql).orderBy("topic", "partition", "offset").collect()


def values(spark: SparkSession, run: Run) -> list[bytes]:
    return [bytes(row["value"]) for row in bronze(spark, run)]


def numbers(*wanted: int) -> list[Sent]:
    return [Sent(b"%d" % number) for number in wanted]


def checkpoint(run: Run) -> Path:
    return Path(run.lakehouse.folder("_checkpoints/bronze_records"))


def test_bronze_holds_every_byte_that_was_sent(spark: SparkSession, run: Run, broker: LocalBroker, topic: Topic) -> None:
    sent = [
        Sent(b"value", b"key", [("seq", b"1"), ("trace", b"\x00\xff")]),
        Sent(b"null key", None, [("seq", b"2")]),
        Sent(None, b"null value", [("seq", b"3")]),
        Sent(b"", b"", [("seq", b"")]),
        Sent(b"no header", b"k"),
        Sent(b"twice the header", b"k", [("seq", b"4"), ("seq", b"5")]),
        Sent(b"null header", b"k", [("seq", None)]),
        Sent(b"\xff\xfe\x00\x80 is no UTF-8", b"\xc3\x28", [("seq", b"\xff")]),
        Sent(b"0123456789" * 100_000, b"1 MB", [("seq", b"1" * 40)]),
    ]
    name = topic()
    send(broker.bootstrap_servers, name, sent)
    ingested = ingest(spark, run, kafka_of(broker, name))
    rows = bronze(spark, run)
    assert [(row["topic"], row["partition"], row["offset"], row["timestamp_type"], row["run_id"]) for row in rows] == [
        (name, 0, offset, 0, run.run_id) for offset in range(len(sent))
    ]
    assert [(row["key"], row["value"]) for row in rows] == [(each.key, each.value) for each in sent]
    headers = [None if row["headers"] is None else [(each["key"], each["value"]) for each in row["headers"]] for row in rows]
    assert headers == [list(each.headers) or None for each in sent]
    assert ingested.records == len(sent)
    assert all(row["timestamp"] <= row["ingested_at"] for row in rows)


def test_producer_epoch_and_sequence_are_read_while_a_record_is_in_hand(
    spark: SparkSession, new_run: Runs, broker: LocalBroker, topic: Topic
) -> None:
    name, run = topic(), new_run()
    sources = Sources(Source("header", "seq"), producer=Source("value"))
    custom = Sources(Source("custom", "tests.bronze.test_ingest:fails"))
    for read_by, sequence in ((sources, b"1"), (sources, b"x"), (custom, b"3"), (None, b"4")):
        send(broker.bootstrap_servers, name, [Sent(b"a", headers=[("seq", sequence)])])
        ingest(spark, new_run(), kafka_of(broker, name), read_by)
    read = [
        tuple(row[each] for each in ("producer", "epoch", "sequence", "problem", "rules_fingerprint"))
        for row in bronze(spark, run)
    ]
    assert read == [
        ("a", 0, 1, None, sources.fingerprint),
        ("a", None, None, "sequence_not_a_whole_number", sources.fingerprint),
        (None,) * 5,
        (None,) * 5,
    ]


def fails(value: Column) -> Column:
    """A custom extractor that would stop an ingest, if one ran it."""
    raise AssertionError(value)


def test_a_record_is_appended_once_however_often_bronze_runs(
    spark: SparkSession, new_run: Runs, broker: LocalBroker, topic: Topic
) -> None:
    name, run = topic(2), new_run()
    empty = ingest(spark, run, kafka_of(broker, name))
    send(broker.bootstrap_servers, name, [*numbers(1, 2), Sent(b"3", partition=1)])
    first = ingest(spark, new_run(), kafka_of(broker, name))
    idle = ingest(spark, new_run(), kafka_of(broker, name))
    assert (empty.records, first.records) == (0, 3)
    assert (idle.records, idle.batches, idle.from_version, idle.to_version) == (0, 0, first.to_version, first.to_version)
    send(broker.bootstrap_servers, name, numbers(4))
    last = ingest(spark, new_run(), kafka_of(broker, name))
    assert (last.records, last.to_version) == (1, first.to_version + 1)
    assert values(spark, run) == [b"1", b"2", b"4", b"3"]


def test_a_limit_cuts_the_input_into_versions_that_are_reported(
    spark: SparkSession, run: Run, broker: LocalBroker, topic: Topic
) -> None:
    name = topic()
    send(broker.bootstrap_servers, name, numbers(*range(10)))
    ingested = ingest(spark, run, kafka_of(broker, name, max_offsets_per_trigger=4))
    assert (ingested.records, ingested.batches, ingested.to_version - ingested.from_version) == (10, 3, 3)
    report = cast(Any, run.report)
    assert report.named("bronze.progress")[-1] == {"records": 10, "batches": 3}
    assert report.named("bronze.ingested") == [vars(ingested)]
    assert values(spark, run) == [b"%d" % number for number in range(10)]


def test_only_committed_transactions_reach_bronze(spark: SparkSession, run: Run, broker: LocalBroker, topic: Topic) -> None:
    name, servers = topic(), broker.bootstrap_servers
    send_transaction(servers, name, numbers(1, 2), commit=True)
    send_transaction(servers, name, numbers(3, 4), commit=False)
    send_transaction(servers, name, numbers(5), commit=True)
    send_transaction(servers, name, numbers(*range(100, 1100)), commit=False)
    started = time.monotonic()
    assert ingest(spark, run, kafka_of(broker, name)).records == 3
    assert time.monotonic() - started < 60, "a topic that ends in aborted records and markers must not be waited for"
    send(servers, name, numbers(6))
    assert ingest(spark, run, kafka_of(broker, name)).records == 1
    assert values(spark, run) == [b"1", b"2", b"5", b"6"]


def test_a_lost_checkpoint_goes_on_where_bronze_ends_and_a_lost_table_is_refused(
    spark: SparkSession, run: Run, broker: LocalBroker, topic: Topic
) -> None:
    name = topic(2)
    send(broker.bootstrap_servers, name, [*numbers(1, 2), Sent(b"3", partition=1)])
    ingest(spark, run, kafka_of(broker, name, max_offsets_per_trigger=None))
    shutil.rmtree(checkpoint(run))
    send(broker.bootstrap_servers, name, numbers(4))
    # `latest` would skip it, `earliest` would read all again.
    assert ingest(spark, run, kafka_of(broker, name, starting_offsets="latest")).records == 1
    assert values(spark, run) == [b"1", b"2", b"4", b"3"]

    shutil.rmtree(run.table(BRONZE_RECORDS).location)
    with pytest.raises(TableStateError, match="deleted alone"):
        ingest(spark, run, kafka_of(broker, name))
    shutil.rmtree(checkpoint(run))
    assert ingest(spark, run, kafka_of(broker, name)).records == 4


def test_a_missing_topic_is_named_within_seconds(spark: SparkSession, run: Run, broker: LocalBroker) -> None:
    started = time.monotonic()
    with pytest.raises(SourceError, match="does not exist") as missing:
        ingest(spark, run, kafka_of(broker, "misspelt"))
    assert "topic misspelt at " in str(missing.value)
    assert "kafka.topics" in str(missing.value)
    assert time.monotonic() - started < 60


def test_an_unreachable_broker_is_named_within_seconds(spark: SparkSession, run: Run) -> None:
    started = time.monotonic()
    with pytest.raises(SourceError, match=r"127\.0\.0\.1:1: Connection refused") as unreachable:
        ingest(spark, run, Kafka(bootstrap_servers="127.0.0.1:1", topics=("t",)))
    assert "bootstrap_servers" in str(unreachable.value)
    assert time.monotonic() - started < 15
    assert not Path(run.table(BRONZE_RECORDS).location).exists()


def test_client_properties_reach_the_client_and_no_error_repeats_a_secret(
    spark: SparkSession, run: Run, broker: LocalBroker, topic: Topic
) -> None:
    name = topic()
    send(broker.bootstrap_servers, name, numbers(1))
    with pytest.raises(SourceError, match="refuses its configuration") as refused:
        ingest(spark, run, kafka_of(broker, name, properties={"max.poll.records": "many"}))
    assert "many for configuration max.poll.records" in str(refused.value)
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    properties["sasl.jaas.config"] = 'no.such.LoginModule required password="hunter2";'
    with pytest.raises(SourceError, match="LoginModule") as refused:
        ingest(spark, run, kafka_of(broker, name, properties=properties))
    assert "hunter2" not in str(refused.value)
    assert refused.value.__cause__ is None
    properties = {"max.poll.records": "1", "client.id": "tidemark", "request.timeout.ms": "40000"}
    assert ingest(spark, run, kafka_of(broker, name, properties=properties)).records == 1
