"""The demo's records, planned before they are sent, so that the plan says what to expect. They are the same everywhere.

They are the article's incidents, and a long stream of events: sequences 1, 2, 3 and so on, repeated blocks, and records without
a usable sequence.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import KafkaException, Producer
from tidemark_producer import Given, Headers, ProducerError, Sender

from lakehouse.contracts.silver import ACCEPTED, DUPLICATE, INVALID
from lakehouse.errors import SourceError, UsageError
from tidemark.extras.demo.broker import create_topic

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

INCIDENTS_TOPIC, INCIDENTS_PARTITIONS = "incidents", 2
INCIDENTS_SCHEMA = "id BIGINT, data STRING"

EVENTS_TOPIC, EVENTS_PARTITIONS, EVENTS_RECORDS = "events", 8, 200_000
EVENTS_SCHEMA = "device STRING, reading DOUBLE, note STRING"
EVENTS_HEADER = "seq"
BAD_KINDS = 4

_FEWEST_PER_PARTITION = 10
_DEVICES_PER_PARTITION = 125
_TURN_RECORDS = 500
_FLUSH_SECONDS = 60

# Incident, id and data as the article prints them: 1 to 7 are sent, a failure follows, and all from 4 on are sent again.
_INCIDENTS = (
    *(("A", 1, "ab583cc8f8"), ("B", 2, "83ccc8f8f8"), ("C", 3, "115tab5b58"), ("C", 4, "83caac564b")),
    *(("B", 5, "a583ccc8f8"), ("A", 6, "8f8bc8f890"), ("A", 7, "07583ab583"), ("A", 8, "930fce58f3")),
    *(("B", 9, "7583ab93ab"), ("C", 10, "7583aab583"), ("B", 11, "b583075830")),
)
_FIRST_TRY, _SECOND_TRY = _INCIDENTS[:7], _INCIDENTS[3:]
_INCIDENT_PARTITION = {"A": 0, "B": 1, "C": 0}


class Outgoing(NamedTuple):
    """One record to send. The partition is set here, so that the outcome does not depend on a partitioner.

    `number` is its sequence; None if it has no usable one.
    """

    partition: int
    key: bytes
    value: bytes
    headers: list[tuple[str, bytes]]
    number: int | None = None


@dataclass(frozen=True)
class PartitionPlan:
    """The records of one partition: sequences 1, 2, 3 and so on up to `unique`, with interruptions.

    Attributes:
        resends: (first, last) of each block that is sent again, in order, right after `last` was sent.
        bad: (after, kind): the sequence after which a bad record is sent, and in which way it is bad, see `bad_headers`.
    """

    partition: int
    unique: int
    resends: tuple[tuple[int, int], ...]
    bad: tuple[tuple[int, int], ...]

    @property
    def resent(self) -> int:
        """The number of records that are sent again with the same sequence, key and value."""
        return sum(last - first + 1 for first, last in self.resends)

    def outgoing(self) -> Iterator[Outgoing]:
        """Yield this partition's records, in the order they are sent."""
        again = {last: first for first, last in self.resends}
        bad = {after: [kind for place, kind in self.bad if place == after] for after, _ in self.bad}
        for sequence in range(1, self.unique + 1):
            yield self._event(sequence)
            for resent in range(again.get(sequence, sequence + 1), sequence + 1):
                yield self._event(resent)
            for kind in bad.get(sequence, ()):
                yield self._event(sequence)._replace(headers=bad_headers(kind, sequence), number=None)

    def _event(self, sequence: int) -> Outgoing:
        device = f"device-{self.partition}-{sequence % _DEVICES_PER_PARTITION:03d}"
        noise = sequence * 2654435761 % 2**32  # Knuth's hash: a record gets the same bytes each time it is sent
        value = f'{{"device": "{device}", "reading": {noise % 100_000 / 100:.2f}, "note": "{noise:032x}{noise * noise:0100x}"}}'
        return Outgoing(self.partition, device.encode(), value.encode(), [(EVENTS_HEADER, b"%d" % sequence)], sequence)


def plan_events(records: int = EVENTS_RECORDS, *, seed: int = 1) -> list[PartitionPlan]:
    """Plan the long stream: on each partition one to three repeated blocks, and each kind of bad record once.

    `records` counts all, split evenly; the first partition gets the rest. A block is 2 % to 8 % of a partition. UsageError if
    there are fewer than ten records per partition.
    """
    if records < EVENTS_PARTITIONS * _FEWEST_PER_PARTITION:
        raise UsageError(
            "These are too few records for the demo.",
            where="the demo's stream of events",
            observed=records,
            expected=f"at least {EVENTS_PARTITIONS * _FEWEST_PER_PARTITION}",
            next_step="Ask for more.",
        )
    rng = random.Random(seed)  # noqa: S311 -- a repeatable stream, not a secret
    share, rest = divmod(records, EVENTS_PARTITIONS)
    return [_plan_partition(rng, each, share + (rest if each == 0 else 0)) for each in range(EVENTS_PARTITIONS)]


def _plan_partition(rng: random.Random, partition: int, records: int) -> PartitionPlan:
    shortest, longest = max(1, records // 50), max(1, records * 2 // 25)
    blocks = [rng.randint(shortest, longest) for _ in range(rng.randint(1, 3))]
    unique = records - sum(blocks) - BAD_KINDS
    lasts = rng.sample(range(longest, unique + 1), len(blocks))
    return PartitionPlan(
        partition,
        unique,
        resends=tuple((last - block + 1, last) for last, block in zip(lasts, blocks, strict=True)),
        bad=tuple((rng.randint(1, unique), kind) for kind in range(BAD_KINDS)),
    )


def events(plans: Iterable[PartitionPlan]) -> Iterator[Outgoing]:
    """Yield the records of all partitions, interleaved, each partition in its order."""
    streams = [plan.outgoing() for plan in plans]
    while streams:
        for stream in list(streams):
            turn = list(islice(stream, _TURN_RECORDS))
            yield from turn
            if not turn:
                streams.remove(stream)


def bad_headers(kind: int, sequence: int) -> list[tuple[str, bytes]]:
    """Return headers without a usable sequence: none, not a number, a negative number, or two that disagree.

    >>> [bad_headers(kind, 7) for kind in range(BAD_KINDS)]
    [[], [('seq', b'seven')], [('seq', b'-7')], [('seq', b'7'), ('seq', b'8')]]
    """
    values: tuple[list[bytes], ...] = ([], [b"seven"], [b"-%d" % sequence], [b"%d" % sequence, b"%d" % (sequence + 1)])
    return [(EVENTS_HEADER, value) for value in values[kind]]


@dataclass(frozen=True)
class Sent:
    """The records sent to both topics, and the expected contents of the tables.

    Attributes:
        incidents: The ids of each incident, once each, in the order they were first sent.
        classes: Events by the class that they must end in.
        high_watermarks: The highest sequence of each partition of the events.
    """

    records: int
    incident_records: int
    incidents: dict[str, list[int]]
    classes: dict[str, int]
    high_watermarks: dict[int, int]


def incidents() -> list[Outgoing]:
    """Return the article's example: incidents A, B and C with data 1 to 7, then 4 to 11 again; 15 records, 11 of them unique.

    The key is the incident, the sequence is the field `id` of the JSON value. An incident stays on one partition.
    """
    return [
        Outgoing(
            _INCIDENT_PARTITION[incident], incident.encode(), json.dumps({"id": number, "data": data}).encode(), [], number
        )
        for incident, number, data in (*_FIRST_TRY, *_SECOND_TRY)
    ]


def expected(records: int) -> Sent:
    """Return what the tables must hold once `send_incidents` and `send_events` have sent all."""
    plans, article = plan_events(records), incidents()
    return Sent(
        records=records + len(article),
        incident_records=len(article),
        incidents={
            incident: [number for name, number, _ in _INCIDENTS if name == incident] for incident in _INCIDENT_PARTITION
        },
        classes={
            ACCEPTED: sum(plan.unique for plan in plans),
            DUPLICATE: sum(plan.resent for plan in plans),
            INVALID: sum(len(plan.bad) for plan in plans),
        },
        high_watermarks={plan.partition: plan.unique for plan in plans},
    )


def send_incidents(bootstrap_servers: str) -> int:
    """Create the topic of the incidents, fill it, and return the number of records; SourceError if that fails."""
    create_topic(bootstrap_servers, INCIDENTS_TOPIC, INCIDENTS_PARTITIONS)
    return produce_numbered(bootstrap_servers, INCIDENTS_TOPIC, incidents(), Headers(None, None, None))


def send_events(bootstrap_servers: str, records: int) -> int:
    """Create the topic of the events, fill it, and return the number of records; SourceError if that fails."""
    plans = plan_events(records)
    create_topic(bootstrap_servers, EVENTS_TOPIC, EVENTS_PARTITIONS)
    return produce_numbered(bootstrap_servers, EVENTS_TOPIC, events(plans), Headers(None, None, EVENTS_HEADER))


def produce_numbered(bootstrap_servers: str, topic: str, records: Iterable[Outgoing], headers: Headers) -> int:
    """Send records by a numbering producer per partition; return their number once the broker has them all.

    If a number does not rise, the producer crashed: the next one sends the same again. A record without a number comes from
    another producer. `headers` names what the producers write into headers. SourceError if not all arrive within a minute.
    """
    config = {"bootstrap.servers": bootstrap_servers, "linger.ms": 20, "log_level": 3}
    senders: dict[int, Sender] = {}
    last: dict[int, int] = {}
    sent = 0
    try:
        stranger = Producer(config)  # one for all of them: each new client takes half a second until it may send
        for record in records:
            sent += 1
            number, place = record.number, record.partition
            if number is None:
                if place in senders:
                    senders[place].flush(_FLUSH_SECONDS)
                _send(stranger, topic, record)
                continue
            if place in senders and number <= last[place]:
                senders.pop(place).close(_FLUSH_SECONDS)
            if place not in senders:
                senders[place] = Sender(config, f"{topic}-{place}", Given(), headers=headers)
            senders[place].send(topic, record.value, record.key, partition=place, sequence=number, timeout=_FLUSH_SECONDS)
            last[place] = number
        for sender in senders.values():
            sender.flush(_FLUSH_SECONDS)
    except (ProducerError, KafkaException, TimeoutError) as error:
        raise SourceError(
            "The records could not be sent.",
            where=f"topic {topic} at {bootstrap_servers}",
            observed=str(error),
            expected="every record confirmed by the broker",
            next_step="Check that the broker runs, has room on its disk, and has the topic with that many partitions.",
        ) from error
    finally:
        for sender in senders.values():
            with contextlib.suppress(ProducerError, TimeoutError):
                sender.close(0)
    return sent


def _send(client: Producer, topic: str, record: Outgoing) -> None:
    """Send a record and wait for it; KafkaException if the broker refuses it, TimeoutError if it does not answer."""
    refusals: list[KafkaError] = []
    client.produce(
        topic,
        record.value,
        record.key,
        record.partition,
        on_delivery=lambda error, _: refusals.append(error) if error else None,
        headers=list(record.headers),
    )
    if client.flush(_FLUSH_SECONDS):
        raise TimeoutError(f"a record was not confirmed within {_FLUSH_SECONDS} s")
    if refusals:
        raise KafkaException(refusals[0])
