"""Decide the class of each record from its key columns, and return segments. Pure, on Arrow and numpy.

Rule: docs/rule.md. The records that are not accepted in order are suspects, see `silver.suspects`. A record that an earlier
incarnation of the topic settles already has its class. It affects no other record.

The columns are sorted once by stream and offset. One running maximum then decides the records of all streams: it runs over
ranks, and each stream's ranks start above those of the previous stream. A jump does not raise the watermark, so a running
maximum cannot decide it. A stream with a step above its topic's `max_jump` is therefore decided record by record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.contracts.silver import ACCEPTED, COLLISION, DUPLICATE, FENCED, INVALID, JUMP, REPLAY, STREAM, SUSPECT
from silver.columns import NONE, Flags, Numbers, before_of, codes, filled, lasts_of, row_codes, starts_of
from silver.model import SEGMENT, SETTLED, tuples_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lakehouse.contracts.silver import Ordinal, Partition, Stream
    from silver.rules import Rules
    from silver.state.watermarks import Watermarks

_KINDS = (ACCEPTED, SUSPECT, FENCED, INVALID, JUMP, REPLAY, DUPLICATE, COLLISION)
_ACCEPTED, _SUSPECT, _FENCED, _INVALID, _JUMP, _REPLAY, _DUPLICATE, _ = range(len(_KINDS))
_ANY_STEP = 2**64 - 1
_SMALL = 2**16
"""numpy sorts numbers of 16 bits in linear time."""


class Position(NamedTuple):
    """The state of a stream before its next record: its watermark, and its previous records; -1 for a missing value.

    `before_epoch` and `before_sequence` are of the previous record that is neither a replay nor invalid, else of the watermark.
    `last_offset` is of the previous record of any class.
    """

    epoch: int = NONE
    sequence: int = NONE
    before_epoch: int = NONE
    before_sequence: int = NONE
    last_offset: int = NONE


@dataclass(frozen=True)
class Decided:
    """The decision of one chunk of records. A key is stream, epoch and sequence; a place is topic, partition and offset.

    Attributes:
        segments: Rows of `silver.model.SEGMENT`: one for the accepted records of each stream and epoch; one for each block of
            the others, in the order of streams and offsets. A block is one record, or an unbroken run of replays.
            Suspects or duplicates of one epoch form a block while their sequences rise.
        jumps: The streams with jumps, and the numbers `jumps_forward` and `jumps_backward`.
        gaps: Stream, epoch, first and last sequence that accepted records of contiguous topics skip, in offset order.
        suspects: Key and offset of each, the first offset of its block, and `is_older`: its epoch is below its stream's.
        originals: Key and offset of the accepted records of the chunk that share a key with one of its suspects.
        out: Places of the records that are neither accepted nor replays.
        replays: Places of the replays.
    """

    segments: pa.Table
    jumps: pa.Table
    gaps: pa.Table
    suspects: pa.Table
    originals: pa.Table
    out: pa.Table
    replays: pa.Table


class Decision:
    """The decision of a load, chunk by chunk. Each partition's offsets come in order, in one chunk or in consecutive chunks.

    `continued` has the partitions of the last chunk that had records in the previous chunk, with their last offset there.
    """

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.continued: dict[Partition, int] = {}
        self._positions: dict[Stream, Position] = {}

    def decide(self, keys: pa.Table, watermarks: Watermarks) -> Decided:
        """Decide the records of a chunk. Uses only the watermarks of their streams.

        `keys` has a row per record, in any order: topic, partition, producer, offset, epoch, sequence and problem, and
        `settled` if known. Texts may be dictionaries; epoch and sequence are 0 or more, or null. Declared epochs replace those
        read from the records.

        >>> from lakehouse.extract.sources import Source
        >>> from silver.rules import Rules
        >>> from silver.state.watermarks import Watermarks
        >>> names = {"topic": ["t"] * 5, "partition": [0] * 5, "producer": ["p"] * 5, "problem": pa.nulls(5, pa.string())}
        >>> keys = pa.table({**names, "offset": [0, 1, 2, 3, 3], "epoch": [0] * 5, "sequence": [8, 9, 7, 20, 20]})
        >>> found = Decision(Rules(Source("header", "seq"))).decide(keys, Watermarks({})).segments
        >>> [tuple(row[name] for name in ("class", "first_sequence", "last_sequence", "records")) for row in found.to_pylist()]
        [('accepted', 8, 20, 3), ('suspect', 7, 7, 1), ('replay', None, None, 1)]
        """
        rows = sort_keys(keys)
        streams = list(tuples_of(rows.streams, STREAM))
        known, declared = _known(streams, watermarks.ordinals, self._positions), watermarks.declared
        if declared:
            epochs = np.array([declared.get(stream, NONE) for stream in streams], np.int64)[rows.stream]
            rows.epoch[:] = np.where((rows.epoch != NONE) & (epochs != NONE), epochs, rows.epoch)
        policies = {topic: self.rules.policy(topic) for topic in {topic for topic, _, _ in streams}}
        limits = [policies[topic].max_jump for topic, _, _ in streams]
        is_contiguous = np.array([policies[topic].contiguous for topic, _, _ in streams], bool)
        max_step = np.array([_ANY_STEP if limit is None else limit for limit in limits], np.uint64)

        is_first = starts_of(rows.stream)
        is_replay = np.where(is_first, known["last_offset"][rows.stream], before_of(rows.offset)) == rows.offset
        kind = np.where(is_replay, _REPLAY, _INVALID).astype(np.int8)
        counted = np.flatnonzero(~is_replay & (rows.problem == NONE) & (rows.epoch != NONE) & (rows.sequence != NONE))
        stream, epoch, sequence = (column[counted] for column in (rows.stream, rows.epoch, rows.sequence))
        kind[counted] = rows.settled[counted]
        is_free = rows.settled[counted] == NONE
        free, of_free = counted[is_free], stream[is_free]
        kind[free], highest_epoch, highest = _classes(of_free, epoch[is_free], sequence[is_free], known, max_step)
        is_older = kind == _FENCED
        if self.rules.compares_epochs:
            kind[is_older] = _SUSPECT

        begins = starts_of(stream)
        last_epoch = np.where(begins, known["before_epoch"][stream], before_of(epoch))
        last_sequence = np.where(begins, known["before_sequence"][stream], before_of(sequence))
        is_same = epoch == last_epoch
        is_forward = is_same & (sequence > last_sequence) & (_step(sequence, last_sequence) > 1)
        is_backward = is_same & (sequence < last_sequence)
        forward, backward = (np.bincount(stream[found], minlength=len(streams)) for found in (is_forward, is_backward))
        jumping = np.flatnonzero(forward + backward)
        jumps = {"jumps_forward": forward[jumping], "jumps_backward": backward[jumping]}

        found = _Classified(rows, kind)
        is_start = is_first | ~found.goes_on()
        accepted, others = np.flatnonzero(kind == _ACCEPTED), np.flatnonzero(kind != _ACCEPTED)
        by_epoch = starts_of(rows.stream[accepted], rows.epoch[accepted])
        self._advance(found.after(streams, counted, known))
        return Decided(
            pa.concat_tables([found.segments(accepted, by_epoch), found.segments(others, is_start[others])]),
            _with(rows.streams.take(pa.array(jumping)), jumps),
            found.gaps(free[is_contiguous[of_free]], highest_epoch[is_contiguous[of_free]], highest[is_contiguous[of_free]]),
            *found.suspects(is_start, is_older),
            found.places((kind != _ACCEPTED) & (kind != _REPLAY)),
            found.places(kind == _REPLAY),
        )

    def _advance(self, after: Mapping[Stream, Position]) -> None:
        here = {stream[:2] for stream in after}  # only these partitions may continue in the next chunk
        continuing = {stream: each for stream, each in self._positions.items() if stream[:2] in here}
        ordered = sorted((each.last_offset, stream[:2]) for stream, each in continuing.items())
        self.continued = {place: last for last, place in ordered}
        self._positions = {**continuing, **after}


class Rows(NamedTuple):
    """Records as columns, sorted by stream and offset; -1 for null.

    `stream` and `problem` are row numbers in `streams`, which is sorted, and `problems`. `settled` is the class that an earlier
    incarnation gives the record, as an index of this module.
    """

    streams: pa.Table
    stream: Numbers
    offset: Numbers
    epoch: Numbers
    sequence: Numbers
    problem: Numbers
    settled: NDArray[np.int8]
    problems: pa.Array


def _classes(
    stream: Numbers, epoch: Numbers, sequence: Numbers, known: Mapping[str, Numbers], max_step: NDArray[np.uint64]
) -> tuple[NDArray[np.int8], Numbers, Numbers]:
    """Return the class of each counted record, and the highest accepted (epoch, sequence) before it, -1 if none."""
    base_epoch, is_first = known["epoch"][stream], starts_of(stream)
    highest_epoch = np.maximum(_running_max(is_first, epoch), base_epoch)
    before_epoch = np.where(is_first, base_epoch, before_of(highest_epoch))
    starts = is_first | starts_of(highest_epoch)
    base = np.where(highest_epoch == base_epoch, known["sequence"][stream], NONE)
    in_epoch = np.where(epoch == highest_epoch, sequence, NONE)
    before = np.where(starts, base, before_of(np.maximum(_running_max(starts, in_epoch), base)))
    is_same = epoch == before_epoch
    in_order = (epoch > before_epoch) | (is_same & (sequence > before))
    kind = np.where(in_order, _ACCEPTED, np.where(is_same, _SUSPECT, _FENCED)).astype(np.int8)
    has_jumped = in_order & is_same & (_step(sequence, before) > max_step[stream])
    for jumping in np.unique(stream[has_jumped]).tolist():
        first, end = np.searchsorted(stream, [jumping, jumping + 1])
        ordinals = zip(epoch[first:end].tolist(), sequence[first:end].tolist(), strict=True)
        place, mark = slice(first, end), (int(known["epoch"][jumping]), int(known["sequence"][jumping]))
        classes = list(_one_by_one(ordinals, mark, int(max_step[jumping])))
        kind[place], before_epoch[place], before[place] = zip(*classes, strict=True)
    return kind, before_epoch, before


def _one_by_one(ordinals: Iterable[Ordinal], mark: Ordinal, max_jump: int) -> Iterator[tuple[int, int, int]]:
    """Decide a stream record by record. Yield the class of each record and the watermark before it."""
    for epoch, sequence in ordinals:
        highest_epoch, highest = mark
        if epoch < highest_epoch:
            kind = _FENCED
        elif epoch == highest_epoch and sequence <= highest:
            kind = _SUSPECT
        elif epoch == highest_epoch and sequence - highest > max_jump:
            kind = _JUMP
        else:
            kind, mark = _ACCEPTED, (epoch, sequence)
        yield kind, highest_epoch, highest


def _running_max(is_first: Flags, value: Numbers) -> Numbers:
    """The highest value of each group up to each row; `is_first` marks the first row of a group.

    >>> _running_max(np.array([True, False, False, True, False]), np.array([2**62, 1, 2**63 - 1, 7, 3])).tolist()
    [4611686018427387904, 4611686018427387904, 9223372036854775807, 7, 7]
    """
    if (is_first | (value >= before_of(value))).all():
        return value
    order = np.argsort(value, kind="stable")
    ordered = value[order]
    is_new = starts_of(ordered)
    rank = np.empty(len(value), np.int64)
    rank[order] = np.cumsum(is_new) - 1
    values = ordered[is_new]
    nth = (np.cumsum(is_first) - 1) * len(values)
    highest: Numbers = values[np.maximum.accumulate(nth + rank) - nth]
    return highest


class _Classified(NamedTuple):
    """Records with their classes."""

    rows: Rows
    kind: NDArray[np.int8]

    def goes_on(self) -> Flags:
        """Whether each record continues the block of the previous record, if that is of the same stream."""
        rows, kind = self.rows, self.kind
        last_kind, epoch, sequence = before_of(kind), before_of(rows.epoch), before_of(rows.sequence)
        rises = ((kind == _SUSPECT) | (kind == _DUPLICATE)) & (rows.epoch == epoch) & (rows.sequence > sequence)
        found: Flags = (kind == last_kind) & (rises | (kind == _REPLAY))
        return found

    def gaps(self, counted: Numbers, highest_epoch: Numbers, highest: Numbers) -> pa.Table:
        """Return the sequences that accepted records skip. `highest` is the highest accepted sequence before each record."""
        epoch, sequence = self.rows.epoch[counted], self.rows.sequence[counted]
        is_gap = (self.kind[counted] == _ACCEPTED) & (epoch == highest_epoch) & (_step(sequence, highest) > 1)
        numbers = {"epoch": epoch[is_gap], "first_sequence": highest[is_gap] + 1, "last_sequence": sequence[is_gap] - 1}
        return _with(self.rows.streams.take(pa.array(self.rows.stream[counted[is_gap]])), numbers)

    def suspects(self, is_start: Flags, is_older: Flags) -> tuple[pa.Table, pa.Table]:
        """The suspects, and the accepted records that share a key with one of them."""
        rows = self.rows
        suspects, accepted = (np.flatnonzero(self.kind == kind) for kind in (_SUSPECT, _ACCEPTED))
        some = accepted[np.isin(rows.sequence[accepted], rows.sequence[suspects])] if len(suspects) else accepted[:0]
        both = np.concatenate([suspects, some])
        key = row_codes(pa.table([rows.stream[both], rows.epoch[both], rows.sequence[both]], ["s", "e", "q"]), ("s", "e", "q"))
        originals = some[np.isin(key[len(suspects) :], key[: len(suspects)])]
        block = np.maximum.accumulate(np.where(is_start, np.arange(len(is_start)), 0))[suspects]
        found = self._keys(suspects).append_column("is_older", pa.array(is_older[suspects]))
        return found.append_column("block", pa.array(rows.offset[block])), self._keys(originals)

    def places(self, which: Flags) -> pa.Table:
        """Return topic, partition and offset of some records."""
        of_stream = self.rows.streams.select(["topic", "partition"]).take(pa.array(self.rows.stream[which]))
        return of_stream.append_column("offset", pa.array(self.rows.offset[which]))

    def _keys(self, which: Numbers) -> pa.Table:
        rows = self.rows
        numbers = {"epoch": rows.epoch[which], "sequence": rows.sequence[which], "offset": rows.offset[which]}
        return _with(rows.streams.take(pa.array(rows.stream[which])), numbers)

    def after(self, streams: Iterable[Stream], counted: Numbers, known: Mapping[str, Numbers]) -> dict[Stream, Position]:
        """Return the position of each stream after its last record."""
        rows = self.rows
        last = np.searchsorted(rows.stream, np.arange(len(rows.streams)), side="right") - 1
        found = {"last_offset": rows.offset[last]}
        accepted = counted[self.kind[counted] == _ACCEPTED]
        for names, those in ((("epoch", "sequence"), accepted), (("before_epoch", "before_sequence"), counted)):
            for name, column in zip(names, (rows.epoch, rows.sequence), strict=True):
                found[name] = known[name].copy()
                found[name][rows.stream[those]] = column[those]  # the last record of a stream is written last
        columns = (found[name].tolist() for name in Position._fields)
        return dict(zip(streams, map(Position, *columns), strict=True))

    def segments(self, those: Numbers, starts: Flags) -> pa.Table:
        """Return a segment per group of some records. `starts` marks the first record of each group, among those."""
        starting = np.flatnonzero(starts)
        lasts = lasts_of(starting, len(those))
        first, last = those[starting], those[lasts]
        rows, kind = self.rows, self.kind[first]
        is_unread = (kind == _REPLAY) | (rows.epoch[first] == NONE) | (rows.sequence[first] == NONE)
        reason = np.where(kind == _INVALID, rows.problem[first], NONE)
        columns = {
            **{name: rows.streams[name].take(pa.array(rows.stream[first])) for name in STREAM},
            "epoch": pa.array(rows.epoch[first], mask=is_unread),
            "class": pa.array(_KINDS).take(pa.array(kind)),
            "reason": rows.problems.take(pa.array(reason, mask=reason == NONE)),
            "first_offset": rows.offset[first],
            "last_offset": rows.offset[last],
            "first_sequence": pa.array(rows.sequence[first], mask=is_unread),
            "last_sequence": pa.array(rows.sequence[last], mask=is_unread),
            "records": lasts - starting + 1,
            "content_sha256": pa.nulls(len(first)),
        }
        return pa.table(columns).select(SEGMENT.names).cast(SEGMENT)


def sort_keys(keys: pa.Table) -> Rows:
    """Convert records to columns, sorted by stream and offset."""
    number = row_codes(keys, STREAM)
    first = np.empty(int(number.max(initial=NONE)) + 1, np.int64)
    first[number[::-1]] = np.arange(len(keys))[::-1]  # the first record of a stream is written last
    streams = pa.table({name: keys[name].take(pa.array(first)).cast(SEGMENT.field(name).type) for name in STREAM})
    by_name = pc.sort_indices(streams, [(name, "ascending") for name in STREAM])
    nth = np.empty(len(by_name), np.int64)
    nth[by_name.to_numpy()] = np.arange(len(by_name))
    stream, streams = nth[number], streams.take(by_name)
    offset, epoch, sequence = (filled(keys[name]) for name in ("offset", "epoch", "sequence"))
    problem, problems = codes(keys["problem"])
    settled = np.full(len(keys), NONE, np.int8)
    if SETTLED in keys.column_names:
        settled = filled(pc.index_in(keys[SETTLED], pa.array(_KINDS))).astype(np.int8)
    by_offset = np.argsort(offset, kind="stable")
    small = stream.astype(np.uint16) if len(streams) <= _SMALL else stream
    order = by_offset[np.argsort(small[by_offset], kind="stable")]
    return Rows(streams, stream[order], offset[order], epoch[order], sequence[order], problem[order], settled[order], problems)


def _known(
    streams: list[Stream], watermarks: Mapping[Stream, Ordinal], positions: Mapping[Stream, Position]
) -> dict[str, Numbers]:
    """Return the fields of each stream's position as columns: after an earlier chunk, otherwise its watermark."""
    none = (NONE, NONE)
    found = [positions.get(stream) or Position(*(watermarks.get(stream, none) * 2)) for stream in streams]
    return dict(zip(Position._fields, np.array(found, np.int64).reshape(-1, len(Position._fields)).T, strict=True))


def _step(sequence: Numbers, before: Numbers) -> NDArray[np.uint64]:
    """Return by how much a sequence exceeds another one. Defined only where it does."""
    return sequence.astype(np.uint64) - before.astype(np.uint64)


def _with(streams: pa.Table, columns: Mapping[str, Numbers]) -> pa.Table:
    for name, column in columns.items():
        streams = streams.append_column(name, pa.array(column, pa.int64()))
    return streams
