"""The pipeline as Kafka's own tools see it: a consumer group that follows Silver. And how far Silver is behind."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from lakehouse.run.context import Run
from lakehouse.settings.kafka import Kafka
from pipelines import bronze_to_silver, kafka_to_bronze
from tests.support.kafka import Sent, produce, send, sequenced
from tests.support.small_config import settings_of, write_config
from tidemark.commands import main
from tidemark.extras.demo.broker import LocalBroker


def loaded(spark: SparkSession, run: Run, broker: LocalBroker, topic: str, group: str) -> list[str]:
    kafka = {"bootstrap_servers": broker.bootstrap_servers, "topics": [topic], "commit_group": group}
    settings = settings_of(run).model_copy(update={"kafka": Kafka.model_validate(kafka)})
    kafka_to_bronze.run(spark, run, settings)
    bronze_to_silver.run(spark, run, settings)
    return [name for name, _ in run.report.seen if "group" in name]  # type: ignore[attr-defined] # the fixture's report


def committed(broker: LocalBroker, group: str) -> dict[tuple[str, int], int]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    return {(each.topic, each.partition): each.offset for each in asked[group].result(30).topic_partitions}


def test_the_group_follows_what_silver_decided_and_status_shows_the_lag(
    spark: SparkSession,
    new_run: Callable[[], Run],
    broker: LocalBroker,
    topic: Callable[..., str],
    tmp_path: Path,
    *,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name, group, servers = topic(3), "tidemark-follows", broker.bootstrap_servers
    send(servers, name, [*sequenced(1, 2, 2, 1), *sequenced(7, partition=1), Sent(b"no sequence", partition=1)])
    assert loaded(spark, new_run(), broker, name, group) == ["silver.group_committed"]
    assert committed(broker, group) == {(name, 0): 4, (name, 1): 2}

    send(servers, name, [*sequenced(3, 4, 5), *sequenced(8, partition=2)])
    producer = Producer({"bootstrap.servers": servers, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    produce(producer, name, sequenced(8, partition=1))
    send(servers, name, sequenced(9, partition=1))  # nobody reads it before the transaction ends
    kafka = {"bootstrap_servers": servers, "topics": [name]}
    status = ["status", "--lag", "--config", str(write_config(tmp_path, root=str(new_run().lakehouse.root), kafka=kafka))]
    assert main([*status, "--json"]) == 0
    lag = json.loads(capsys.readouterr().out)["lag"]
    assert [tuple(row.values())[1:] for row in lag] == [(0, 3, 7, 3, None), (1, 1, 4, 0, 2), (2, None, 1, 1, None)]
    assert main(status) == 0
    sentence = "Lag: 4 offsets behind Kafka in 3 partitions. An open transaction holds back"
    assert f"{sentence} {name}/1 at offset 2." in capsys.readouterr().out
    producer.abort_transaction(30)
    kafka["topics"] = [name, "misspelt"]
    write_config(tmp_path, root=str(new_run().lakehouse.root), kafka=kafka)
    assert main(status) == 1
    said = capsys.readouterr()
    assert "Kafka has no topic misspelt, or this login may not see it." in said.out
    assert f"Asking {servers}" in said.err

    loaded(spark, new_run(), broker, name, group)
    assert committed(broker, group) == {(name, 0): 7, (name, 1): 4, (name, 2): 1}


def test_a_group_in_use_is_refused_and_the_load_stays(
    spark: SparkSession, run: Run, broker: LocalBroker, topic: Callable[..., str]
) -> None:
    name, group = topic(), "tidemark-taken"
    send(broker.bootstrap_servers, name, sequenced(1, 2))
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "enable.auto.commit": False})
    consumer.subscribe([name])
    deadline = time.monotonic() + 60
    while not consumer.assignment() and time.monotonic() < deadline:
        consumer.poll(0.2)
    assert consumer.assignment()
    try:
        assert loaded(spark, run, broker, name, group) == ["silver.group_commit_failed"]
    finally:
        consumer.close()

    [told] = run.report.named("silver.group_commit_failed")  # type: ignore[attr-defined] # the fixture's report
    assert "active members" in str(told["why"])
    assert committed(broker, group) == {}
    assert spark.read.table(run.table("silver_records").sql).count() == 2
