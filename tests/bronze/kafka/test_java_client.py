"""What the Java client of a session answers, and that it is what librdkafka answers."""

import time
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from bronze.kafka import metadata
from bronze.kafka.java_client import JavaClient
from tests.bronze.test_ingest import kafka_of
from tests.support.kafka import delete_records, produce, send, sequenced
from tidemark.extras.demo.broker import LocalBroker
from tidemark.readers import lag


def test_java_and_librdkafka_describe_topics_alike(spark: SparkSession, broker: LocalBroker, topic: Callable[..., str]) -> None:
    names = [topic(3) for _ in range(4)]
    kafka, missing = kafka_of(broker, *names), "no-such-topic"
    send(broker.bootstrap_servers, names[0], [*sequenced(1, 2, 3), *sequenced(1, partition=1)])
    delete_records(broker.bootstrap_servers, names[0], before=2)
    by_java, by_c = JavaClient(kafka, spark, "no login"), metadata.client(kafka)
    assert by_java.describe([*names, missing]) == by_c.describe([*names, missing])
    assert by_java.describe([*names, missing]).keys() == set(names)
    for at in (metadata.EARLIEST, metadata.LATEST, 0, 2**42):
        for is_committed in (True, False):
            asked = [client.offsets(names[0], [0, 1, 2], at, is_committed=is_committed) for client in (by_java, by_c)]
            assert asked[0] == asked[1], (at, is_committed)
    with pytest.raises(metadata.LookError, match="no login, and over Spark Connect"):
        JavaClient(kafka, object(), "no login")  # type: ignore[arg-type]  # such a session has no JVM
    impatient = {"security.protocol": "SSL", "default.api.timeout.ms": "3000", "request.timeout.ms": "2000"}
    refused = kafka.model_copy(update={"properties": impatient})
    with pytest.raises(metadata.LookError) as unanswered:
        JavaClient(refused, spark, "no login").describe(names)
    assert str(unanswered.value) in ("TimeoutException", "SSLHandshakeException")


def test_the_lag_ends_where_an_open_transaction_begins(broker: LocalBroker, topic: Callable[..., str]) -> None:
    name, servers = topic(), broker.bootstrap_servers
    send(servers, name, sequenced(*range(100)))
    left_open = Producer({"bootstrap.servers": servers, "transactional.id": f"open-{name}", "log_level": 3})
    left_open.init_transactions(30)
    left_open.begin_transaction()
    produce(left_open, name, sequenced(*range(100, 105)))
    send(servers, name, sequenced(*range(105, 305)))
    kafka = kafka_of(broker, name)

    def lags(last_offset: int) -> list[tuple[object, ...]]:
        stream = {"topic": name, "partition": 0, "high_watermark": 1, "last_offset": last_offset}
        return [(row["lag"], row["end_offset"], row["open_transaction"]) for row in lag.lags(kafka, [stream])]

    assert lags(49) == [(50, 305, 100)]
    assert lags(99) == [(0, 305, 100)]
    left_open.abort_transaction(30)
    until = time.monotonic() + 30  # the coordinator writes the marker of the end after its answer
    while lags(99) == [(0, 305, 100)] and time.monotonic() < until:
        time.sleep(0.1)
    assert lags(99) == [(206, 306, None)]
