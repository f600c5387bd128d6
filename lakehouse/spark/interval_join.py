"""Joins intervals of offsets or sequences with the records in them, by buckets, so that no wide row is shuffled.

When producers take turns their intervals overlap, each covering nearly all offsets of the load. The broadcast rows stay few all
the same: long intervals are bucketed on their own, more coarsely.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc
from pyspark.sql import Window
from pyspark.sql import functions as F

from lakehouse.contracts.contract import sql_text
from lakehouse.contracts.silver import STREAM
from lakehouse.spark import frames

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

BITS = 8
"""A bucket holds 2^8 numbers: a record is compared only with the intervals of its bucket, found by hash."""
_MOST_BUCKETS = 2**16
"""How many buckets intervals may touch before the long ones are bucketed on their own."""
_SHORT = 2**12
"""An interval of at most this length touches at most 17 buckets."""


def bucketed(spans: DataFrame, *, of: str = "offset", bits: int = BITS) -> DataFrame:
    """One row per interval and bucket that it touches, so that a hash join finds the intervals of a record.

    Args:
        spans: Rows with topic, partition, and first_offset and last_offset (inclusive).
        of: What the intervals are of: offset, or sequence, whose columns are first_sequence and last_sequence.
        bits: A bucket holds 2^bits numbers.

    Returns:
        The rows with `bucket` (bigint), to be broadcast.
    """
    first, last = (F.shiftright(f"{end}_{of}", bits) for end in ("first", "last"))
    nth = spans.withColumn("bucket", F.explode(F.sequence(first, last)))
    return nth.withColumn("bucket", _bucket(nth, nth["bucket"]))


def _bucket(rows: DataFrame, nth: Column) -> Column:
    """One number for topic, partition and bucket: Spark looks up one bigint in half the time of three columns."""
    return F.xxhash64(rows["topic"], rows["partition"]).bitwiseXOR(nth)


def by_length(spans: pa.Table) -> list[tuple[pa.Table, int]]:
    """Split intervals of offsets so that their buckets are few: at most 18 for each, or 65,536 in all.

    The intervals of one stream do not overlap. So even in a coarse bucket a record meets few long intervals of its stream.

    Args:
        spans: Rows with first_offset and last_offset.

    Returns:
        Parts of the rows, each with the bits of its buckets: all rows as one, or the short and the long ones.

    >>> import pyarrow as pa
    >>> one = pa.table({"first_offset": [7], "last_offset": [8]})
    >>> [(len(part), bits) for part, bits in by_length(one)]
    [(1, 8)]
    >>> turns = pa.table({"first_offset": range(10_000), "last_offset": range(990_000, 1_000_000)})
    >>> [(len(part), bits) for part, bits in by_length(pa.concat_tables([one, turns]))]
    [(1, 8), (10000, 18)]
    """
    numbers = pc.add(pc.subtract(spans["last_offset"], spans["first_offset"]), 1)
    if _buckets(numbers, BITS) <= _MOST_BUCKETS:
        return [(spans, BITS)]
    is_short = pc.less_equal(numbers, _SHORT)
    short, long = spans.filter(is_short), spans.filter(pc.invert(is_short))
    of_long = numbers.filter(pc.invert(is_short))
    bits = BITS
    while _buckets(of_long, bits) > max(_MOST_BUCKETS, 4 * len(long)):
        bits += 1
    return [(part, bits_of_part) for part, bits_of_part in ((short, BITS), (long, bits)) if part.num_rows]


def _buckets(numbers: pa.ChunkedArray, bits: int) -> int:
    """How many buckets intervals of these lengths touch, at most."""
    touched: int | None = pc.sum(pc.add(pc.shift_right(numbers, bits), 2)).as_py()
    return touched or 0


def outside(spark: SparkSession, records: DataFrame, spans: pa.Table, *, by_producer: bool) -> DataFrame:
    """The records that are in none of the intervals.

    Args:
        spark: The session.
        records: Rows with topic, partition, offset, and producer if `by_producer`.
        spans: topic, partition, producer, first_offset and last_offset: segments or rejects.
        by_producer: Whether an interval holds records of its producer only.
    """
    for part, bits in by_length(spans.select([*STREAM, "first_offset", "last_offset"])):
        out = bucketed(frames.of_arrow(spark, part), bits=bits)
        is_out = is_within(records, out, by_producer=by_producer, bits=bits)
        records = records.join(F.broadcast(out), on=is_out, how="left_anti")
    return records


def merged(spans: DataFrame) -> DataFrame:
    """Merge intervals of offsets that may overlap into intervals that do not.

    Args:
        spans: Rows with topic, partition, first_offset and last_offset.

    Returns:
        topic, partition, first_offset and last_offset (bigint).
    """
    by_offset = Window.partitionBy("topic", "partition").orderBy("first_offset", "last_offset")
    reached = F.max("last_offset").over(by_offset.rowsBetween(Window.unboundedPreceding, -1))
    starts = F.when(F.col("reached") >= F.col("first_offset"), 0).otherwise(1)
    nth = F.sum("starts").over(by_offset.rowsBetween(Window.unboundedPreceding, 0))
    places = spans.select("topic", "partition", "first_offset", "last_offset")
    numbered = places.withColumn("reached", reached).withColumn("starts", starts).withColumn("nth", nth)
    whole = (F.min("first_offset").alias("first_offset"), F.max("last_offset").alias("last_offset"))
    return numbered.groupBy("topic", "partition", "nth").agg(*whole).drop("nth")


def summed() -> list[Column]:
    """The aggregates of a group of records: its count, and its first and last offset and sequence."""
    return [
        F.count(F.lit(1)).alias("records"),
        F.min("offset").alias("first_offset"),
        F.max("offset").alias("last_offset"),
        F.min("sequence").alias("first_sequence"),
        F.max("sequence").alias("last_sequence"),
    ]


def is_within(records: DataFrame, spans: DataFrame, *, by_producer: bool, of: str = "offset", bits: int = BITS) -> Column:
    """Whether a record is in a bucketed interval; with `by_producer`, in one of its own producer."""
    in_span = (
        (_bucket(records, F.shiftright(records[of], bits)) == spans["bucket"])
        & records[of].between(spans[f"first_{of}"], spans[f"last_{of}"])
        & _is(records["partition"], spans["partition"])
        & _is(records["topic"], spans["topic"])
    )
    return in_span & records["producer"].eqNullSafe(spans["producer"]) if by_producer else in_span


def _is(one: Column, other: Column) -> Column:
    """Whether two columns are equal, in a form that Spark does not use as a join key."""
    return one.between(other, other)


def at(topic: str, partition: int, condition: str) -> str:
    r"""A condition within a partition, as SQL.

    >>> print(at("it's", 0, "offset <= 5"))
    topic = 'it\'s' AND partition = 0 AND offset <= 5
    """
    return f"topic = {sql_text(topic)} AND partition = {partition} AND {condition}"


def any_of(conditions: Iterable[str]) -> Column:
    """Whether any of one or more conditions holds. As SQL: a thousand are one call, and Spark's parser balances them."""
    return F.expr(" OR ".join(f"({each})" for each in conditions))
