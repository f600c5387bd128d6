"""The arrival order of a stream, as deviations from rising by one.

The vocabulary is that of the article "Testing Producer Deduplication in Apache Kafka and Apache Pulsar": a jump forward (JF) or
backward (JB) to a number that was not read before, and a duplicate jump forward (DJF) or backward (DJB) to one that was.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lakehouse.contracts.silver import Stream
    from silver.model import Island

Kind = Literal["JF", "JB", "DJF", "DJB"]

_WORDS = {
    "JF": "JUMP FORWARDS",
    "JB": "JUMP BACKWARDS",
    "DJF": "DUPLICATE JUMP FORWARDS",
    "DJB": "DUPLICATE JUMP BACKWARDS",
}

_KINDS: dict[tuple[bool, bool], Kind] = {
    (True, False): "JF",
    (False, False): "JB",
    (True, True): "DJF",
    (False, True): "DJB",
}
"""By whether the number is higher, and whether it was read before."""


class Rise(NamedTuple):
    """Records of a stream in a row whose sequences rise one by one, whatever lies between them.

    Attributes:
        stream: The stream.
        first_offset: The offset of the first.
        epoch: Their epoch; None where no sequence could be read.
        first_sequence: The sequence of the first; None where none could be read.
        records: How many they are.
    """

    stream: Stream
    first_offset: int
    epoch: int | None
    first_sequence: int | None
    records: int


@dataclass(frozen=True)
class Jump:
    """A place where a stream does not go on with the next number.

    Attributes:
        kind: JF, JB, DJF or DJB.
        offset: Kafka offset of the record that was read there.
        epoch: Its epoch.
        before: The sequence before it.
        sequence: Its sequence.
        block: Consecutive records from there on that were read before.
        is_retry: Whether the record there has the timestamp of its first copy, as it has when the client itself sends it again;
            None where that is not known: nobody looked, or the broker sets the timestamps.
        is_gap: Whether it goes forward over numbers that were never read: what a stream with gaps does.
    """

    kind: Kind
    offset: int
    epoch: int
    before: int
    sequence: int
    block: int = 0
    is_retry: bool | None = None
    is_gap: bool = False

    def __str__(self) -> str:
        """The jump as the article prints it.

        >>> str(Jump("DJB", 9000, 0, 228805, 219806, block=9000))
        'DUPLICATE BLOCK - JUMP BACKWARDS 8999 (228805 -> 219806)'
        """
        words = _WORDS[self.kind].replace("DUPLICATE ", "DUPLICATE BLOCK - ") if self.block > 1 else _WORDS[self.kind]
        return f"{words} {abs(self.sequence - self.before)} ({self.before} -> {self.sequence})"


@dataclass
class Order:
    """How one stream arrived.

    Attributes:
        stream: The stream.
        received: Records whose sequence could be read.
        duplicates: Those of them whose epoch and sequence had been read before.
        jumps: The deviations, in offset order.
        collisions: Records that Silver refused as collisions; 0 if not counted.
        missing: Numbers between the lowest and the highest of an epoch that were never read.
        is_contiguous: Whether the policies say that the stream has no gaps, so that what is missing was lost.
    """

    stream: Stream
    received: int = 0
    duplicates: int = 0
    jumps: list[Jump] = field(default_factory=list)
    collisions: int = 0
    missing: int = 0
    is_contiguous: bool = False

    def count(self, kind: Kind) -> int:
        """The deviations of one kind."""
        return sum(jump.kind == kind for jump in self.jumps)


def arrival_order(rises: Iterable[Island | Rise]) -> Order:
    """Find where one stream deviates from rising by one, and count its records and duplicates.

    Args:
        rises: All records of one stream, in offset order; those whose sequence could not be read are skipped.

    >>> from silver.model import Island
    >>> sent = [(1, 10), (30, 40), (15, 29), (11, 14), (5, 10), (2, 4), (41, 44)]
    >>> stream, offset, given = ("t", 0, None), 0, []
    >>> for first, last in sent:
    ...     given.append(Island(stream, offset, offset + last - first, 0, first, None))
    ...     offset = given[-1].last_offset + 1
    >>> [jump.kind for jump in arrival_order(given).jumps]
    ['JF', 'JB', 'JB', 'DJB', 'DJB', 'JF']
    """
    found: Order | None = None
    before: tuple[int, int] | None = None
    seen: dict[int, _Seen] = {}
    is_open = False
    for rise in rises:
        found = found or Order(rise.stream)
        if rise.epoch is None or rise.first_sequence is None:
            continue
        first, last = rise.first_sequence, rise.first_sequence + rise.records - 1
        known = seen.setdefault(rise.epoch, _Seen())
        block = known.run_from(first, last)
        if before is None or before[0] != rise.epoch:
            is_open = False
        elif first != before[1] + 1:
            kind = _KINDS[first > before[1], bool(block)]
            found.jumps.append(Jump(kind, rise.first_offset, rise.epoch, before[1], first, block))
            is_open = True
        elif is_open:  # behind a record of another stream, or one that could not be read: the block continues
            found.jumps[-1] = replace(found.jumps[-1], block=found.jumps[-1].block + block)
        is_open = is_open and block == rise.records
        found.received += rise.records
        found.duplicates += rise.records - known.add(first, last)
        before = (rise.epoch, last)
    if found is None:
        raise ValueError("a stream has at least one record")
    found.missing = sum(known.missing for known in seen.values())
    for nth, jump in enumerate(found.jumps):
        if jump.kind == "JF" and not seen[jump.epoch].has_any(jump.before + 1, jump.sequence - 1):
            found.jumps[nth] = replace(jump, is_gap=True)
    return found


class _Seen:
    """The numbers that were read, as ranges that neither touch nor overlap."""

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.lasts: list[int] = []

    @property
    def missing(self) -> int:
        """Count the numbers between the ranges."""
        return sum(first - last - 1 for first, last in zip(self.firsts[1:], self.lasts, strict=False))

    def run_from(self, first: int, last: int) -> int:
        """Count the consecutive numbers from `first` on, up to `last`, that were read before."""
        place = bisect_right(self.firsts, first) - 1
        return max(0, min(last, self.lasts[place]) - first + 1) if place >= 0 else 0

    def has_any(self, first: int, last: int) -> bool:
        """Whether a number of a range was read."""
        place = bisect_right(self.firsts, last) - 1
        return place >= 0 and self.lasts[place] >= first

    def add(self, first: int, last: int) -> int:
        """Add a range; return how many of its numbers are new."""
        low = bisect_right(self.lasts, first - 2)  # the first range that it overlaps or touches
        high = bisect_right(self.firsts, last + 1)  # one past the last of them
        firsts, lasts = self.firsts[low:high], self.lasts[low:high]
        known = sum(max(0, min(last, end) - max(first, start) + 1) for start, end in zip(firsts, lasts, strict=True))
        self.firsts[low:high], self.lasts[low:high] = [min([first, *firsts])], [max([last, *lasts])]
        return last - first + 1 - known


_RACE = 10
"""Threads that number records get out of step by at most this much; beyond it whole batches were reordered."""


class Finding(NamedTuple):
    """One thing that a stream's order shows.

    Attributes:
        name: resends, client_retries, reordering, numbering_race, lost or no_sequence.
        evidence: What was seen.
        cure: What to set or change.
    """

    name: str
    evidence: str
    cure: str


def diagnose(order: Order) -> list[Finding]:
    """Diagnose the order of one stream; no findings if it rises, with or without gaps.

    Args:
        order: The arrival order in Bronze.
    """
    back, resent = [jump for jump in order.jumps if jump.kind == "JB"], [jump for jump in order.jumps if jump.block]
    farthest = max((jump.before - jump.sequence for jump in back), default=0)
    found = []
    if order.collisions:
        found.append(
            Finding(
                "no_sequence",
                f"{order.collisions} records have a number that another record had before",
                "Number each record once per stream; where the numbering starts anew, send a greater epoch.",
            )
        )
    if back and not order.duplicates and farthest <= _RACE:
        found.append(
            Finding(
                "numbering_race",
                f"{len(back)} steps back by at most {farthest}, and no duplicates",
                "Number and send in one step: several threads take numbers in one order and send in another.",
            )
        )
    elif back:
        found.append(
            Finding(
                "reordering",
                f"{len(back)} jumps back to numbers that were not read before, by at most {farthest}",
                "enable.idempotence=true; or max.in.flight.requests.per.connection=1, where the producer cannot be idempotent.",
            )
        )
    if resent and not back and not order.collisions:
        found += _resends(resent, order.duplicates)
    if order.missing and order.is_contiguous:
        found.append(
            Finding(
                "lost",
                f"{order.missing} numbers are not there, in a stream that has no gaps",
                "acks=all with min.insync.replicas=2, and unclean.leader.election.enable=false, lose nothing that was "
                "acknowledged. The numbers that are open stand in silver_missing.",
            )
        )
    return found


def _resends(resent: list[Jump], duplicates: int) -> Iterator[Finding]:
    """Tell blocks that a client sent again by itself from those that an application did."""
    retried = [jump for jump in resent if jump.is_retry]
    if retried:
        yield Finding(
            "client_retries",
            f"{len(retried)} blocks were sent again in order, with their first timestamps; {duplicates} records came twice",
            "enable.idempotence=true: the client sent again what it had no answer for. (Or the application did, if it sets the "
            "timestamps itself.)",
        )
    if len(retried) < len(resent):
        yield Finding(
            "resends",
            f"{len(resent) - len(retried)} blocks were sent again in order, {duplicates} records in all",
            "None is needed where the application or its client started again. Fewer come where it stores its position more "
            "often, or reads its last number back from Kafka before it goes on, as `last_accepted` of the producer kit does. "
            "The tables do not know it: they lag behind Kafka. Where its numbering restarted, these are other records: send a "
            "greater epoch.",
        )
