"""A copier between two clusters: it keeps keys, values, headers and timestamps, and the order within each partition."""

from collections.abc import Mapping

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from tests.support.kafka import Sent, send

_SECONDS = 30


def copy(
    source: str, target: str, topic: str, partition_of: Mapping[bytes, int], *, first: int = 0, end: int | None = None
) -> int:
    """Copy a topic's records, partition after partition, each to the partition of its key. How many were copied.

    Where it was killed, it stops before the record `end`; where it goes on from its last commit, it starts at `first`.
    """
    settings = {"bootstrap.servers": source, "group.id": "copier", "enable.partition.eof": True, "enable.auto.commit": False}
    consumer = Consumer(settings)
    partitions = consumer.list_topics(topic, _SECONDS).topics[topic].partitions
    records: list[Sent] = []
    for partition in sorted(partitions):
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        while (message := consumer.poll(_SECONDS)) is not None and message.error() is None:
            key, (_, timestamp) = message.key() or b"", message.timestamp()
            records.append(Sent(message.value(), key, message.headers() or (), partition_of[key], timestamp))
        assert message is not None, f"partition {partition} has no end"
        assert message.error().code() == KafkaError._PARTITION_EOF
    consumer.close()
    send(target, topic, records[first:end])
    return len(records[first:end])
