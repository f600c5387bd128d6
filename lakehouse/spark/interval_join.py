"""Joins intervals of offsets with the records in them, by buckets. Shuffles no wide row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from lakehouse.contracts.contract import sql_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame

BITS = 8
"""A bucket holds 2^8 numbers: a record is compared only with the intervals of its bucket, found by hash."""


def bucketed(spans: DataFrame) -> DataFrame:
    """Return intervals (both offsets inclusive) once per `bucket` (bigint) that they touch, for a broadcast hash join."""
    nth = spans.withColumn("bucket", F.explode(F.sequence(*(F.shiftright(f"{end}_offset", BITS) for end in ("first", "last")))))
    return nth.withColumn("bucket", place_key(nth, nth["bucket"]))


def place_key(rows: DataFrame, nth: Column) -> Column:
    """Return one number for topic, partition and a part of it: Spark looks up one bigint in half the time of three columns."""
    return F.xxhash64(rows["topic"], rows["partition"]).bitwiseXOR(nth)


def merged(spans: DataFrame) -> DataFrame:
    """Merge intervals that may overlap: topic, partition, first_offset and last_offset (bigint)."""
    by_offset = Window.partitionBy("topic", "partition").orderBy("first_offset", "last_offset")
    reached = F.max("last_offset").over(by_offset.rowsBetween(Window.unboundedPreceding, -1))
    starts = F.when(F.col("reached") >= F.col("first_offset"), 0).otherwise(1)
    nth = F.sum("starts").over(by_offset.rowsBetween(Window.unboundedPreceding, 0))
    places = spans.select("topic", "partition", "first_offset", "last_offset")
    numbered = places.withColumn("reached", reached).withColumn("starts", starts).withColumn("nth", nth)
    whole = (F.min("first_offset").alias("first_offset"), F.max("last_offset").alias("last_offset"))
    return numbered.groupBy("topic", "partition", "nth").agg(*whole).drop("nth")


def is_within(records: DataFrame, spans: DataFrame) -> Column:
    """Whether a record is in a bucketed interval."""
    return (
        (place_key(records, F.shiftright(records["offset"], BITS)) == spans["bucket"])
        & records["offset"].between(spans["first_offset"], spans["last_offset"])
        & _is(records["partition"], spans["partition"])
        & _is(records["topic"], spans["topic"])
    )


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
    """Whether any of the conditions holds. Uses SQL: a thousand conditions are one call, and Spark's parser balances them."""
    return F.expr(" OR ".join(f"({each})" for each in conditions))
