"""Decide monotonic streams as a whole: each record is above the one before it, gaps allowed. Pure, on Arrow.

What does not rise is cut into islands, and left to the fold.

Most streams are monotonic, even if many producers take turns so that no two records of one are adjacent. Comparing columns with
themselves, shifted by a row, shows it for all streams at once.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.contracts.silver import ACCEPTED, STREAM, stream_of
from silver.model import SEGMENT, Island, rows_of, tuples_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakehouse.contracts.silver import Ordinal, Stream
    from silver.rules import Rules


def part(records: pa.Table, watermarks: Mapping[Stream, Ordinal], rules: Rules) -> tuple[pa.Table, pa.Table]:
    """Separate the monotonic streams, which rise above their watermark without a jump, from the others.

    Args:
        records: Narrow records, sorted by stream and offset: topic, partition, producer, offset, epoch, sequence and problem.
        watermarks: The watermark of each stream that has one.
        rules: The rules: each topic's `max_jump`.

    Returns:
        A segment for each of the former, as `silver.decide.sequential.fold` yields them; and the records of the latter.

    >>> from lakehouse.extract.sources import Source
    >>> from silver.rules import Rules
    >>> names = {"topic": ["t", "t", "t", "u"], "producer": ["p"] * 4, "problem": pa.nulls(4, pa.string())}
    >>> numbers = {"partition": [0] * 4, "offset": [0, 1, 2, 0], "epoch": [0] * 4, "sequence": [1, 2, 2, 7]}
    >>> risen, others = part(pa.table({**names, **numbers}), {}, Rules(Source("header", "seq")))
    >>> risen["topic"].to_pylist(), others["offset"].to_pylist()
    (['u'], [0, 1, 2])
    """
    nth, streams = _streams(records)
    is_above, step = _above(streams, watermarks)
    limits = {topic: rules.policy(topic).max_jump for topic in pc.unique(streams["topic"]).to_pylist()}
    limit = pa.array([limits[topic] for topic in streams["topic"].to_pylist()], pa.int64())
    has_jumped = _is(pc.greater(pc.max_element_wise(step, streams["step_max"]), limit))
    has_risen = pc.and_(streams["rises_all"], pc.and_not(is_above, has_jumped))
    others = streams["nth"].filter(pc.invert(has_risen))
    return _accepted(streams, step).filter(has_risen), records.filter(pc.is_in(nth, others))


def islands(records: pa.Table) -> Iterator[Island]:
    """Cut records into islands, as `silver.decide.islands.runs` cuts them.

    Args:
        records: Narrow records, as for `part`.

    >>> names = {"topic": ["t"] * 4, "producer": ["p"] * 4, "problem": pa.nulls(4, pa.string())}
    >>> numbers = {"partition": [0] * 4, "offset": [0, 1, 2, 3], "epoch": [0] * 4, "sequence": [1, 2, 3, 2]}
    >>> [(each.first_offset, each.last_offset) for each in islands(pa.table({**names, **numbers}))]
    [(0, 2), (3, 3)]
    """
    if not records.num_rows:
        return
    column = {name: records[name].combine_chunks() for name in records.column_names}
    steps = (pc.subtract(column[name], _before(column[name])) for name in ("offset", "sequence"))
    goes_on = reduce(pc.and_, (_is(pc.equal(step, 1)) for step in steps))
    begins = _starts(column)
    differs = reduce(pc.or_, (_differs(column[name]) for name in ("epoch", "problem")), begins)
    is_again = pc.and_not(pc.invert(_differs(column["offset"])), begins)
    goes_on = pc.and_not(pc.and_not(goes_on, differs), _is(_before(is_again)))
    starts = pc.indices_nonzero(pc.invert(goes_on))
    lasts = pa.concat_arrays([starts[1:], pa.array([records.num_rows], starts.type)])
    rows = records.take(starts).append_column("last", records["offset"].take(pc.subtract(lasts, 1)))
    for row in rows_of(rows):
        yield Island(stream_of(row), row["offset"], row["last"], row["epoch"], row["sequence"], row["problem"])


def _starts(column: Mapping[str, pa.Array]) -> pa.Array:
    """Whether a stream starts at each record."""
    return reduce(pc.or_, (_differs(column[name]) for name in STREAM))


def _streams(records: pa.Table) -> tuple[pa.Array, pa.Table]:
    """The number of each record's stream; and a row per stream with its totals and whether all of its records rise."""
    column = {name: records[name].combine_chunks() for name in records.column_names}
    starts = _starts(column)
    step = pc.if_else(starts, None, pc.subtract(column["sequence"], _before(column["sequence"])))
    follows = pc.and_(pc.greater(step, 0), pc.and_not(_differs(column["offset"]), _differs(column["epoch"])))
    is_read = pc.and_(pc.and_(column["epoch"].is_valid(), column["sequence"].is_valid()), column["problem"].is_null())
    told = {
        **{name: column[name] for name in (*STREAM, "offset", "epoch", "sequence")},
        "nth": pc.cumulative_sum(starts.cast(pa.int64())),
        "rises": pc.and_(is_read, pc.or_(starts, _is(follows))),
        "step": step,
        "jumps_forward": _is(pc.greater(step, 1)).cast(pa.int64()),
    }
    spans = [(name, least_or_most) for name in ("offset", "sequence") for least_or_most in ("min", "max")]
    rest = [("epoch", "min"), ("rises", "all"), ("step", "max"), ("jumps_forward", "sum"), ([], "count_all")]
    return told["nth"], pa.table(told).group_by(["nth", *STREAM]).aggregate([*spans, *rest])


def _above(streams: pa.Table, watermarks: Mapping[Stream, Ordinal]) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Whether each stream starts above its watermark, if it has one; and its step over it within an epoch, else 0."""
    marks = [watermarks.get(stream, (None, None)) for stream in tuples_of(streams, STREAM)]
    known_epoch, known_sequence = (pa.array([mark[each] for mark in marks], pa.int64()) for each in range(2))
    epoch, first = streams["epoch_min"], streams["sequence_min"]
    goes_on = _is(pc.equal(epoch, known_epoch))
    is_above = pc.or_(_is(pc.greater(epoch, known_epoch)), pc.and_(goes_on, _is(pc.greater(first, known_sequence))))
    return pc.or_(known_epoch.is_null(), is_above), pc.if_else(goes_on, pc.subtract(first, known_sequence), 0)


def _accepted(streams: pa.Table, step: pa.ChunkedArray) -> pa.Table:
    """Each stream as a segment of accepted records."""
    told = {
        **{name: streams[name] for name in STREAM},
        "epoch": streams["epoch_min"],
        "class": pa.repeat(ACCEPTED, len(streams)),
        "reason": pa.nulls(len(streams)),
        "first_offset": streams["offset_min"],
        "last_offset": streams["offset_max"],
        "first_sequence": streams["sequence_min"],
        "last_sequence": streams["sequence_max"],
        "records": streams["count_all"],
        "jumps_forward": pc.add(streams["jumps_forward_sum"], pc.greater(step, 1).cast(pa.int64())),
        "jumps_backward": pa.repeat(0, len(streams)),
        "max_step": pa.nulls(len(streams)),
        "content_sha256": pa.nulls(len(streams)),
    }
    return pa.table(told).cast(SEGMENT)


def _differs(column: pa.Array) -> pa.Array:
    """Whether each value differs from the one before it; null is a value like any other."""
    before = _before(column)
    return pc.or_(_is(pc.not_equal(column, before)), pc.xor(column.is_null(), before.is_null()))


def _is(compared: pa.Array) -> pa.Array:
    """What a comparison says; false where it compared with a null."""
    return pc.fill_null(compared, fill_value=False)


def _before(column: pa.Array) -> pa.Array:
    """The value before each; null before the first, which differs from any topic."""
    return pa.concat_arrays([pa.nulls(1, column.type), column])[:-1]
