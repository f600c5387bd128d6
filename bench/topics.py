"""Plans and sends topics of numbered records, some in blocks that are sent again. The plan gives the right result."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from math import ceil

from bench.keys import keys_of
from tests.support.kafka import send_outgoing
from tidemark.extras.demo.broker import create_topic
from tidemark.extras.demo.producer import Outgoing

HEADER = "seq"
PARTITIONS = 8

_VALUE_BYTES = 200
_BLOCK_RECORDS = 10_000
_KEYS_PER_PARTITION = 125
_TURN_RECORDS = 500
# Values are cut from 16 MiB of noise, so no compressor's window meets the same bytes twice; a record gets the same ones again.
_NOISE = random.Random(1).randbytes(2**24)
_STRIDE = 2_654_435_761


@dataclass(frozen=True)
class Topic:
    """A topic and what is sent to it.

    Attributes:
        name: Its name.
        unique: Records of each partition that are sent for the first time: sequences 1, 2, 3 and on.
        resends: Blocks that are sent again: partition, first and last sequence.
        swaps: Blocks that change places with as many records after them: partition, first and last sequence. The records
            of a block are late then: each comes below one that its partition had before.
    """

    name: str
    unique: tuple[int, ...]
    resends: tuple[tuple[int, int, int], ...] = ()
    swaps: tuple[tuple[int, int, int], ...] = ()

    @property
    def records(self) -> int:
        """All records, the resent ones included."""
        return sum(self.unique) + sum(last - first + 1 for _, first, last in self.resends)

    @property
    def late(self) -> int:
        """The records that come for the first time, and below one that their partition had before."""
        return sum(last - first + 1 for _, first, last in self.swaps)


def plan_topic(name: str, records: int, *, resent_share: float = 0.0) -> Topic:
    """Plan a topic that sends a share of its records again, in blocks of 10,000, or of half a partition if that is less.

    >>> topic = plan_topic("t", 20_000, resent_share=0.05)
    >>> topic.records, sum(topic.unique), topic.resends
    (20000, 19000, ((0, 688, 1687),))
    """
    resent = int(records * resent_share)
    share, rest = divmod(records - resent, PARTITIONS)
    longest = min(_BLOCK_RECORDS, max(1, share // 2))
    blocks = max(resent // _BLOCK_RECORDS, ceil(resent / longest))
    unique = tuple(share + (partition < rest) for partition in range(PARTITIONS))
    size, odd = divmod(resent, blocks) if blocks else (0, 0)
    resends = []
    for block in range(blocks):
        partition, nth, length = block % PARTITIONS, block // PARTITIONS, size + (block < odd)
        # Spread over the partition: the block ends at equal distances, the first one half-way where there is only one.
        last = (unique[partition] - length) * (nth + 1) // (blocks // PARTITIONS + 2) + length
        resends.append((partition, last - length + 1, last))
    return Topic(name, unique, tuple(resends))


def swap_blocks(topic: Topic) -> Topic:
    """Plan the same topic, where a block of each partition changes places with as many records after it.

    The block is a tenth of its partition, 10,000 records at most, from the middle on. A copy in it still comes after its end.

    >>> swapped = swap_blocks(plan_topic("t", 80_000))
    >>> swapped.swaps[:2], swapped.late, swapped.records
    (((0, 5001, 6000), (1, 5001, 6000)), 8000, 80000)
    """
    swaps = []
    for partition, unique in enumerate(topic.unique):
        length = min(_BLOCK_RECORDS, unique // 10)
        swaps += [(partition, unique // 2 + 1, unique // 2 + length)] if length else []
    return replace(topic, swaps=tuple(swaps))


def send_topic(servers: str, topic: Topic) -> None:
    """Create a topic and fill it."""
    create_topic(servers, topic.name, PARTITIONS)
    require_all(send_outgoing(servers, topic.name, _by_turns(topic)), topic.records)


def send_first(servers: str, topic: Topic, records: int) -> Callable[[], None]:
    """Create a topic and send its first records only; what sends the rest."""
    create_topic(servers, topic.name, PARTITIONS)
    outgoing = _by_turns(topic)
    require_all(send_outgoing(servers, topic.name, islice(outgoing, records)), records)
    return lambda: require_all(send_outgoing(servers, topic.name, outgoing), topic.records - records)


def send_more(servers: str, topic: str, first: int, records: int) -> None:
    """Send further records to the topic, from a sequence on, equally many to each partition."""
    numbers = range(first, first + records // PARTITIONS)
    more = (record_of(partition, number) for number in numbers for partition in range(PARTITIONS))
    require_all(send_outgoing(servers, topic, more), records)


def require_all(sent: int, planned: int) -> None:
    """Raise unless as many records were sent as were planned.

    Raises:
        ValueError: They were not: the plan and the generator contradict each other.
    """
    if sent != planned:
        raise ValueError(f"{sent} records were sent, {planned} were planned")


def _by_turns(topic: Topic) -> Iterator[Outgoing]:
    streams = [partition_records(topic, partition) for partition in range(PARTITIONS)]
    while streams:
        for stream in list(streams):
            turn = list(islice(stream, _TURN_RECORDS))
            yield from turn
            if len(turn) < _TURN_RECORDS:
                streams.remove(stream)


def partition_records(topic: Topic, partition: int) -> Iterator[Outgoing]:
    """The records of a partition, in the order in which they are sent."""
    again = {last: first for where, first, last in topic.resends if where == partition}
    for sequence in order(topic, partition):
        resent = range(again.get(sequence, sequence + 1), sequence + 1)
        for number in chain((sequence,), resent):
            yield record_of(partition, number)


def order(topic: Topic, partition: int) -> Iterator[int]:
    """The sequences of a partition in the order in which they are sent for the first time.

    >>> list(order(Topic("t", (9,), swaps=((0, 4, 5),)), 0))
    [1, 2, 3, 6, 7, 4, 5, 8, 9]
    """
    start = 1
    for _, first, last in sorted(swap for swap in topic.swaps if swap[0] == partition):
        after = last + (last - first + 1)
        yield from chain(range(start, first), range(last + 1, after + 1), range(first, last + 1))
        start = after + 1
    yield from range(start, topic.unique[partition] + 1)


def record_of(partition: int, sequence: int) -> Outgoing:
    """Return the record of a sequence in a partition: always the same one."""
    start = (sequence * PARTITIONS + partition) * _STRIDE % (len(_NOISE) - _VALUE_BYTES)
    key = keys_of(partition, PARTITIONS, _KEYS_PER_PARTITION)[sequence % _KEYS_PER_PARTITION]
    return Outgoing(partition, key, _NOISE[start : start + _VALUE_BYTES], [(HEADER, b"%d" % sequence)])
