"""Real producers and the administration of a real broker, as short as a test wants them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SECONDS = 30


@dataclass(frozen=True)
class Sent:
    """A record as a producer sends it."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = field(default=())
    partition: int = 0


def send(bootstrap_servers: str, topic: str, records: Iterable[Sent]) -> None:
    """Send, and wait until the broker has them all."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "message.max.bytes": 8_000_000, "log_level": 3})
    _produce(producer, topic, records)


def send_transaction(bootstrap_servers: str, topic: str, records: Iterable[Sent], *, commit: bool) -> None:
    """Send in one transaction, and commit or abort it."""
    config = {"bootstrap.servers": bootstrap_servers, "transactional.id": f"on-{topic}", "log_level": 3}
    producer = Producer(config)
    producer.init_transactions(_SECONDS)
    producer.begin_transaction()
    _produce(producer, topic, records)
    if commit:
        producer.commit_transaction(_SECONDS)
    else:
        producer.abort_transaction(_SECONDS)


def delete_records(bootstrap_servers: str, topic: str, *, before: int) -> None:
    """Remove the records of partition 0 below an offset, as retention does."""
    until = TopicPartition(topic, 0, before)
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})  # named: collected too early, it would never answer
    admin.delete_records([until])[until].result(_SECONDS)


def delete_topic(bootstrap_servers: str, topic: str) -> None:
    """Remove a topic, and wait until its name is free."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.delete_topics([topic])[topic].result(_SECONDS)
    deadline = time.monotonic() + _SECONDS
    while topic in admin.list_topics(timeout=_SECONDS).topics and time.monotonic() < deadline:
        time.sleep(0.1)


def _produce(producer: Producer, topic: str, records: Iterable[Sent]) -> None:
    refusals: list[object] = []
    for record in records:
        producer.produce(
            topic,
            record.value,
            record.key,
            record.partition,
            on_delivery=lambda error, _: refusals.append(error) if error else None,
            headers=list(record.headers),
        )
    assert producer.flush(_SECONDS) == 0
    assert refusals == []
