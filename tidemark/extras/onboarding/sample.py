"""Reads a sample of topics, without Spark: committed records from the beginning and the end of each partition."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import KafkaException, TopicPartition

from bronze.kafka import metadata
from bronze.kafka.consumer import END_OF_PARTITION, HeadersUnreadableError, consumer, headers_of
from bronze.kafka.metadata import LookError, bounds, describe_topics
from bronze.kafka.source import require_reachable
from lakehouse.errors import SourceError
from lakehouse.settings.base import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from confluent_kafka import Consumer, Message

    from lakehouse.settings.pipeline import Kafka

_MOST_BYTES = 64 * 1024 * 1024
_SILENCE_SECONDS = 20
_IN_ALL_SECONDS = 120
_POLL_SECONDS = 0.1
_LIST_SECONDS = 10
_AT_ONCE = 500
_SHOWN = 20
_QUEUE_KBYTES, _QUEUE_RECORDS = 16_384, 1_000
"""How much librdkafka reads ahead. Its defaults are 64 MB and 100,000 records."""
_WAIT_MS = 20
"""How many ms a broker waits for more records before it reports a partition's end; 500 by default."""

Partition = tuple[str, int]


class Sampled(NamedTuple):
    """A record as Kafka holds it. `headers` is None if a name is not UTF-8, which the client cannot return."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] | None

    @property
    def place(self) -> str:
        """The record's place as text."""
        return f"topic {self.topic}, partition {self.partition}, offset {self.offset}"


@dataclass(frozen=True)
class Sample:
    """Records of topics, by topic, partition and offset. `tails` are the offsets where a partition continues after a gap."""

    records: Sequence[Sampled]
    partitions: Mapping[Partition, tuple[int, int]] = field(default_factory=dict)
    tails: Mapping[Partition, int] = field(default_factory=dict)
    missing_topics: Sequence[str] = ()
    is_cut_short: bool = False

    @property
    def available(self) -> int:
        """The number of offsets that the partitions hold. Transactions and compaction leave fewer records."""
        return sum(end - first for first, end in self.partitions.values())

    @property
    def tombstones(self) -> int:
        """How many records have no value."""
        return sum(each.value is None for each in self.records)


def read(kafka: Kafka, most: int) -> Sample:
    """Read at most `most` committed records, from the beginning and the end of each partition, or raise a `LookError`.

    The partitions share them evenly, and each has at least two.
    """
    seen = describe_topics(kafka, kafka.topics)
    spans = {
        (topic, partition): span
        for topic, description in sorted(seen.items())
        for partition, span in sorted(bounds(kafka, topic, description.partitions).items())
    }
    each = max(2, most // max(1, sum(first < end for first, end in spans.values())))
    tail = each // 2
    limits = {"queued_max_messages_kbytes": _QUEUE_KBYTES, "queued_min_messages": _QUEUE_RECORDS, "fetch_wait_max_ms": _WAIT_MS}
    with closing(consumer(kafka, **limits)) as client:
        reading = _Reading(client)
        reading.take(spans, each - tail)
        # Start after the first part, which in a compacted topic covers more offsets than records.
        after = dict(reading.reached)
        ends = {place: (max(end - tail, after[place]), end) for place, (_, end) in spans.items()}
        reading.take(ends, tail)
    records = sorted(reading.records, key=lambda record: record[:3])
    tails = {place: start for place, (start, end) in ends.items() if after[place] < start < end}
    return Sample(records, spans, tails, [each for each in kafka.topics if each not in seen], reading.is_cut_short)


def require_sample(kafka: Kafka, most: int) -> Sample:
    """Read a sample as `read` does; raise a `SourceError` if a topic does not exist or cannot be read."""
    require_reachable(kafka.bootstrap_servers)
    try:
        found = read(kafka, most)
        if found.missing_topics:
            raise no_topic(kafka, found.missing_topics)
    except LookError as error:
        raise SourceError(
            "The topics cannot be read from this machine.",
            where=f"topic {', '.join(kafka.topics)} at {kafka.bootstrap_servers!s}",
            observed=str(error),
            expected="the right to describe and to read each topic, and properties that librdkafka has",
            next_step="Check the topics' rights, security.protocol, sasl.* and ssl.* under kafka.properties.",
        ) from None
    return found


def no_topic(kafka: Kafka, names: Sequence[str]) -> SourceError:
    """Build the error for topics that the brokers lack or hide from this login. Raises a `LookError` if no broker answers."""
    admin = metadata.client(kafka)
    try:
        listed = admin.list_topics(timeout=_LIST_SECONDS).topics
    except KafkaException as error:
        raise LookError(admin.why(error)) from None
    known = sorted(name for name in listed if not name.startswith("__"))  # without Kafka's own
    near = [found for name in names if (found := nearest(name, known))]
    seen = ", ".join(known[:_SHOWN]) + (", ..." if len(known) > _SHOWN else "")
    return SourceError(
        "A topic does not exist.",
        where=f"topic {', '.join(names)} at {kafka.bootstrap_servers!s}",
        observed=f"topics that this login may see: {seen or 'none'}",
        next_step=f"Did you mean {', '.join(near)}?" if near else "Correct its name, create it, or have the right to see it.",
    )


class _Reading:
    """Reads from many partitions at a time, until each has its records or its end, or a limit is reached."""

    def __init__(self, client: Consumer) -> None:
        self._client = client
        self._deadline = time.monotonic() + _IN_ALL_SECONDS
        self._size = 0
        self.records: list[Sampled] = []
        self.reached: dict[Partition, int] = {}
        self.is_cut_short = False

    def take(self, spans: Mapping[Partition, tuple[int, int]], most: int) -> None:
        self.reached |= {place: start for place, (start, _) in spans.items()}
        left = {place: most for place, (start, end) in spans.items() if start < end}
        self._client.assign([TopicPartition(*place, spans[place][0]) for place in left])
        heard, began = time.monotonic(), len(self.records)
        while left and not self.is_cut_short:
            messages = self._client.consume(_AT_ONCE, _POLL_SECONDS)
            for message in messages:
                self._take(message, spans, left)
            now = time.monotonic()
            heard = now if messages else heard
            if now - heard > _SILENCE_SECONDS and len(self.records) == began:
                raise LookError(f"no record came within {_SILENCE_SECONDS} s")
            self.is_cut_short = self._size > _MOST_BYTES or now > self._deadline or now - heard > _SILENCE_SECONDS
        self._client.unassign()

    def _take(self, message: Message, spans: Mapping[Partition, tuple[int, int]], left: dict[Partition, int]) -> None:
        place, offset, error = (message.topic() or "", message.partition() or 0), message.offset(), message.error()
        if error is not None and error.code() != END_OF_PARTITION:
            raise LookError(error.name())
        if place not in left:  # it was read ahead
            return
        if error is not None or offset is None or offset >= spans[place][1]:
            self.reached[place] = spans[place][1]
            left[place] = 0
        else:
            self.records.append(_sampled(message, *place, offset))
            self._size += len(message)
            self.reached[place] = offset + 1
            left[place] -= 1
        if not left[place]:
            del left[place]
            self._client.incremental_unassign([TopicPartition(*place)])


def _sampled(message: Message, topic: str, partition: int, offset: int) -> Sampled:
    try:
        headers = tuple(headers_of(message))
    except HeadersUnreadableError:
        headers = None
    return Sampled(topic, partition, offset, message.key(), message.value(), headers)
