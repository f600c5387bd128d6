"""Decide the records of a load as segments: few rows on the driver, however many records there are."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from lakehouse.contracts.silver import ACCEPTED, DISCARDED, DUPLICATE, HELD, LATE, REPLAY, STREAM, stream_of
from lakehouse.spark import frames
from silver.decide import islands, monotonic, running_max
from silver.decide.sequential import fold
from silver.decide.sequential import gaps as fold_gaps
from silver.model import REJECT, SEGMENT, SPAN, Island, Segment, tuples_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.silver import Stream
    from silver.model import Range
    from silver.rules import Late, Rules
    from silver.state.streams import Known
    from silver.state.watermarks import Watermarks


class How(StrEnum):
    """The way to decide. The outcome is the same; which one is cheapest depends on the input.

    Attributes:
        FEW: All narrow records come to the driver and are decided there: no shuffle, nothing to compile.
        ISLANDS: By islands; streams that do not come in islands are decided record by record.
        RECORDS: Record by record.
    """

    FEW = "few"
    ISLANDS = "islands"
    RECORDS = "records"


@dataclass(frozen=True)
class Way:
    """How a load is decided, and at which sizes a step of it is done otherwise. Changes what it costs, never the outcome.

    Attributes:
        how: The way to decide.
        most_islands: The most islands that the driver takes; an input with more is decided record by record.
        fewest_copied: The fewest suspects in blocks that are checked as a whole; fewer are compared one by one just as fast.
        smallest_copy: The fewest records of such a block.
        most_at_once: The most suspects that are compared at a time.
    """

    how: How = How.ISLANDS
    most_islands: int = 50_000
    fewest_copied: int = 10_000
    smallest_copy: int = 100
    most_at_once: int = 250_000


def decide(spark: SparkSession, narrow: DataFrame, streams: Known, rules: Rules, way: Way) -> pa.Table:
    """Decide narrow records.

    Args:
        spark: The session.
        narrow: A row per record with topic, partition, producer, offset, epoch, sequence and problem.
        streams: The watermarks before the load.
        rules: The rules: each topic's `max_jump`, and whether epochs differ.
        way: The way to decide.

    Returns:
        The rows of `silver.decide.running_max.segments`, without the block numbers.
    """
    if way.how is How.FEW:
        return on_driver(narrow.toArrow(), streams, rules)
    if way.how is How.RECORDS:
        return _all_by_records(spark, narrow, streams, rules)
    rows = islands.find_islands(narrow).limit(way.most_islands + 1).toArrow()
    watermarks = streams.meet(rows, is_whole=len(rows) <= way.most_islands)
    if len(rows) > way.most_islands:
        return _all_by_records(spark, narrow, streams, rules)
    chained, odd = islands.split(rows.to_pylist())
    found = _table(fold(chained, watermarks.ordinals, rules))
    if odd:
        found = pa.concat_tables([found, _by_records(spark, frames.of_streams(spark, narrow, odd), watermarks, rules)])
    return found


def on_driver(narrow: pa.Table, streams: Known, rules: Rules) -> pa.Table:
    """Decide narrow records, in any order, without Spark; as `decide`."""
    ordered = narrow.sort_by([(name, "ascending") for name in (*STREAM, "offset")])
    watermarks = streams.meet(ordered)
    risen, others = monotonic.part(ordered, watermarks.ordinals, rules)
    return pa.concat_tables([risen, _table(fold(monotonic.islands(others), watermarks.ordinals, rules))])


def _all_by_records(spark: SparkSession, narrow: DataFrame, streams: Known, rules: Rules) -> pa.Table:
    """Decide all records by the running maximum. If some streams may be retired, they are met before it, else after it."""
    if streams.has_retired:
        streams.meet(narrow.select(*STREAM).distinct().toArrow())
    found = _by_records(spark, narrow, streams.watermarks, rules)
    streams.meet(found)
    return found


def _by_records(spark: SparkSession, narrow: DataFrame, watermarks: Watermarks, rules: Rules) -> pa.Table:
    """Decide record by record: by the running maximum, and streams with a jump by the sequential fold."""
    has_epochs = rules.has_epochs or bool(watermarks.declared)
    classified = running_max.classify(narrow, watermarks.frame(spark), has_epochs=has_epochs)
    columns = running_max.segments(classified).withColumn("content_sha256", F.lit(None).cast("string"))
    found = columns.select(*SEGMENT.names).toArrow().cast(SEGMENT)
    streams = _jumping(found, rules)
    if not streams:
        return found
    is_kept = [stream not in streams for stream in tuples_of(found, STREAM)]
    folded = fold(_in_offset_order(frames.of_streams(spark, narrow, streams)), watermarks.ordinals, rules)
    return pa.concat_tables([found.filter(pa.array(is_kept)), _table(folded)])


def _jumping(found: pa.Table, rules: Rules) -> set[Stream]:
    """The streams with a step above their topic's `max_jump`."""
    limits = [limit for limit in (rules.max_jump, *(own.max_jump for _, own in rules.topics)) if limit is not None]
    if not limits:
        return set()
    stepped = found.filter(pc.greater(found["max_step"], min(limits))).select([*STREAM, "max_step"]).to_pylist()
    limit_of = {row["topic"]: rules.policy(row["topic"]).max_jump for row in stepped}
    return {stream_of(row) for row in stepped if (limit := limit_of[row["topic"]]) is not None and row["max_step"] > limit}


def gaps(
    spark: SparkSession, narrow: DataFrame, watermarks: Watermarks, rules: Rules, streams: set[Stream]
) -> dict[Stream, list[Range]]:
    """The sequences that some streams skip, found by reading their records again, as islands. Arguments as for `decide`."""
    chained, left = islands.part(spark, frames.of_streams(spark, narrow, streams), Way.most_islands)
    in_order = chain(chained, () if left is None else _in_offset_order(left))
    return fold_gaps(in_order, watermarks.ordinals, rules)


def _in_offset_order(narrow: DataFrame) -> Iterator[Island]:
    """Records as islands, one stream after another."""
    columns = (*STREAM, "first_offset", "last_offset", "epoch", "first_sequence", "problem")
    for row in frames.one_by_one(islands.runs(narrow).orderBy(*STREAM, "run").select(*columns)):
        topic, partition, producer, *island = row
        yield Island((topic, partition, producer), *island)


def _table(found: Iterable[Segment]) -> pa.Table:
    return pa.Table.from_pylist([_row(segment) for segment in found], SEGMENT)


def _row(segment: Segment) -> dict[str, object]:
    return {
        **dict(zip(STREAM, segment.stream, strict=True)),
        "epoch": segment.epoch,
        "class": segment.kind,
        "reason": segment.reason,
        **{name: getattr(segment, name) for name in (*SPAN, "records", "jumps_forward", "jumps_backward")},
    }


def summary(found: pa.Table) -> Iterator[Segment]:
    """Merge the segments of each stream, epoch and class into one: few, however many blocks there are."""
    grouped = found.group_by([*STREAM, "epoch", "class"]).aggregate(
        [
            ("first_offset", "min"),
            ("last_offset", "max"),
            ("first_sequence", "min"),
            ("last_sequence", "max"),
            *((name, "sum") for name in ("records", "jumps_forward", "jumps_backward")),
        ]
    )
    for topic, partition, producer, epoch, kind, *counted in tuples_of(grouped, grouped.column_names):
        yield Segment((topic, partition, producer), epoch, kind, None, *counted)


def late(found: pa.Table, rules: Rules) -> pa.Table:
    """The segments of the late records that Silver accepts."""
    return found.filter(_is_late(found, rules, "accept"))


def _is_late(found: pa.Table, rules: Rules, policy: Late) -> pa.Array:
    """Whether each segment holds late records of a topic with the given policy."""
    topics = [topic for topic in pc.unique(found["topic"]).to_pylist() if rules.policy(topic).late == policy]
    return pc.and_(pc.equal(found["class"], LATE), pc.is_in(found["topic"], pa.array(topics, pa.string())))


def rejects(found: pa.Table, load_seq: int, rules: Rules) -> pa.Table:
    """The segments that are kept out of Silver, as rows of `silver_rejects`."""
    is_kept = pc.or_(pc.is_in(found["class"], pa.array([ACCEPTED, REPLAY])), _is_late(found, rules, "accept"))
    out = found.filter(pc.invert(is_kept))
    is_decided_away = pc.or_(pc.equal(out["class"], DUPLICATE), _is_late(out, rules, "drop"))
    state = pc.if_else(is_decided_away, DISCARDED, HELD)
    columns = {name: out[name] for name in REJECT.names if name in out.column_names}
    numbers = {"load_seq": pa.array([load_seq] * len(out), pa.int64()), "settled_load_seq": pa.nulls(len(out), pa.int64())}
    return pa.table({**columns, **numbers, "state": state}, schema=REJECT)


def replayed(found: pa.Table) -> list[tuple[str, int, int, int]]:
    """The offset ranges that Bronze holds twice: topic, partition, first and last offset, inclusive."""
    spans = found.filter(pc.equal(found["class"], REPLAY)).to_pylist()
    return [(span["topic"], span["partition"], span["first_offset"], span["last_offset"]) for span in spans]
