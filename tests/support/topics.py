"""What a topic holds, read back by a consumer of its own."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Message

_SECONDS = 30
_SILENT_SECONDS = 60


class Found(NamedTuple):
    """A record as it is in a topic."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]

    @property
    def position(self) -> tuple[int, int]:
        """Its epoch and sequence, as the kit's headers have them."""
        named = dict(self.headers)
        return int(named["epoch"] or b""), int(named["seq"] or b"")


def records_of(bootstrap_servers: str, topic: str, *, isolation: str = "read_committed") -> list[Found]:
    """All records of a topic, by partition and offset.

    Raises:
        TimeoutError: The brokers gave no more for a while, and not all.
    """
    config: dict[str, Any] = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": "tests",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 20,
        "isolation.level": isolation,
        "log_level": 3,
    }
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
                    found.append(_found(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                else:
                    raise KafkaException(error)
        return sorted(found)
    finally:
        consumer.close()


def _found(message: Message) -> Found:
    headers = cast("list[tuple[str, bytes | None]] | None", message.headers()) or []
    return Found(message.partition() or 0, message.offset() or 0, message.key(), message.value(), headers)


def twice_or_falling(records: list[Found]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The positions that stand more than once, and those that are not above all before them in their partition."""
    seen: set[tuple[int, int]] = set()
    last: dict[int, tuple[int, int]] = {}
    twice, falling = [], []
    for record in records:
        if record.position in seen:
            twice.append(record.position)
        seen.add(record.position)
        if record.position <= last.get(record.partition, (-1, -1)):
            falling.append(record.position)
        last[record.partition] = max(record.position, last.get(record.partition, (-1, -1)))
    return twice, falling


def accepted(found: list[Found]) -> list[Found]:
    """What is above the watermark of its partition when it comes: what Silver keeps."""
    high: dict[int, tuple[int, int]] = {}
    kept = []
    for record in found:
        if record.position > high.get(record.partition, (0, -1)):
            high[record.partition] = record.position
            kept.append(record)
    return kept
