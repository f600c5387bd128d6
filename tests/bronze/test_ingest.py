"""Kafka to Bronze on a real broker: every byte, once, and errors that help."""

import re
import shutil
import time
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import Column, Row, SparkSession

from bronze.ingest import ingest
from bronze.records import bronze_records
from lakehouse.errors import ContractError, SourceError, TableStateError
from lakehouse.extract.sources import Source, Sources
from lakehouse.run.context import Run
from lakehouse.settings.pipeline import Kafka
from lakehouse.table import BRONZE_RECORDS
from tests.conftest import Runs, Topics
from tests.support.kafka import Sent, send, send_transaction, sequenced
from tidemark.extras.demo.broker import LocalBroker


def kafka_of(broker: LocalBroker, *topics: str, **others: Any) -> Kafka:
    return Kafka.model_validate({"bootstrap_servers": broker.bootstrap_servers, "topics": topics, **others})


def bronze(spark: SparkSession, run: Run) -> list[Row]:
    return spark.read.table(run.table(BRONZE_RECORDS).sql).orderBy("topic", "partition", "offset").collect()


def values(spark: SparkSession, run: Run) -> list[bytes]:
    return [bytes(row["value"]) for row in bronze(spark, run)]


def test_a_source_without_headers_is_refused(spark: SparkSession) -> None:
    columns = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
    with pytest.raises(ContractError, match="headers is missing"):
        bronze_records(spark.createDataFrame([], columns), "r1")


def test_bronze_holds_every_byte_that_was_sent(spark: SparkSession, run: Run, broker: LocalBroker, topic: Topics) -> None:
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
    of_the_client = {"max.poll.records": "1", "client.id": "tidemark", "request.timeout.ms": "40000"}
    ingested = ingest(spark, run, kafka_of(broker, name, properties=of_the_client))
    rows = bronze(spark, run)
    assert [(row["topic"], row["partition"], row["offset"], row["timestamp_type"], row["run_id"]) for row in rows] == [
        (name, 0, offset, 0, run.run_id) for offset in range(len(sent))
    ]
    assert [(row["key"], row["value"]) for row in rows] == [(each.key, each.value) for each in sent]
    headers = [None if row["headers"] is None else [(each["key"], each["value"]) for each in row["headers"]] for row in rows]
    assert headers == [list(each.headers) or None for each in sent]
    assert ingested.records == len(sent)
    assert all(row["timestamp"] <= row["ingested_at"] for row in rows)


def fails(value: Column) -> Column:
    raise AssertionError(value)


def test_a_record_comes_once_in_versions_of_a_limit_read_by_all_but_custom_code(
    spark: SparkSession, new_run: Runs, broker: LocalBroker, topic: Topics
) -> None:
    name, run = topic(2), new_run()
    kafka = kafka_of(broker, name, max_offsets_per_trigger=4)
    sources = Sources(Source("header", "seq"), producer=Source("value"))
    custom = Sources(Source("custom", "tests.bronze.test_ingest:fails"))
    empty = ingest(spark, new_run(), kafka, sources)
    odd = Sent(b"a", headers=[("seq", b"x")], partition=1)
    send(broker.bootstrap_servers, name, [*sequenced(*range(9)), odd])
    first = ingest(spark, run, kafka, sources)
    idle = ingest(spark, new_run(), kafka, sources)
    assert (empty.records, first.records, first.batches, first.to_version - first.from_version) == (0, 10, 3, 3)
    report = cast(Any, run.report)
    assert report.named("bronze.progress")[-1] == {"records": 10, "batches": 3}
    assert report.named("bronze.ingested") == [vars(first)]
    assert (idle.records, idle.batches, idle.from_version, idle.to_version) == (0, 0, first.to_version, first.to_version)
    send(broker.bootstrap_servers, name, sequenced(9))
    last = ingest(spark, new_run(), kafka, custom)
    assert (last.records, last.to_version) == (1, first.to_version + 1)
    names = ("value", "producer", "epoch", "sequence", "problem", "rules_fingerprint")
    assert [tuple(row[each] for each in names) for row in bronze(spark, run)] == [
        *((b"v%d" % number, f"v{number}", 0, number, None, sources.fingerprint) for number in range(9)),
        (b"v9", None, None, None, None, None),
        (b"a", "a", None, None, "sequence_not_a_whole_number", sources.fingerprint),
    ]


def test_only_committed_transactions_reach_bronze(spark: SparkSession, run: Run, broker: LocalBroker, topic: Topics) -> None:
    name, servers = topic(), broker.bootstrap_servers
    send_transaction(servers, name, sequenced(1, 2), commit=True)
    send_transaction(servers, name, sequenced(3, 4), commit=False)
    send_transaction(servers, name, sequenced(5), commit=True)
    send_transaction(servers, name, sequenced(*range(100, 1100)), commit=False)
    started = time.monotonic()
    assert ingest(spark, run, kafka_of(broker, name)).records == 3
    assert time.monotonic() - started < 60, "a topic that ends in aborted records and markers must not be waited for"
    send(servers, name, sequenced(6))
    assert ingest(spark, run, kafka_of(broker, name)).records == 1
    assert values(spark, run) == [b"v1", b"v2", b"v5", b"v6"]


def test_a_checkpoint_may_be_lost_and_a_table_not(spark: SparkSession, run: Run, broker: LocalBroker, topic: Topics) -> None:
    name, checkpoint = topic(2), Path(run.lakehouse.folder("_checkpoints/bronze_records"))
    send(broker.bootstrap_servers, name, [*sequenced(1, 2), *sequenced(3, partition=1)])
    ingest(spark, run, kafka_of(broker, name, max_offsets_per_trigger=None))
    shutil.rmtree(checkpoint)
    send(broker.bootstrap_servers, name, sequenced(4))
    # `latest` would skip it, `earliest` would read all again.
    assert ingest(spark, run, kafka_of(broker, name, starting_offsets="latest")).records == 1
    assert values(spark, run) == [b"v1", b"v2", b"v4", b"v3"]

    shutil.rmtree(run.table(BRONZE_RECORDS).location)
    with pytest.raises(TableStateError, match="only the table was deleted"):
        ingest(spark, run, kafka_of(broker, name))
    shutil.rmtree(checkpoint)
    assert ingest(spark, run, kafka_of(broker, name)).records == 4


JAAS = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": 'no.such.LoginModule required password="hunter2";'}


@pytest.mark.parametrize(
    ("given", "what", "said"),
    [
        ({"topics": ["misspelt"]}, "does not exist", "topic misspelt at .*kafka.topics"),
        ({"bootstrap_servers": "127.0.0.1:1"}, "No Kafka broker answers", "127.0.0.1:1: Connection refused.*bootstrap_servers"),
        ({"properties": {"max.poll.records": "many"}}, "refuses its configuration", "many for configuration max.poll.records"),
        ({"properties": {"security.protocol": "SASL_PLAINTEXT", **JAAS}}, "refuses its configuration", "LoginModule"),
    ],
)
def test_what_stops_a_read_is_named_within_seconds_and_no_error_repeats_a_secret(
    spark: SparkSession, run: Run, broker: LocalBroker, topic: Topics, *, given: dict[str, Any], what: str, said: str
) -> None:
    name, is_reached = topic(), "bootstrap_servers" not in given
    send(broker.bootstrap_servers, name, sequenced(1))
    started = time.monotonic()
    with pytest.raises(SourceError, match=what) as refused:
        ingest(spark, run, kafka_of(broker, name, **given))
    assert re.search(said, str(refused.value), re.DOTALL)
    assert "hunter2" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert time.monotonic() - started < (60 if is_reached else 15)
    assert Path(run.table(BRONZE_RECORDS).location).exists() == is_reached
