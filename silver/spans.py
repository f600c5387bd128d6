"""Spans of offsets or sequences, and the records in them: joined by buckets, so that no wide row is shuffled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakehouse import frames
from lakehouse.contracts.model import sql_text
from lakehouse.contracts.silver import STREAM

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

BITS = 8
"""A bucket holds 2^8 numbers: a record is compared with the spans of its bucket only, found by hash."""
_MOST_BUCKETS = 2**16


def bits_of(numbers: int) -> int:
    """How wide the buckets of spans have to be that hold so many numbers, for their rows to be few enough to be broadcast.

    >>> bits_of(1_000_000), bits_of(10**9)
    (8, 14)
    """
    return max(BITS, (numbers // _MOST_BUCKETS).bit_length())


def bucketed(spans: DataFrame, *, of: str = "offset", bits: int = BITS) -> DataFrame:
    """A row per span and bucket that it touches, so that a hash join finds the spans of a record.

    Args:
        spans: Rows with topic, partition, and first_offset and last_offset (inclusive).
        of: What they are spans of: offset, or sequence, whose columns are first_sequence and last_sequence.
        bits: A bucket holds 2 to the power of it.

    Returns:
        The rows with `bucket` (bigint), to be broadcast.
    """
    first, last = (F.shiftright(f"{end}_{of}", bits) for end in ("first", "last"))
    nth = spans.withColumn("bucket", F.explode(F.sequence(first, last)))
    return nth.withColumn("bucket", _bucket(nth, nth["bucket"]))


def _bucket(rows: DataFrame, nth: Column) -> Column:
    """One number for topic, partition and the bucket in it: Spark finds a row by a bigint in half the time of three columns."""
    return F.xxhash64(rows["topic"], rows["partition"]).bitwiseXOR(nth)


def of_segments(spark: SparkSession, segments: pa.Table) -> DataFrame:
    """The bucketed spans of some segments or rejects, with their producer."""
    return bucketed(frames.of_arrow(spark, segments.select([*STREAM, "first_offset", "last_offset"])))


def summed() -> list[Column]:
    """What a group of records comes to: how many they are, and the offsets and sequences that they span."""
    return [
        F.count(F.lit(1)).alias("records"),
        F.min("offset").alias("first_offset"),
        F.max("offset").alias("last_offset"),
        F.min("sequence").alias("first_sequence"),
        F.max("sequence").alias("last_sequence"),
    ]


def is_within(records: DataFrame, spans: DataFrame, *, by_producer: bool, of: str = "offset", bits: int = BITS) -> Column:
    """Whether a record lies in a bucketed span; of the span's stream, where producers share a partition's offsets."""
    in_span = (
        (_bucket(records, F.shiftright(records[of], bits)) == spans["bucket"])
        & records[of].between(spans[f"first_{of}"], spans[f"last_{of}"])
        & _is(records["partition"], spans["partition"])
        & _is(records["topic"], spans["topic"])
    )
    return in_span & records["producer"].eqNullSafe(spans["producer"]) if by_producer else in_span


def _is(one: Column, other: Column) -> Column:
    """Whether two are equal, in a form that Spark does not take for a key of the join."""
    return one.between(other, other)


def at(topic: str, partition: int, condition: str) -> str:
    r"""A condition within a partition, as SQL.

    >>> print(at("it's", 0, "offset <= 5"))
    topic = 'it\'s' AND partition = 0 AND offset <= 5
    """
    return f"topic = {sql_text(topic)} AND partition = {partition} AND {condition}"


def any_of(conditions: Iterable[str]) -> Column:
    """Whether one of some conditions holds; at least one. As SQL: a thousand are one call, and Spark's parser balances them."""
    return F.expr(" OR ".join(f"({each})" for each in conditions))
