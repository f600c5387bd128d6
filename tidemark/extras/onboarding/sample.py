"""Reads a sample of topics, without Spark: committed records from the beginning and the end of each partition."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
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
    from confluent_kafka import Consumer, Message

    from lakehouse.settings.pipeline import Kafka

_MOST_BYTES, _MOST_SECONDS, _SILENCE_SECONDS = 32 * 1024 * 1024, 60, 20  # of each of the two reads
_POLL_SECONDS, _LIST_SECONDS = 0.1, 10
_AT_ONCE, _SHOWN = 500, 20
_LIMITS = {"queued_max_messages_kbytes": 16_384, "queued_min_messages": 1_000, "fetch_wait_max_ms": 20}
"""How much librdkafka reads ahead, and how long a broker waits for more records before it reports a partition's end."""

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
    of_end = each // 2
    with closing(consumer(kafka, **_LIMITS)) as client:
        begins, is_begun = _take(client, spans, each - of_end)
        # Go on after the first part, which in a compacted topic covers more offsets than records.
        after = {
            place: found[-1].offset + 1 if len(found) == each - of_end else spans[place][1] for place, found in begins.items()
        }
        rests = {place: (max(end - of_end, after[place]), end) for place, (_, end) in spans.items()}
        ends, is_ended = _take(client, rests, of_end)
    records = [record for place in spans for record in (*begins[place], *ends[place])]
    tails = {place: start for place, (start, end) in rests.items() if after[place] < start < end}
    missing = [topic for topic in kafka.topics if topic not in seen]
    return Sample(records, spans, tails, missing, is_cut_short=not (is_begun and is_ended))


def require_sample(kafka: Kafka, most: int) -> Sample:
    """Read a sample as `read` does; raise a `SourceError` if a topic does not exist or cannot be read."""
    require_reachable(kafka.bootstrap_servers)
    try:
        found = read(kafka, most)
        if found.missing_topics:
            raise no_topic(kafka, found.missing_topics)
    except LookError as error:
        where, next_step = f"topic {', '.join(kafka.topics)}", "Check the topics' rights, and kafka.properties."
        what = "The topics cannot be read from this machine."
        raise SourceError(what, where=where, observed=str(error), next_step=next_step) from None
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


def _take(
    client: Consumer, spans: Mapping[Partition, tuple[int, int]], most: int
) -> tuple[dict[Partition, list[Sampled]], bool]:
    """Read at most `most` records of each span, and whether no limit ended that before."""
    found: dict[Partition, list[Sampled]] = {place: [] for place in spans}
    left = {place for place, (start, end) in spans.items() if start < end}
    client.assign([TopicPartition(*place, spans[place][0]) for place in left])
    size, began = 0, time.monotonic()
    now = heard = began
    while left and size < _MOST_BYTES and now - began < _MOST_SECONDS and now - heard < _SILENCE_SECONDS:
        for message in client.consume(_AT_ONCE, _POLL_SECONDS):
            heard, place, error = now, (message.topic() or "", message.partition() or 0), message.error()
            if error is not None and error.code() != END_OF_PARTITION:
                raise LookError(error.name())
            if place not in left:  # it was read ahead
                continue
            offset = message.offset()
            is_end = error is not None or offset is None or offset >= spans[place][1]
            if not is_end:
                found[place].append(_sampled(message, *place))
                size += len(message)
            if is_end or len(found[place]) == most:
                left.remove(place)
                client.incremental_unassign([TopicPartition(*place)])
        now = time.monotonic()
    client.unassign()
    if left and not any(found.values()):
        raise LookError(f"no record came within {_SILENCE_SECONDS} s")
    return found, not left


def _sampled(message: Message, topic: str, partition: int) -> Sampled:
    try:
        headers = tuple(headers_of(message))
    except HeadersUnreadableError:
        headers = None
    return Sampled(topic, partition, message.offset() or 0, message.key(), message.value(), headers)
