"""The decision for streams that show a jump, one record after another.

A jump raises nothing, so what counts as one depends on every record before it: no running maximum decides that. Only the
streams that show such a step come here, as narrow columns in offset order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakehouse.contracts.silver import ACCEPTED, BELOW_WATERMARK, FENCED, INVALID, JUMP, REPLAY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Stream = tuple[str, int, str | None]
"""topic, partition, producer"""

Ordinal = tuple[int, int]
"""epoch, sequence"""


@dataclass(frozen=True)
class Narrow:
    """The narrow columns of one record; `epoch` and `sequence` are None where `problem` says why."""

    stream: Stream
    offset: int
    epoch: int | None
    sequence: int | None
    problem: str | None


@dataclass(frozen=True)
class Segment:
    """One row of `silver.decide.segments`."""

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


def fold(records: Iterable[Narrow], watermarks: Mapping[Stream, Ordinal], max_jump: int) -> Iterator[Segment]:
    """Decide records one after another and give the segments that they make.

    Args:
        records: Whole streams, each in offset order, one stream after another.
        watermarks: The watermark of each stream that has one.
        max_jump: The largest step above the watermark that is believed.

    Yields:
        The rejects' blocks in offset order, and after a stream's last record one accepted segment per epoch.

    >>> stream = ("t", 0, None)
    >>> numbers = [Narrow(stream, offset, 0, sequence, None) for offset, sequence in enumerate([1, 2, 900, 3])]
    >>> [(s.kind, s.first_sequence, s.last_sequence, s.records) for s in fold(numbers, {}, max_jump=10)]
    [('jump', 900, 900, 1), ('accepted', 1, 3, 3)]
    """
    folding: _Stream | None = None
    for record in records:
        if folding is None or folding.stream != record.stream:
            if folding is not None:
                yield from folding.finish()
            folding = _Stream(record.stream, watermarks.get(record.stream), max_jump)
        yield from folding.take(record)
    if folding is not None:
        yield from folding.finish()


class _Stream:
    """One stream while it is folded: its watermark so far, the open block, the accepted segments."""

    def __init__(self, stream: Stream, watermark: Ordinal | None, max_jump: int) -> None:
        self.stream = stream
        self.watermark = watermark
        self.before = watermark
        self.max_jump = max_jump
        self.last_offset: int | None = None
        self.block: Segment | None = None
        self.accepted: dict[int, Segment] = {}

    def take(self, record: Narrow) -> Iterator[Segment]:
        """Decide one record; give the block that it ends, if it ends one."""
        segment = self._segment(record, self._class(record))
        self.last_offset = record.offset
        if segment.kind == ACCEPTED and segment.epoch is not None:
            earlier = self.accepted.get(segment.epoch)
            self.accepted[segment.epoch] = _joined(earlier, segment) if earlier else segment
        if self.block and _continues(self.block, segment):
            self.block = _joined(self.block, segment)
            return
        if self.block:
            yield self.block
        self.block = None if segment.kind == ACCEPTED else segment

    def finish(self) -> Iterator[Segment]:
        """Give what is open after the stream's last record."""
        if self.block:
            yield self.block
        yield from self.accepted.values()

    def _class(self, record: Narrow) -> str:
        if record.offset == self.last_offset:
            return REPLAY
        if record.epoch is None or record.sequence is None:
            return INVALID
        if self.watermark is not None:
            epoch, sequence = self.watermark
            if record.epoch < epoch:
                return FENCED
            if record.epoch == epoch and record.sequence - sequence > self.max_jump:
                return JUMP
            if (record.epoch, record.sequence) <= self.watermark:
                return BELOW_WATERMARK
        self.watermark = (record.epoch, record.sequence)
        return ACCEPTED

    def _segment(self, record: Narrow, kind: str) -> Segment:
        reason = record.problem if kind == INVALID else None
        if kind == REPLAY or record.epoch is None or record.sequence is None:
            return Segment(self.stream, None, kind, reason, record.offset, record.offset, None, None)
        segment = Segment(
            self.stream, record.epoch, kind, reason, record.offset, record.offset, record.sequence, record.sequence
        )
        before, self.before = self.before, (record.epoch, record.sequence)
        if before is None or before[0] != record.epoch:
            return segment
        step = record.sequence - before[1]
        return replace(segment, jumps_forward=int(step > 1), jumps_backward=int(step < 0))


def _continues(block: Segment, segment: Segment) -> bool:
    """Whether a record belongs to the open block: resent ones in a row whose sequences rise, or replayed ones in a row."""
    if block.kind != segment.kind or segment.kind not in (BELOW_WATERMARK, REPLAY):
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
