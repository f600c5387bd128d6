"""The sequential decision: docs/rule.md as a fold over each stream, record by record. It is the reference of the kernel."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lakehouse.contracts.silver import ACCEPTED, DUPLICATE, FENCED, INVALID, JUMP, REPLAY, SUSPECT, Ordinal, Stream
from silver.model import Range
from silver.rules import Rules


class Segment(NamedTuple):
    stream: Stream
    epoch: int | None
    kind: str
    reason: str | None
    first_offset: int
    last_offset: int
    first_sequence: int | None
    last_sequence: int | None
    records: int = 1


class Arrival(NamedTuple):
    stream: Stream
    offset: int
    epoch: int | None
    sequence: int | None
    problem: str | None  # why the record is invalid; None for a valid one
    settled: str | None = None  # its class if an earlier incarnation settles it


def fold(
    chunks: Iterable[Iterable[Arrival]], watermarks: Mapping[Stream, Ordinal], rules: Rules
) -> tuple[list[Segment], dict[Stream, list[Range]], dict[Stream, tuple[int, int]]]:
    """Decide whole streams. Return segments, whose blocks end with their chunk, the skipped ranges, and the jumps both ways."""
    older = SUSPECT if rules.compares_epochs else FENCED
    streams: dict[Stream, _Stream] = {}
    for chunk in chunks:
        for each in streams.values():
            each.is_open = False
        for record in chunk:
            if (stream := record.stream) not in streams:
                streams[stream] = _Stream(watermarks.get(stream), rules.policy(stream[0]).max_jump, older)
            streams[stream].take(record)
    segments = [segment for each in streams.values() for segment in (*each.blocks, *each.accepted.values())]
    gaps = {stream: each.gaps for stream, each in streams.items() if each.gaps}
    return segments, gaps, {stream: (each.forward, each.backward) for stream, each in streams.items()}


class _Stream:
    def __init__(self, watermark: Ordinal | None, max_jump: int | None, older: str) -> None:
        self.watermark = self.before = watermark
        self.older = older  # the class of a record of an older epoch
        self.max_jump = max_jump
        self.last_offset: int | None = None
        self.blocks: list[Segment] = []
        self.is_open = False  # whether the last block may go on
        self.accepted: dict[int, Segment] = {}
        self.gaps: list[Range] = []
        self.forward = self.backward = 0

    def take(self, record: Arrival) -> None:
        stream, offset, epoch, sequence, problem, settled = record
        if offset == self.last_offset:
            self._reject(Segment(stream, None, REPLAY, None, offset, offset, None, None, 1))
        elif problem is not None or epoch is None or sequence is None:
            self._reject(Segment(stream, epoch, INVALID, problem, offset, offset, sequence, sequence, 1))
        else:
            step = sequence - self.before[1] if self.before is not None and self.before[0] == epoch else 1
            self.before = (epoch, sequence)
            self.forward += step > 1
            self.backward += step < 0
            kind = settled or self._class_of(epoch, sequence)
            segment = Segment(stream, epoch, kind, None, offset, offset, sequence, sequence)
            if kind == ACCEPTED:
                self._accept(segment, epoch, sequence)
            else:
                self._reject(segment)
        self.last_offset = offset

    def _class_of(self, epoch: int, sequence: int) -> str:
        if self.watermark is None or epoch > self.watermark[0]:
            return ACCEPTED
        if epoch < self.watermark[0]:
            return self.older
        if sequence <= self.watermark[1]:
            return SUSPECT
        return JUMP if self.max_jump is not None and sequence - self.watermark[1] > self.max_jump else ACCEPTED

    def _accept(self, segment: Segment, epoch: int, sequence: int) -> None:
        self.accepted[epoch] = _joined(self.accepted[epoch], segment) if epoch in self.accepted else segment
        if self.watermark is not None and self.watermark[0] == epoch and sequence > self.watermark[1] + 1:
            self.gaps.append((epoch, self.watermark[1] + 1, sequence - 1))
        self.watermark, self.is_open = (epoch, sequence), False

    def _reject(self, segment: Segment) -> None:
        if self.is_open and _continues(self.blocks[-1], segment):
            self.blocks[-1] = _joined(self.blocks[-1], segment)
        else:
            self.blocks.append(segment)
        self.is_open = True


def _continues(block: Segment, segment: Segment) -> bool:
    if block.kind != segment.kind or segment.kind not in (SUSPECT, DUPLICATE, REPLAY):
        return False
    if block.last_sequence is None or segment.first_sequence is None:
        return segment.kind == REPLAY
    return block.epoch == segment.epoch and block.last_sequence < segment.first_sequence


def _joined(block: Segment, segment: Segment) -> Segment:
    return block._replace(
        last_offset=segment.last_offset,
        last_sequence=segment.last_sequence,
        records=block.records + segment.records,
    )
