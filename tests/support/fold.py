"""The sequential decision: docs/rule.md as a fold over each stream, in offset order. It is the reference of the kernel."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import NamedTuple

from lakehouse.contracts.silver import (
    ACCEPTED,
    DUPLICATE,
    FENCED,
    INVALID,
    JUMP,
    REPLAY,
    SUSPECT,
    Ordinal,
    Stream,
)
from silver.model import Range, Segment
from silver.rules import Rules


class Island(NamedTuple):
    """Records of a stream at consecutive offsets whose sequences rise one by one; or a single record.

    With a `problem` the records are invalid; if `epoch` and `first_sequence` could not be read, it is a single record.
    `settled` is the class of a single record that an earlier incarnation settles.
    """

    stream: Stream
    first_offset: int
    last_offset: int
    epoch: int | None
    first_sequence: int | None
    problem: str | None
    settled: str | None = None

    @property
    def records(self) -> int:
        """The number of records."""
        return self.last_offset - self.first_offset + 1

    @property
    def distance(self) -> int:
        """Sequence minus offset, the same for all records. Raises ValueError if the sequence could not be read."""
        if self.first_sequence is None:
            raise ValueError(f"no sequence could be read at offset {self.first_offset}: {self.problem}")
        return self.first_sequence - self.first_offset

    @property
    def last_sequence(self) -> int:
        """The last record's sequence. Raises ValueError if it could not be read."""
        return self.last_offset + self.distance


def fold(islands: Iterable[Island], watermarks: Mapping[Stream, Ordinal], rules: Rules) -> Iterator[Segment]:
    """Decide islands one after another, and yield their segments.

    Args:
        islands: Whole streams, each in offset order, one stream after another.
        watermarks: The watermark of each stream that has one.
        rules: The rules: each topic's `max_jump`.

    Yields:
        The rejects' blocks in offset order, and after a stream's last island one accepted segment per epoch.

    Raises:
        ValueError: A stream comes a second time: its records would be decided as if the earlier ones did not exist.

    >>> from lakehouse.extract.sources import Source
    >>> from silver.rules import Rules
    >>> rules = Rules(Source("header", "seq"), max_jump=10)
    >>> stream = ("t", 0, None)
    >>> sent = [Island(stream, 0, 9, 0, 1, None), Island(stream, 10, 14, 0, 8, None), Island(stream, 15, 15, 0, 900, None)]
    >>> [(s.kind, s.first_sequence, s.last_sequence, s.records) for s in fold(sent, {}, rules)]
    [('suspect', 8, 10, 3), ('jump', 900, 900, 1), ('accepted', 1, 12, 12)]
    """
    for stream, of_stream in _by_stream(islands):
        folding = _Stream(watermarks.get(stream), rules.policy(stream[0]).max_jump)
        for island in of_stream:
            yield from folding.take(island)
        yield from folding.finish()


def gaps(islands: Iterable[Island], watermarks: Mapping[Stream, Ordinal], rules: Rules) -> dict[Stream, list[Range]]:
    """The sequences that the accepted records of each stream skip, as ranges, in offset order.

    Arguments as for `fold`.

    >>> from lakehouse.extract.sources import Source
    >>> from silver.rules import Rules
    >>> stream = ("t", 0, None)
    >>> sent = [Island(stream, 0, 4, 0, 3, None), Island(stream, 5, 5, 0, 9, None), Island(stream, 6, 6, 0, 2, None)]
    >>> gaps(sent, {stream: (0, 1)}, Rules(Source("header", "seq")))
    {('t', 0, None): [(0, 2, 2), (0, 8, 8)]}
    """
    found = {}
    for stream, of_stream in _by_stream(islands):
        folding = _Stream(watermarks.get(stream), rules.policy(stream[0]).max_jump)
        for island in of_stream:
            deque(folding.take(island), maxlen=0)
        found[stream] = folding.gaps
    return found


def _by_stream(islands: Iterable[Island]) -> Iterator[tuple[Stream, Iterator[Island]]]:
    """The islands of each stream. Raises ValueError if a stream comes twice, because it would be decided twice."""
    seen: set[Stream] = set()
    for stream, of_stream in groupby(islands, key=lambda island: island.stream):
        if stream in seen:
            raise ValueError(f"the islands of stream {stream!r} do not stand together")
        seen.add(stream)
        yield stream, of_stream


class _Stream:
    """The state of one stream's fold: its watermark so far, the open block, the accepted segments and the gaps in them."""

    def __init__(self, watermark: Ordinal | None, max_jump: int | None) -> None:
        self.watermark = watermark
        self.before = watermark
        self.max_jump = max_jump
        self.last_offset: int | None = None
        self.block: Segment | None = None
        self.accepted: dict[int, Segment] = {}
        self.gaps: list[Range] = []

    def take(self, island: Island) -> Iterator[Segment]:
        """Decide one island; yield the blocks that it ends."""
        for kind, start, records in list(self._parts(island)):
            segment = self._segment(island, kind, start, records)
            if kind == ACCEPTED and segment.epoch is not None and segment.last_sequence is not None:
                earlier = self.accepted.get(segment.epoch)
                self.accepted[segment.epoch] = _joined(earlier, segment) if earlier else segment
                self._note_gap(segment.epoch, island.first_sequence or 0, start)
                self.watermark = (segment.epoch, segment.last_sequence)
            if self.block and _continues(self.block, segment):
                self.block = _joined(self.block, segment)
                continue
            if self.block:
                yield self.block
            self.block = None if kind == ACCEPTED else segment
        self.last_offset = island.last_offset

    def finish(self) -> Iterator[Segment]:
        """Yield what is still open after the stream's last island."""
        if self.block:
            yield self.block
        yield from self.accepted.values()

    def _note_gap(self, epoch: int, first_sequence: int, start: int) -> None:
        if self.watermark is not None and self.watermark[0] == epoch and first_sequence + start > self.watermark[1] + 1:
            self.gaps.append((epoch, self.watermark[1] + 1, first_sequence + start - 1))

    def _parts(self, island: Island) -> Iterator[tuple[str, int, int]]:
        """Cut an island at the watermark; yield the class, first record (from 0) and number of records of each part."""
        epoch, sequence, records = island.epoch, island.first_sequence, island.records
        if island.first_offset == self.last_offset:
            yield REPLAY, 0, 1
        elif island.problem is not None or epoch is None or sequence is None:
            yield from _one_by_one(INVALID, range(records))
        elif island.settled is not None:
            yield island.settled, 0, 1
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

    def _segment(self, island: Island, kind: str, start: int, records: int) -> Segment:
        reason = island.problem if kind == INVALID else None
        first_offset = island.first_offset + start
        last_offset = first_offset + records - 1
        if kind == REPLAY or island.epoch is None or island.first_sequence is None:
            return Segment(island.stream, None, kind, reason, first_offset, last_offset, None, None, records)
        first = island.first_sequence + start
        last = first + records - 1
        segment = Segment(island.stream, island.epoch, kind, reason, first_offset, last_offset, first, last, records)
        if kind == INVALID:  # undecodable value: its sequence could be read, but does not count
            return segment
        before, self.before = self.before, (island.epoch, last)
        if before is None or before[0] != island.epoch:
            return segment
        step = first - before[1]
        return segment._replace(jumps_forward=int(step > 1), jumps_backward=int(step < 0))


def _one_by_one(kind: str, records: range) -> Iterator[tuple[str, int, int]]:
    """Each record as a separate part, because each waits for its own decision."""
    return ((kind, record, 1) for record in records)


def _continues(block: Segment, segment: Segment) -> bool:
    """Whether a segment continues the open block: consecutive suspects or duplicates with rising sequences, or replays."""
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
        jumps_forward=block.jumps_forward + segment.jumps_forward,
        jumps_backward=block.jumps_backward + segment.jumps_backward,
    )
