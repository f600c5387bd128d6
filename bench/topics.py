"""What the benchmark sends: numbered records, some of them in blocks that are sent again. The truth is planned, not decided."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING

from bronze.local_broker import create_topic
from jobs.demo_events import Outgoing
from jobs.demo_input import produce

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER = "seq"
PARTITIONS = 8

NONE, RESENT = "none", "resent"
RESENT_SHARE = {NONE: 0.0, RESENT: 0.05}
"""The patterns: which share of the records is sent for the second time."""

_BLOCK_RECORDS = 10_000
_VALUE_BYTES = 200
_KEYS_PER_PARTITION = 125
_TURN_RECORDS = 500
# Values are cut from 16 MiB of noise, so no compressor's window meets the same bytes twice; a record gets the same ones again.
_NOISE = random.Random(1).randbytes(2**24)
_STRIDE = 2_654_435_761


@dataclass(frozen=True)
class Topic:
    """A topic of one pattern.

    Attributes:
        name: Its name.
        unique: Records of each partition that are sent for the first time: sequences 1, 2, 3 and on.
        resends: Blocks that are sent again: partition, first and last sequence.
    """

    name: str
    unique: tuple[int, ...]
    resends: tuple[tuple[int, int, int], ...] = ()

    @property
    def records(self) -> int:
        """All records, the resent ones included."""
        return sum(self.unique) + sum(last - first + 1 for _, first, last in self.resends)


def plan_topic(name: str, records: int, *, resent_share: float = 0.0) -> Topic:
    """A topic of so many records, of which a share is sent again in blocks of 10,000, or in one where there are fewer.

    >>> topic = plan_topic("t", 20_000, resent_share=0.05)
    >>> topic.records, sum(topic.unique), topic.resends
    (20000, 19000, ((0, 688, 1687),))
    """
    resent = int(records * resent_share)
    blocks = max(1, resent // _BLOCK_RECORDS) if resent else 0
    share, rest = divmod(records - resent, PARTITIONS)
    unique = tuple(share + (partition < rest) for partition in range(PARTITIONS))
    size, odd = divmod(resent, blocks) if blocks else (0, 0)
    resends = []
    for block in range(blocks):
        partition, nth, length = block % PARTITIONS, block // PARTITIONS, size + (block < odd)
        # Spread over the partition: the block ends at equal distances, the first one half-way where there is only one.
        last = (unique[partition] - length) * (nth + 1) // (blocks // PARTITIONS + 2) + length
        resends.append((partition, last - length + 1, last))
    return Topic(name, unique, tuple(resends))


def send_topic(servers: str, topic: Topic) -> None:
    """Create a topic and fill it."""
    create_topic(servers, topic.name, PARTITIONS)
    require_all(produce(servers, topic.name, _by_turns(topic)), topic.records)


def send_more(servers: str, topic: str, first: int, records: int) -> None:
    """Send further records to the topic, from a sequence on, equally many to each partition."""
    share = records // PARTITIONS
    more = (_record(partition, number) for number in range(first, first + share) for partition in range(PARTITIONS))
    require_all(produce(servers, topic, more), records)


def require_all(sent: int, planned: int) -> None:
    """Raise unless as many records were sent as were planned.

    Raises:
        ValueError: They were not: the plan and the generator contradict each other.
    """
    if sent != planned:
        raise ValueError(f"{sent} records were sent, {planned} were planned")


def _by_turns(topic: Topic) -> Iterator[Outgoing]:
    streams = [_partition(topic, partition) for partition in range(PARTITIONS)]
    while streams:
        for stream in list(streams):
            turn = list(islice(stream, _TURN_RECORDS))
            yield from turn
            if len(turn) < _TURN_RECORDS:
                streams.remove(stream)


def _partition(topic: Topic, partition: int) -> Iterator[Outgoing]:
    again = {last: first for where, first, last in topic.resends if where == partition}
    for sequence in range(1, topic.unique[partition] + 1):
        resent = range(again.get(sequence, sequence + 1), sequence + 1)
        for number in chain((sequence,), resent):
            yield _record(partition, number)


def _record(partition: int, sequence: int) -> Outgoing:
    start = (sequence * PARTITIONS + partition) * _STRIDE % (len(_NOISE) - _VALUE_BYTES)
    key = b"key-%d-%03d" % (partition, sequence % _KEYS_PER_PARTITION)
    return Outgoing(partition, key, _NOISE[start : start + _VALUE_BYTES], [(HEADER, b"%d" % sequence)])
