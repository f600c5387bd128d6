"""What a topic holds, read back by a consumer of its own."""

import time
from collections import Counter
from typing import Any, NamedTuple, cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

_SECONDS = 30
_SILENT_SECONDS = 60


class Found(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp: int = 0  # milliseconds since 1970

    @property
    def position(self) -> tuple[int, int]:
        """Its epoch and sequence, as the kit's headers have them."""
        named = dict(self.headers)
        return int(named["epoch"] or b""), int(named["seq"] or b"")


def records_of(bootstrap_servers: str, topic: str, *, isolation: str = "read_committed") -> list[Found]:
    config: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, "group.id": "tests", "isolation.level": isolation}
    config |= {"enable.auto.commit": False, "enable.partition.eof": True, "fetch.wait.max.ms": 20, "log_level": 3}
    consumer = Consumer(config)
    try:
        partitions = consumer.list_topics(topic, timeout=_SECONDS).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        found: list[Found] = []
        ended: set[int | None] = set()
        heard = time.monotonic()
        while len(ended) < len(partitions):
            if time.monotonic() - heard > _SILENT_SECONDS:
                raise TimeoutError(f"The brokers gave {len(found)} records of {topic}, and then no more.")
            for message in consumer.consume(1_000, timeout=0.1):
                heard = time.monotonic()
                error = message.error()
                if error is None:
                    headers = cast("list[tuple[str, bytes | None]] | None", message.headers()) or []
                    place = message.partition() or 0, message.offset() or 0
                    found.append(Found(*place, message.key(), message.value(), headers, message.timestamp()[1]))
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                else:
                    raise KafkaException(error)
        return sorted(found)
    finally:
        consumer.close()


def twice_or_falling(records: list[Found]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The positions of more than one record, and those that are not above all before them in their partition."""
    counted = Counter(record.position for record in records)
    above = {record[:2] for record in accepted(records)}
    return [each for each, times in counted.items() if times > 1], [each.position for each in records if each[:2] not in above]


def accepted(found: list[Found]) -> list[Found]:
    """What is above the watermark of its partition when it comes: what Silver keeps."""
    high: dict[int, tuple[int, int]] = {}
    kept = []
    for record in found:
        if record.position > high.get(record.partition, (0, -1)):
            high[record.partition] = record.position
            kept.append(record)
    return kept
