"""The demo's long stream, planned before it is sent, so that the expected outcome is known without deciding.

It is the same on every machine: sequences 1, 2, 3 and so on, repeated blocks, and records without a usable sequence.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from lakehouse.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

EVENTS_TOPIC, EVENTS_PARTITIONS, EVENTS_RECORDS = "events", 8, 200_000
EVENTS_SCHEMA = "device STRING, reading DOUBLE, note STRING"
EVENTS_HEADER = "seq"
BAD_KINDS = 4

_FEWEST_PER_PARTITION = 10
_DEVICES_PER_PARTITION = 125
_TURN_RECORDS = 500


class Outgoing(NamedTuple):
    """One record to send. The partition is set here, so that the outcome does not depend on a partitioner."""

    partition: int
    key: bytes
    value: bytes
    headers: list[tuple[str, bytes]]


@dataclass(frozen=True)
class PartitionPlan:
    """What goes to one partition: sequences 1, 2, 3 and so on up to `unique`, with interruptions.

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
                yield self._event(sequence)._replace(headers=bad_headers(kind, sequence))

    def _event(self, sequence: int) -> Outgoing:
        device = f"device-{self.partition}-{sequence % _DEVICES_PER_PARTITION:03d}"
        noise = sequence * 2654435761 % 2**32  # Knuth's hash: a record gets the same bytes each time it is sent
        value = f'{{"device": "{device}", "reading": {noise % 100_000 / 100:.2f}, "note": "{noise:032x}{noise * noise:0100x}"}}'
        return Outgoing(self.partition, device.encode(), value.encode(), [(EVENTS_HEADER, b"%d" % sequence)])


def plan_events(records: int = EVENTS_RECORDS, *, partitions: int = EVENTS_PARTITIONS, seed: int = 1) -> list[PartitionPlan]:
    """Plan the long stream: on each partition one to three repeated blocks, and each kind of bad record once.

    `records` counts all, split evenly; the first partition gets the rest. A block is 2 % to 8 % of a partition.

    Raises:
        UsageError: There are fewer than ten records per partition.
    """
    if records < partitions * _FEWEST_PER_PARTITION:
        raise UsageError(
            "So few records show nothing.",
            where="the demo's stream of events",
            observed=records,
            expected=f"at least {partitions * _FEWEST_PER_PARTITION}",
            next_step="Ask for more.",
        )
    rng = random.Random(seed)  # noqa: S311 -- a repeatable stream, not a secret
    share, rest = divmod(records, partitions)
    return [_plan_partition(rng, partition, share + (rest if partition == 0 else 0)) for partition in range(partitions)]


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
    name = EVENTS_HEADER
    kinds: tuple[list[tuple[str, bytes]], ...] = (
        [],
        [(name, b"seven")],
        [(name, b"-%d" % sequence)],
        [(name, b"%d" % sequence), (name, b"%d" % (sequence + 1))],
    )
    return kinds[kind]
