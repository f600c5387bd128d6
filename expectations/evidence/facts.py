"""The facts pass: what Silver and Bronze really hold, counted from their narrow columns. Pure: reads and writes nothing.

The ledger says what a load did. These counts come from the rows themselves, so that the two can be compared
(`expectations.evidence.measures`).
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import Column, Window
from pyspark.sql import functions as F

from lakehouse.contracts.silver import IN_ORDER, STREAM
from lakehouse.spark import frames

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from expectations.evidence.model import Row

REQUIRED = ("topic", "partition", "offset", "sequence", "epoch", "load_seq", "arrival")
"""The columns of a kept record that are never null."""

ORDINAL = ("epoch", "sequence")
"""What orders the records of a stream."""


def silver_facts(records: DataFrame) -> DataFrame:
    """Count what Silver holds of each stream and load.

    One shuffle, of narrow rows: both windows and the aggregation share the streams' partitioning.

    Grain: a stream and load.

    Args:
        records: Rows of `silver_records`. If there is a payload, `value` is only tested for null, and not shuffled.

    Returns:
        topic, partition, producer, load_seq, and (bigint unless noted): rows; not_increasing, in-order rows that are not above
        the in-order row before them by offset, in the same load; repeated_keys, rows that repeat a (stream, epoch, sequence);
        nulls, in the required columns; undecodable; first and last, the (epoch, sequence) structs of the first in-order row by
        offset, null if there is none, and of the highest row.
    """
    by_sequence = Window.partitionBy(*STREAM).orderBy(*ORDINAL, "offset")
    earlier = Window.partitionBy(*STREAM, "load_seq").orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    in_order = F.when(F.col("arrival") == IN_ORDER, F.col("ordinal"))
    before = F.last("in_order", ignorenulls=True).over(earlier)
    marked = (
        records.select(*STREAM, "load_seq", "epoch", "sequence", "offset", "arrival", is_undecodable(records))
        .withColumn("ordinal", F.struct(*ORDINAL))
        .withColumn("repeats", F.coalesce(F.lag("ordinal").over(by_sequence) == F.col("ordinal"), F.lit(False)))
        .withColumn("in_order", in_order)
        .withColumn("falls", F.coalesce(F.col("in_order") <= before, F.lit(False)))
    )
    return marked.groupBy(*STREAM, "load_seq").agg(
        F.count(F.lit(1)).alias("rows"),
        F.count_if("falls").alias("not_increasing"),
        F.count_if("repeats").alias("repeated_keys"),
        nulls().alias("nulls"),
        F.count_if("is_undecodable").alias("undecodable"),
        F.min_by("in_order", F.when(F.col("in_order").isNotNull(), F.col("offset"))).alias("first"),
        F.max("ordinal").alias("last"),
    )


def bronze_counts(appended: DataFrame) -> DataFrame:
    """Count what each Bronze version appended to each partition.

    Grain: a partition and version.

    Args:
        appended: What `lakehouse.delta.tables.collect_appended` passes to its summary.

    Returns:
        topic, partition, version and records (bigint).
    """
    return appended.groupBy("topic", "partition", F.col("_commit_version").alias("version")).agg(
        F.count(F.lit(1)).alias("records")
    )


def bronze_counts_of(appended: pa.Table) -> list[Row]:
    """The rows of `bronze_counts`, of what is on the driver.

    >>> import pyarrow as pa
    >>> rows = {"topic": ["t", "t", "t"], "partition": [0, 0, 1], "_commit_version": [3, 3, 4]}
    >>> [list(row.values()) for row in bronze_counts_of(pa.table(rows))]
    [['t', 0, 3, 2], ['t', 1, 4, 1]]
    """
    counts = appended.group_by(["topic", "partition", "_commit_version"]).aggregate([([], "count_all")])
    found: list[Row] = counts.rename_columns(["topic", "partition", "version", "records"]).to_pylist()
    return found


def bronze_offsets(bronze: DataFrame, spans: DataFrame) -> DataFrame:
    """Count the distinct offsets that Bronze holds in each offset range: all that can be known once its versions are gone.

    Grain: a partition and load.

    Args:
        bronze: Rows of `bronze_records`.
        spans: A few rows with topic, partition, load_seq, above (bigint; null for no lower bound) and up_to (inclusive).

    Returns:
        topic, partition, load_seq and records (bigint); an offset that Bronze holds twice counts once.
    """
    offsets = bronze.select("topic", "partition", "offset")
    within = (
        (offsets["topic"] == spans["topic"])
        & (offsets["partition"] == spans["partition"])
        & (offsets["offset"] > F.coalesce(spans["above"], F.lit(-1)))
        & (offsets["offset"] <= spans["up_to"])
    )
    found = offsets.join(F.broadcast(spans), on=within, how="inner").select(
        offsets["topic"], offsets["partition"], "load_seq", "offset"
    )
    return found.groupBy("topic", "partition", "load_seq").agg(F.count_distinct("offset").alias("records"))


def later_again(ends: DataFrame, *, sent: DataFrame, kept: DataFrame) -> DataFrame:
    """Find the streams whose duplicates all have later timestamps than their originals.

    Grain: a stream and load.

    Args:
        ends: Duplicates: stream, load_seq, epoch, offset and sequence.
        sent: Rows of `bronze_records`, these duplicates among them.
        kept: Rows of `silver_records`. A duplicate whose original is not among them is not compared.

    Returns:
        topic, partition, producer and load_seq.
    """
    is_at = reduce(and_, (sent[name] == ends[name] for name in ("topic", "partition", "offset")))
    again = sent.join(F.broadcast(ends), on=is_at, how="inner").select(
        *(ends[name] for name in (*STREAM, "load_seq", *ORDINAL)), sent["timestamp"].alias("sent_at")
    )
    compared = kept.join(F.broadcast(again), on=frames.same_stream(kept, again, *ORDINAL), how="inner").select(
        *(again[name] for name in (*STREAM, "load_seq")), (again["sent_at"] > kept["timestamp"]).alias("is_later")
    )
    by_stream = compared.groupBy(*STREAM, "load_seq").agg(F.bool_and("is_later").alias("is_later"))
    return by_stream.where("is_later").drop("is_later")


def is_undecodable(records: DataFrame) -> Column:
    """Whether a value could not be decoded into a payload; false if there is no payload column."""
    if "payload" not in records.columns:
        return F.lit(False).alias("is_undecodable")
    return (F.col("payload").isNull() & F.col("value").isNotNull()).alias("is_undecodable")


def nulls() -> Column:
    """The number of nulls in the required columns."""
    found = F.lit(0)
    for name in REQUIRED:
        found = found + F.col(name).isNull().cast("int")
    return F.sum(found)
