"""Decide monotonic streams as a whole: each record is above the one before it, gaps allowed. Pure, on Arrow.

What does not rise is cut into islands, and left to the fold.

Most streams are monotonic, even if many producers take turns so that no two records of one are adjacent. Comparing columns with
themselves, shifted by a row, shows it for all streams at once.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.contracts.silver import ACCEPTED, STREAM, stream_of
from silver.model import Island, Segment, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakehouse.contracts.silver import Ordinal, Stream
    from silver.rules import Rules


def part(records: pa.Table, watermarks: Mapping[Stream, Ordinal], rules: Rules) -> tuple[list[Segment], pa.Table]:
    """Separate the monotonic streams, which rise above their watermark without a jump, from the others.

    Args:
        records: Narrow records, sorted by stream and offset: topic, partition, producer, offset, epoch, sequence and problem.
        watermarks: The watermark of each stream that has one.
        rules: The rules: each topic's `max_jump`.

    Returns:
        A segment for each of the former, as `silver.decide.sequential.fold` yields it; and the records of the latter.

    >>> from lakehouse.extract.sources import Source
    >>> from silver.rules import Rules
    >>> names = {"topic": ["t", "t", "t", "u"], "producer": ["p"] * 4, "problem": pa.nulls(4, pa.string())}
    >>> numbers = {"partition": [0] * 4, "offset": [0, 1, 2, 0], "epoch": [0] * 4, "sequence": [1, 2, 2, 7]}
    >>> risen, others = part(pa.table({**names, **numbers}), {}, Rules(Source("header", "seq")))
    >>> [segment.stream for segment in risen], others["offset"].to_pylist()
    ([('u', 0, 'p')], [0, 1, 2])
    """
    nth, streams = _streams(records)
    limits = {topic: rules.policy(topic).max_jump for topic in pc.unique(streams["topic"]).to_pylist()}
    risen, others = [], []
    for row in streams.to_pylist():
        stream = stream_of(row)
        segment = _accepted(stream, row, watermarks.get(stream), limits[stream[0]])
        if segment is None:
            others.append(row["nth"])
        else:
            risen.append(segment)
    return risen, records.filter(pc.is_in(nth, pa.array(others, pa.int64())))


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
    goes_on = reduce(pc.and_, (pc.fill_null(pc.equal(step, 1), fill_value=False) for step in steps))
    begins = _starts(column)
    differs = reduce(pc.or_, (_differs(column[name]) for name in ("epoch", "problem")), begins)
    is_again = pc.and_not(pc.invert(_differs(column["offset"])), begins)
    goes_on = pc.and_not(pc.and_not(goes_on, differs), pc.fill_null(_before(is_again), fill_value=False))
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
        "rises": pc.and_(is_read, pc.or_(starts, pc.fill_null(follows, fill_value=False))),
        "step": step,
        "jumps_forward": pc.fill_null(pc.greater(step, 1), fill_value=False).cast(pa.int64()),
    }
    spans = [(name, least_or_most) for name in ("offset", "sequence") for least_or_most in ("min", "max")]
    rest = [("epoch", "min"), ("rises", "all"), ("step", "max"), ("jumps_forward", "sum"), ([], "count_all")]
    return told["nth"], pa.table(told).group_by(["nth", *STREAM]).aggregate([*spans, *rest])


def _accepted(stream: Stream, row: Mapping[str, Any], watermark: Ordinal | None, max_jump: int | None) -> Segment | None:
    """The segment of a stream's records; None unless all rise and start above the watermark, and none is a jump."""
    epoch, first = row["epoch_min"], row["sequence_min"]
    if not row["rises_all"] or (watermark is not None and (epoch, first) <= watermark):
        return None
    step = first - watermark[1] if watermark is not None and watermark[0] == epoch else 0
    if max_jump is not None and max(step, row["step_max"] or 0) > max_jump:
        return None
    return Segment(
        stream,
        epoch,
        ACCEPTED,
        None,
        first_offset=row["offset_min"],
        last_offset=row["offset_max"],
        first_sequence=first,
        last_sequence=row["sequence_max"],
        records=row["count_all"],
        jumps_forward=row["jumps_forward_sum"] + int(step > 1),
    )


def _differs(column: pa.Array) -> pa.Array:
    """Whether each value differs from the one before it; null is a value like any other."""
    before = _before(column)
    return pc.or_(pc.fill_null(pc.not_equal(column, before), fill_value=False), pc.xor(column.is_null(), before.is_null()))


def _before(column: pa.Array) -> pa.Array:
    """The value before each; null before the first, which differs from any topic."""
    return pa.concat_arrays([pa.nulls(1, column.type), column])[:-1]
