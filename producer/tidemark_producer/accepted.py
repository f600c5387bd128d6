"""Reads back what Kafka has of a producer: its last position in each partition of a topic."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tidemark_producer.records import GREATEST, Headers, Position, name_bytes

if TYPE_CHECKING:
    from confluent_kafka import Message

_PRODUCERS_OWN = (
    *("acks", "request.required", "retries", "message.send", "message.timeout", "delivery.", "enable.idempotence"),
    *("enable.gapless", "transaction", "max.in.flight", "queue.buffering", "linger", "batch.", "compression", "partitioner"),
    *("sticky", "queuing", "on_delivery", "default.topic.config"),
)
"""Prefixes of settings that a consumer does not have."""

_DENIED = {
    KafkaError._AUTHENTICATION,  # noqa: SLF001 -- that is how the client names its own codes
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}
_headers: Callable[[Message], list[tuple[str, Any]] | None] = methodcaller("headers")
"""For a header name that is not UTF-8, the client returns a result and sets an error. Called from C, that raises SystemError;
a plain call has ended in a segmentation fault.
"""

_QUEUE = 100_000
_FIRST_STEP = 1_000
_POLL_SECONDS = 0.05
_PAUSE_SECONDS = 0.2
_TAKEN = 1_000


def last_accepted(
    config: Mapping[str, Any], topic: str, name: str, *, headers: Headers | None = None, timeout: float = 60
) -> dict[int, Position | None]:
    """Read back a producer's greatest committed position in each partition; None if there is none.

    A sender that recovers sends up to a full queue again, so the greatest need not be the last. A partition is read backwards
    to its start, or over more of the producer's records than `queue.buffering.max.messages`: pass the sender's `config` and
    `headers`. Records that retention removed are not seen; Silver knows their positions in `silver_last_accepted`.

    Raises:
        TimeoutError: Reading, or an open transaction, took longer than `timeout` seconds. Errors are retried until then.
        KafkaException: Kafka answered nothing but errors until then, or refuses this user.
    """
    ours, producer = headers or Headers(), name_bytes(name)
    if ours.sequence is None:
        raise ValueError("Without a header for the sequence there is nothing to read back.")
    deadline = time.monotonic() + timeout
    refused: KafkaException | None = None
    while True:
        try:
            return _Reading(config, topic, producer, ours, deadline).all()
        except TimeoutError:
            raise refused or TimeoutError(
                f"Topic {topic} was not read in time, or a transaction in it is still open."
            ) from None
        except KafkaException as error:
            if error.args[0].code() in _DENIED:
                raise
            # A broker's answer says more than a last attempt of some milliseconds that reached none.
            if refused is None or error.args[0].code() > 0:
                refused = error
            time.sleep(_PAUSE_SECONDS)


class _Reading:
    def __init__(self, config: Mapping[str, Any], topic: str, producer: bytes, headers: Headers, deadline: float) -> None:
        self._topic, self._producer, self._headers, self._deadline = topic, producer, headers, deadline
        # With 0 the queue has no limit, and all has to be read.
        self._enough = int(config.get("queue.buffering.max.messages", _QUEUE)) or GREATEST
        self._config = {
            "log_level": 3,
            **{key: value for key, value in config.items() if not key.startswith(_PRODUCERS_OWN)},
            "group.id": "tidemark-producer",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,  # how long a broker waits before it says that a partition has ended
            "auto.offset.reset": "error",
        }

    def all(self) -> dict[int, Position | None]:
        uncommitted = Consumer({**self._config, "isolation.level": "read_uncommitted"})
        committed = Consumer({**self._config, "isolation.level": "read_committed"})
        try:
            found = committed.list_topics(self._topic, timeout=self._left()).topics[self._topic]
            if found.error is not None:
                raise KafkaException(found.error)
            return {partition: self._one(uncommitted, committed, partition) for partition in sorted(found.partitions)}
        finally:
            uncommitted.close()
            committed.close()

    def _one(self, uncommitted: Consumer, committed: Consumer, partition: int) -> Position | None:
        place = TopicPartition(self._topic, partition)
        low, end = uncommitted.get_watermark_offsets(place, timeout=self._left())
        # Behind any open transaction nothing is visible yet, not even the producer's own committed records.
        while committed.get_watermark_offsets(place, timeout=self._left())[1] < end:
            time.sleep(_PAUSE_SECONDS)
        seen: set[Position] = set()
        step = _FIRST_STEP
        while low < end and len(seen) <= self._enough:
            start = max(low, end - step)
            seen |= self._between(committed, partition, start, end)
            end, step = start, step * 4
        return max(seen, default=None)

    def _between(self, consumer: Consumer, partition: int, start: int, end: int) -> set[Position]:
        consumer.assign([TopicPartition(self._topic, partition, start)])
        seen: set[Position] = set()
        while True:
            for message in consumer.consume(_TAKEN, timeout=min(self._left(), _POLL_SECONDS)):
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 -- the client's own code
                    raise KafkaException(error)
                if error is not None or (message.offset() or 0) >= end:
                    return seen
                position = self._position(message)
                if position is not None:
                    seen.add(position)

    def _position(self, message: Message) -> Position | None:
        """Return a record's position; None if the record is not the producer's."""
        try:
            headers = _headers(message) or []
        except SystemError:  # a name that is no UTF-8: nobody made it with this kit
            return None
        if self._headers.producer is not None and _only(headers, self._headers.producer) != self._producer:
            return None
        epoch = _number(_only(headers, self._headers.epoch)) if self._headers.epoch is not None else 1
        sequence = _number(_only(headers, self._headers.sequence or ""))
        return None if epoch is None or sequence is None else Position(epoch, sequence)

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


def _only(headers: list[tuple[str, Any]], name: str) -> bytes | None:
    """Return a header's value; None if it is missing, or has two values that differ."""
    values = {value for found, value in headers if found == name}
    return values.pop() if len(values) == 1 else None


def _number(value: bytes | None) -> int | None:
    if value is None or not value.isdigit() or len(value) > len(str(GREATEST)) or int(value) > GREATEST:
        return None
    return int(value)
