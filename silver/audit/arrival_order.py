"""Describe the arrival order of a stream by its deviations from sequences that rise by one.

The vocabulary is that of the article "Testing Producer Deduplication in Apache Kafka and Apache Pulsar": a jump forward (JF) or
backward (JB) goes to a number not read before. A duplicate jump forward (DJF) or backward (DJB) goes to a number read before.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from lakehouse.contracts.silver import STREAM, Stream
from silver.columns import before_of, starts_of
from silver.decide.kernel import sort_keys
from silver.model import BATCH, by_name, tuples_of

if TYPE_CHECKING:
    import pyarrow as pa


Kind = Literal["JF", "JB", "DJF", "DJB"]
_RACE = 10


class Rise(NamedTuple):
    """Consecutive records of a stream whose sequences rise by one. Epoch and sequence are None for unreadable records."""

    stream: Stream
    first_offset: int
    epoch: int | None
    first_sequence: int | None
    records: int


@dataclass(frozen=True)
class Jump:
    """A place where a stream does not continue with the next number; `block` consecutive repeated records start here.

    `is_retry`: the record has the timestamp of its first copy; None if unknown or set by the broker. `is_gap`: it jumps forward
    over numbers that never arrived.
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
        """Return the jump as the article prints it."""
        duplicate = "DUPLICATE BLOCK - " if self.block > 1 else "DUPLICATE " if self.kind.startswith("D") else ""
        way = "FORWARDS" if self.kind.endswith("F") else "BACKWARDS"
        return f"{duplicate}JUMP {way} {abs(self.sequence - self.before)} ({self.before} -> {self.sequence})"


@dataclass
class Order:
    """The arrival order of one stream: its readable records, its repeated records, and its jumps in offset order.

    `collisions` are counted in Silver; `missing` are numbers between the lowest and highest of an epoch that were never read;
    `is_contiguous` means that by policy a missing number is a lost record.
    """

    stream: Stream
    received: int = 0
    duplicates: int = 0
    jumps: list[Jump] = field(default_factory=list)
    collisions: int = 0
    missing: int = 0
    is_contiguous: bool = False

    def count(self, kind: Kind) -> int:
        """Count the jumps of one kind."""
        return sum(jump.kind == kind for jump in self.jumps)


def arrival_orders(chunks: Iterable[pa.Table]) -> list[Order]:
    """Find where each stream deviates from rising by one, and count its records and duplicates.

    The chunks hold the key columns of all records, sorted by offset within each partition.
    """
    found: dict[Stream, _Arriving] = {}
    for keys in chunks:
        for rise in rises(keys):
            found.setdefault(rise.stream, _Arriving(rise.stream)).take(rise)
    return sorted((each.finish() for each in found.values()), key=lambda order: by_name(order.stream))


def rises(keys: pa.Table) -> Iterator[Rise]:
    """Split each stream's records, in offset order, where a number is not the next one. Skips replays."""
    rows = sort_keys(keys)
    is_once = starts_of(rows.stream, rows.offset)
    stream, offset, epoch, sequence = (column[is_once] for column in (rows.stream, rows.offset, rows.epoch, rows.sequence))
    before, is_read = before_of(sequence), sequence != -1
    rises_on = (epoch == before_of(epoch)) & (sequence == before + 1)
    goes_on = np.where(is_read, rises_on & (before != -1), before == -1)
    starts = np.flatnonzero(starts_of(stream) | ~goes_on)
    records = np.diff(np.append(starts, len(stream)))
    streams = list(tuples_of(rows.streams, STREAM))
    for first in range(0, len(starts), BATCH):  # convert to Python numbers in batches
        some = starts[first : first + BATCH]
        columns = (stream[some], offset[some], epoch[some], sequence[some], records[first : first + BATCH])
        for nth, place, of_epoch, number, count in zip(*(column.tolist() for column in columns), strict=True):
            is_number = number != -1
            yield Rise(streams[nth], place, of_epoch if is_number else None, number if is_number else None, count)


class _Arriving:
    def __init__(self, stream: Stream) -> None:
        self._order = Order(stream)
        self._before: tuple[int, int] | None = None
        self._seen: dict[int, _Seen] = {}
        self._is_open = False

    def take(self, rise: Rise) -> None:
        if rise.epoch is None or rise.first_sequence is None:
            return
        order, before = self._order, self._before
        first, last = rise.first_sequence, rise.first_sequence + rise.records - 1
        known = self._seen.setdefault(rise.epoch, _Seen())
        block = known.run_from(first, last)
        if before is None or before[0] != rise.epoch:
            self._is_open = False
        elif first != before[1] + 1:
            way: tuple[Kind, Kind] = ("DJF", "DJB") if block else ("JF", "JB")
            kind = way[first <= before[1]]
            order.jumps.append(Jump(kind, rise.first_offset, rise.epoch, before[1], first, block))
            self._is_open = True
        elif self._is_open:  # after an unreadable record, or in the next chunk: the block continues
            order.jumps[-1] = replace(order.jumps[-1], block=order.jumps[-1].block + block)
        self._is_open = self._is_open and block == rise.records
        order.received += rise.records
        order.duplicates += rise.records - known.add(first, last)
        self._before = (rise.epoch, last)

    def finish(self) -> Order:
        order = self._order
        order.missing = sum(known.missing for known in self._seen.values())
        for nth, jump in enumerate(order.jumps):
            if jump.kind == "JF" and not self._seen[jump.epoch].has_any(jump.before + 1, jump.sequence - 1):
                order.jumps[nth] = replace(jump, is_gap=True)
        return order


class _Seen:
    """The numbers read so far, as ranges that neither touch nor overlap."""

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.lasts: list[int] = []

    @property
    def missing(self) -> int:
        return sum(first - last - 1 for first, last in zip(self.firsts[1:], self.lasts, strict=False))

    def run_from(self, first: int, last: int) -> int:
        """Count the consecutive numbers from `first` on that were read before."""
        place = bisect_right(self.firsts, first) - 1
        return max(0, min(last, self.lasts[place]) - first + 1) if place >= 0 else 0

    def has_any(self, first: int, last: int) -> bool:
        place = bisect_right(self.firsts, last) - 1
        return place >= 0 and self.lasts[place] >= first

    def add(self, first: int, last: int) -> int:
        """Add a range; return how many of its numbers are new."""
        low = bisect_right(self.lasts, first - 2)  # the first range that it overlaps or touches
        high = bisect_right(self.firsts, last + 1)  # one past the last such range
        firsts, lasts = self.firsts[low:high], self.lasts[low:high]
        known = sum(max(0, min(last, end) - max(first, start) + 1) for start, end in zip(firsts, lasts, strict=True))
        self.firsts[low:high], self.lasts[low:high] = [min([first, *firsts])], [max([last, *lasts])]
        return last - first + 1 - known


class Diagnosis(NamedTuple):
    """A diagnosis: its name, the evidence seen, and the setting that cures it."""

    name: str
    evidence: str
    cure: str


def diagnose(order: Order) -> Iterator[Diagnosis]:
    """Diagnose one stream's arrival order in Bronze; empty if it rises, with or without gaps."""
    back, resent = [jump for jump in order.jumps if jump.kind == "JB"], [jump for jump in order.jumps if jump.block]
    farthest = max((jump.before - jump.sequence for jump in back), default=0)
    if order.collisions:
        yield Diagnosis(
            "no_sequence",
            f"{order.collisions} records have a number that another record had before",
            "Number each record once per stream; if the numbering restarts, send a greater epoch.",
        )
    if back and not order.duplicates and farthest <= _RACE:
        yield Diagnosis(
            "numbering_race",
            f"{len(back)} steps back by at most {farthest}, and no duplicates",
            "Number and send in one step: several threads take numbers in one order and send in another.",
        )
    elif back:
        yield Diagnosis(
            "reordering",
            f"{len(back)} jumps back to numbers that were not read before, by at most {farthest}",
            "enable.idempotence=true; or max.in.flight.requests.per.connection=1, if the producer cannot be idempotent.",
        )
    is_resent = resent and not back and not order.collisions
    retried = [jump for jump in resent if jump.is_retry]
    if is_resent and retried:
        yield Diagnosis(
            "client_retries",
            f"{len(retried)} blocks were sent again in order, with their first timestamps; "
            f"{order.duplicates} records came twice",
            "enable.idempotence=true: the client sent again what was not acknowledged. (Or the application did, if it sets "
            "the timestamps itself.)",
        )
    if is_resent and len(retried) < len(resent):
        yield Diagnosis(
            "resends",
            f"{len(resent) - len(retried)} blocks were sent again in order, {order.duplicates} records in all",
            "None if the application or its client restarted. To have fewer, store the position more often, or read the "
            "last number back from Kafka, as `last_accepted` of the producer kit does: the tables lag behind Kafka. If its "
            "numbering restarted, these are other records: send a greater epoch.",
        )
    if order.missing and order.is_contiguous:
        yield Diagnosis(
            "lost",
            f"{order.missing} numbers are missing in a contiguous stream",
            "silver_missing lists them. acks=all with min.insync.replicas=2, and unclean.leader.election.enable=false, lose "
            "no acknowledged record.",
        )
