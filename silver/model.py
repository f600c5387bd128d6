"""The decision, one stretch after another: the rule of DESIGN section 1 as a fold over a stream in offset order.

Stretches are few. Single records come here where a stream shows a jump: a jump raises nothing, so what counts as one depends
on every record before it, and no running maximum decides that.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse.contracts.silver import (
    ACCEPTED,
    FENCED,
    INVALID,
    JUMP,
    REPLAY,
    STREAM,
    SUSPECT,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import Row

    from silver.rules import Rules

Stream = tuple[str, int, str | None]
"""topic, partition, producer"""

Ordinal = tuple[int, int]
"""epoch, sequence"""

Range = tuple[int, int, int]
"""epoch, first and last sequence, inclusive"""


def stream_of(row: Mapping[str, Any] | Row) -> Stream:
    """The stream that a row's columns name."""
    return row["topic"], row["partition"], row["producer"]


def by_name(stream: Stream) -> tuple[str, int, bool, str]:
    """What streams are sorted by: each has a place of its own. A producer that is null is another one than the empty one.

    >>> sorted([("t", 0, ""), ("t", 0, None), ("t", 0, "")], key=by_name)
    [('t', 0, None), ('t', 0, ''), ('t', 0, '')]
    """
    topic, partition, producer = stream
    return topic, partition, producer is not None, producer or ""


SPAN = ("first_offset", "last_offset", "first_sequence", "last_sequence")
SEGMENT = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("producer", pa.string()),
        ("epoch", pa.int64()),
        ("class", pa.string()),
        ("reason", pa.string()),
        *((name, pa.int64()) for name in (*SPAN, "records", "jumps_forward", "jumps_backward", "max_step")),
        ("content_sha256", pa.string()),
    ]
)
REJECT = pa.schema(
    [
        *(SEGMENT.field(name) for name in (*STREAM, "epoch", "class", "reason", *SPAN, "records")),
        pa.field("load_seq", pa.int64()),
        pa.field("state", pa.string()),
        SEGMENT.field("content_sha256"),
        pa.field("settled_load_seq", pa.int64()),
    ]
)


@dataclass(frozen=True)
class Stretch:
    """Records of a stream at offsets in a row whose sequences rise one by one; or a single record.

    Where there is a `problem` the records are invalid; where it left no `epoch` and `first_sequence` it is a single one.
    """

    stream: Stream
    first_offset: int
    last_offset: int
    epoch: int | None
    first_sequence: int | None
    problem: str | None

    @property
    def records(self) -> int:
        """How many records there are."""
        return self.last_offset - self.first_offset + 1

    @property
    def distance(self) -> int:
        """A record's sequence less its offset; of what could be read."""
        if self.first_sequence is None:
            raise ValueError(f"no sequence could be read at offset {self.first_offset}: {self.problem}")
        return self.first_sequence - self.first_offset

    @property
    def last_sequence(self) -> int:
        """The last record's sequence; of what could be read."""
        return self.last_offset + self.distance

    def part(self, first_offset: int, last_offset: int) -> Stretch:
        """The records at some of its offsets; of what could be read."""
        return Stretch(self.stream, first_offset, last_offset, self.epoch, first_offset + self.distance, None)


@dataclass(frozen=True)
class Segment:
    """One row of `silver.decide.running_max.segments`."""

    stream: Stream
    epoch: int | None
    kind: str
    reason: str | None
    first_offset: int
    last_offset: int
    first_sequence: int | None
    last_sequence: int | None
    records: int = 1
    jumps_forward: int = 0
    jumps_backward: int = 0


def fold(stretches: Iterable[Stretch], watermarks: Mapping[Stream, Ordinal], rules: Rules) -> Iterator[Segment]:
    """Decide stretches one after another and give the segments that they make.

    Args:
        stretches: Whole streams, each in offset order, one stream after another.
        watermarks: The watermark of each stream that has one.
        rules: The rules: each topic's `max_jump`.

    Yields:
        The rejects' blocks in offset order, and after a stream's last stretch one accepted segment per epoch.

    Raises:
        ValueError: A stream comes a second time: its records would be decided as if those before them had not been there.

    >>> from silver.rules import Rules, Source
    >>> rules = Rules(Source("header", "seq"), max_jump=10)
    >>> stream = ("t", 0, None)
    >>> sent = [Stretch(stream, 0, 9, 0, 1, None), Stretch(stream, 10, 14, 0, 8, None), Stretch(stream, 15, 15, 0, 900, None)]
    >>> [(s.kind, s.first_sequence, s.last_sequence, s.records) for s in fold(sent, {}, rules)]
    [('suspect', 8, 10, 3), ('jump', 900, 900, 1), ('accepted', 1, 12, 12)]
    """
    for stream, of_stream in _by_stream(stretches):
        folding = _Stream(watermarks.get(stream), rules.policy(stream[0]).max_jump)
        for stretch in of_stream:
            yield from folding.take(stretch)
        yield from folding.finish()


def gaps(stretches: Iterable[Stretch], watermarks: Mapping[Stream, Ordinal], rules: Rules) -> dict[Stream, list[Range]]:
    """The sequences that the accepted records of each stream step over, as ranges, in the order of their offsets.

    Takes what `fold` takes.

    >>> from silver.rules import Rules, Source
    >>> stream = ("t", 0, None)
    >>> sent = [Stretch(stream, 0, 4, 0, 3, None), Stretch(stream, 5, 5, 0, 9, None), Stretch(stream, 6, 6, 0, 2, None)]
    >>> gaps(sent, {stream: (0, 1)}, Rules(Source("header", "seq")))
    {('t', 0, None): [(0, 2, 2), (0, 8, 8)]}
    """
    found = {}
    for stream, of_stream in _by_stream(stretches):
        folding = _Stream(watermarks.get(stream), rules.policy(stream[0]).max_jump)
        for stretch in of_stream:
            deque(folding.take(stretch), maxlen=0)
        found[stream] = folding.gaps
    return found


def _by_stream(stretches: Iterable[Stretch]) -> Iterator[tuple[Stream, Iterator[Stretch]]]:
    """The stretches of each stream. One that comes twice was sorted wrongly: it would be decided twice."""
    seen: set[Stream] = set()
    for stream, of_stream in groupby(stretches, key=lambda stretch: stretch.stream):
        if stream in seen:
            raise ValueError(f"the stretches of stream {stream!r} do not stand together")
        seen.add(stream)
        yield stream, of_stream


class _Stream:
    """One stream while it is folded: its watermark so far, the open block, the accepted segments, what these step over."""

    def __init__(self, watermark: Ordinal | None, max_jump: int | None) -> None:
        self.watermark = watermark
        self.before = watermark
        self.max_jump = max_jump
        self.last_offset: int | None = None
        self.block: Segment | None = None
        self.accepted: dict[int, Segment] = {}
        self.gaps: list[Range] = []

    def take(self, stretch: Stretch) -> Iterator[Segment]:
        """Decide one stretch; give the blocks that it ends."""
        for kind, start, records in list(self._parts(stretch)):
            segment = self._segment(stretch, kind, start, records)
            if kind == ACCEPTED and segment.epoch is not None and segment.last_sequence is not None:
                earlier = self.accepted.get(segment.epoch)
                self.accepted[segment.epoch] = _joined(earlier, segment) if earlier else segment
                self._note_gap(segment.epoch, stretch.first_sequence or 0, start)
                self.watermark = (segment.epoch, segment.last_sequence)
            if self.block and _continues(self.block, segment):
                self.block = _joined(self.block, segment)
                continue
            if self.block:
                yield self.block
            self.block = None if kind == ACCEPTED else segment
        self.last_offset = stretch.last_offset

    def finish(self) -> Iterator[Segment]:
        """Give what is open after the stream's last stretch."""
        if self.block:
            yield self.block
        yield from self.accepted.values()

    def _note_gap(self, epoch: int, first_sequence: int, start: int) -> None:
        if self.watermark is not None and self.watermark[0] == epoch and first_sequence + start > self.watermark[1] + 1:
            self.gaps.append((epoch, self.watermark[1] + 1, first_sequence + start - 1))

    def _parts(self, stretch: Stretch) -> Iterator[tuple[str, int, int]]:
        """Class, first record and records of each part that the watermark cuts a stretch into."""
        epoch, sequence, records = stretch.epoch, stretch.first_sequence, stretch.records
        if stretch.first_offset == self.last_offset:
            yield REPLAY, 0, 1
        elif stretch.problem is not None or epoch is None or sequence is None:
            yield from _one_by_one(INVALID, range(records))
        elif self.watermark is None or epoch > self.watermark[0]:
            yield ACCEPTED, 0, records
        elif epoch < self.watermark[0]:
            yield from _one_by_one(FENCED, range(records))
        else:
            highest = self.watermark[1]
            below = min(records, max(0, highest - sequence + 1))
            if below:
                yield SUSPECT, 0, below
            if self.max_jump is not None and sequence + below - highest > self.max_jump:
                yield from _one_by_one(JUMP, range(below, records))
            elif below < records:
                yield ACCEPTED, below, records - below

    def _segment(self, stretch: Stretch, kind: str, start: int, records: int) -> Segment:
        reason = stretch.problem if kind == INVALID else None
        first_offset = stretch.first_offset + start
        last_offset = first_offset + records - 1
        if kind == REPLAY or stretch.epoch is None or stretch.first_sequence is None:
            return Segment(stretch.stream, None, kind, reason, first_offset, last_offset, None, None, records)
        first = stretch.first_sequence + start
        last = first + records - 1
        segment = Segment(stretch.stream, stretch.epoch, kind, reason, first_offset, last_offset, first, last, records)
        if kind == INVALID:  # its value: where it stands could be read, and counts for nothing
            return segment
        before, self.before = self.before, (stretch.epoch, last)
        if before is None or before[0] != stretch.epoch:
            return segment
        step = first - before[1]
        return replace(segment, jumps_forward=int(step > 1), jumps_backward=int(step < 0))


def _one_by_one(kind: str, records: range) -> Iterator[tuple[str, int, int]]:
    """Each record as a part of its own: each waits for a decision of its own."""
    return ((kind, record, 1) for record in records)


def _continues(block: Segment, segment: Segment) -> bool:
    """Whether a record belongs to the open block: resent ones in a row whose sequences rise, or replayed ones in a row."""
    if block.kind != segment.kind or segment.kind not in (SUSPECT, REPLAY):
        return False
    if block.last_sequence is None or segment.first_sequence is None:
        return segment.kind == REPLAY
    return block.epoch == segment.epoch and block.last_sequence < segment.first_sequence


def _joined(block: Segment, segment: Segment) -> Segment:
    return replace(
        block,
        last_offset=segment.last_offset,
        last_sequence=segment.last_sequence,
        records=block.records + segment.records,
        jumps_forward=block.jumps_forward + segment.jumps_forward,
        jumps_backward=block.jumps_backward + segment.jumps_backward,
    )
