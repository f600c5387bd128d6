"""Where a new checkpoint starts each partition, on a real broker: as decided once, however the checkpoint came about."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from bronze import ingest as ingesting
from bronze.ingest import ingest
from bronze.kafka import metadata, source
from bronze.progress import start_offsets, topic_registry
from lakehouse.contracts.bronze import TOPICS
from lakehouse.errors import OffsetsExpiredError, SourceError
from lakehouse.run.context import Run
from tests.bronze.progress.test_topic_breaks import offsets
from tests.bronze.test_ingest import kafka_of
from tests.conftest import Runs, Topics
from tests.support.kafka import Sent, delete_records, produce, send, sequenced
from tidemark.extras.demo.broker import LocalBroker
from tidemark.readers import topics

_ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1)}
OF_0_2 = replace(TOPICS, columns=tuple(column for column in TOPICS.columns if not column.is_added_later))


def counts(spark: SparkSession, run: Run, name: str) -> dict[int, int]:
    found = [partition for topic, partition, _ in offsets(spark, run) if topic == name]
    return {each: found.count(each) for each in found}


@pytest.mark.parametrize("is_of_0_2", [False, True])
def test_a_partition_without_a_record_goes_on_where_it_started_at_each_new_checkpoint(
    spark: SparkSession, new_run: Runs, broker: LocalBroker, topic: Topics, monkeypatch: pytest.MonkeyPatch, *, is_of_0_2: bool
) -> None:
    servers, name, joining, run = broker.bootstrap_servers, topic(4, _ANY_TIME), topic(), new_run()

    def kafka(*more: str) -> Any:
        starts = {each: {str(number): -1 for number in range(4 if each == name else 1)} for each in (name, *more)}
        return kafka_of(broker, name, *more, starting_offsets="latest" if is_of_0_2 else starts)

    for partition in range(4):
        send(servers, name, sequenced(1, 2, partition=partition))  # history, which nobody wants
    with monkeypatch.context() as patched:
        if is_of_0_2:
            patched.setattr(topic_registry, "TOPICS", OF_0_2)
            ingest(spark, new_run(), kafka())
        else:
            patched.setattr(ingesting, "_read_available", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):  # it dies once the starts are decided
                ingest(spark, new_run(), kafka())
    send(servers, name, sequenced(3))
    assert ingest(spark, new_run(), kafka()).records == 1
    send(servers, name, sequenced(3, 4, 5, partition=1))
    shutil.rmtree(Path(run.lakehouse.folder("_checkpoints")))
    assert ingest(spark, new_run(), kafka()).records == 3
    send(servers, name, sequenced(3, 4, 5, partition=2))
    assert ingest(spark, new_run(), kafka(joining)).records == 3
    send(servers, name, [Sent(b"odd", timestamp=2**63 - 1), *sequenced(3, 4, 5, partition=3)])
    assert ingest(spark, new_run(), kafka(joining)).records == 4
    assert counts(spark, run, name) == {0: 2, 1: 3, 2: 3, 3: 3}
    assert [row["cause"] for row in topics.known(run.lakehouse) if row["topic"] == joining] == ["begun"]


def test_offsets_that_expired_before_a_first_record_was_read_are_refused_at_each_new_checkpoint(
    spark: SparkSession, new_run: Runs, broker: LocalBroker, topic: Topics
) -> None:
    servers, name, joining, run = broker.bootstrap_servers, topic(2), topic(), new_run()
    send(servers, name, sequenced(1, partition=1))
    assert ingest(spark, new_run(), kafka_of(broker, name)).records == 1
    send(servers, name, sequenced(*range(10)))
    delete_records(servers, name, before=5)
    for names in ((name,), (name, joining), (name, joining)):  # alone, with one that joins, and without a checkpoint
        with pytest.raises(OffsetsExpiredError) as refused:
            ingest(spark, new_run(), kafka_of(broker, *names))
        assert refused.value.observed == f"{name} partition 0: offsets 0 to 4, 5 in all, are gone"
        if len(names) == 2:
            shutil.rmtree(Path(run.lakehouse.folder("_checkpoints")))
    assert offsets(spark, run) == [(name, 1, 0)]


def test_spark_decides_the_same_without_brokers(spark: SparkSession, new_run: Runs, broker: LocalBroker, topic: Topics) -> None:
    servers, name = broker.bootstrap_servers, topic(3, _ANY_TIME)
    send(servers, name, [Sent(b"v", timestamp=1000 * second) for second in (1, 2, 3, 4)])
    delete_records(servers, name, before=2)
    producer = Producer({"bootstrap.servers": servers, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    produce(producer, name, sequenced(1, 2, partition=1))  # it stays open: its records can still be committed
    for given, wanted in (
        ("earliest", {0: 2, 1: 0, 2: 0}),
        ("latest", {0: 4, 1: 0, 2: 0}),
        ({name: {"0": 3, "1": -2, "2": -1}}, {0: 3, 1: 0, 2: 0}),
        ("1970-01-01T00:00:01Z", {0: 2, 1: 0, 2: 0}),
        ({name: "1970-01-01T01:00:03.000001+01:00"}, {0: 3, 1: 0, 2: 0}),
        ("1970-01-01T00:00:05Z", {0: 4, 1: 0, 2: 0}),
    ):
        kafka = kafka_of(broker, name, starting_offsets=given)
        for seen in (metadata.describe_topics(kafka, [name]), {}):
            assert start_offsets._decided(source.Ingest(spark, new_run(), kafka), seen) == {name: wanted}, (given, seen)
    producer.abort_transaction(30)
    with pytest.raises(SourceError, match="lacks a partition"):
        ingest(spark, new_run(), kafka_of(broker, name, starting_offsets={name: {"0": 3}}))
    assert topics.known(new_run().lakehouse) == []
