"""Facts about the rows of Silver and Bronze, counted from narrow columns. Pure.

`expectations.evidence.measures` compares them with the ledger.
"""

from __future__ import annotations

from functools import reduce
from operator import add, and_
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from lakehouse.contracts.silver import IN_ORDER, STREAM
from lakehouse.spark import frames

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

REQUIRED = ("topic", "partition", "offset", "sequence", "epoch", "load_seq", "arrival")
"""Columns of a kept record that are never null."""

ORDINAL = ("epoch", "sequence")


def mark(records: DataFrame) -> DataFrame:
    """Add the columns that the invariants check to each record of `silver_records`.

    Returns:
        `REQUIRED`, producer, is_undecodable, ordinal (struct of epoch and sequence), in_order (the ordinal; null for a late
        record), previous (the in_order before it by offset, in its load), earlier (the highest ordinal of earlier loads),
        repeats and is_repeated (whether another record of the stream has the same ordinal, before or after it).
    """
    by_sequence = Window.partitionBy(*STREAM).orderBy(*ORDINAL, "offset")
    before = Window.partitionBy(*STREAM, "load_seq").orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    loads_before = Window.partitionBy(*STREAM).orderBy("load_seq").rangeBetween(Window.unboundedPreceding, -1)
    ordinal, no = F.col("ordinal"), F.lit(False)
    return (
        records.select(*REQUIRED, "producer", _is_undecodable(records).alias("is_undecodable"))
        .withColumn("ordinal", F.struct(*ORDINAL))
        .withColumn("in_order", F.when(F.col("arrival") == IN_ORDER, ordinal))
        .withColumn("previous", F.last("in_order", ignorenulls=True).over(before))
        .withColumn("earlier", F.max(F.when(F.col("load_seq").isNotNull(), ordinal)).over(loads_before))
        .withColumn("repeats", F.coalesce(F.lag("ordinal").over(by_sequence) == ordinal, no))
        .withColumn("is_repeated", F.coalesce(F.lead("ordinal").over(by_sequence) == ordinal, no))
    )


def silver_facts(records: DataFrame) -> DataFrame:
    """Count Silver's rows of each stream and load, in one shuffle of narrow rows.

    Grain: a stream and load. Columns: topic, partition, producer, load_seq, and (bigint): rows; not_increasing, in-order rows
    not above the one before in their load; repeated_keys, rows that repeat a (stream, epoch, sequence); nulls, in required
    columns; undecodable; first and last, the (epoch, sequence) of the first in-order row by offset and of the highest row.
    """
    in_order = F.col("in_order")
    nulls = reduce(add, (F.col(name).isNull().cast("int") for name in REQUIRED))
    return (
        mark(records)
        .groupBy(*STREAM, "load_seq")
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.count_if(in_order <= F.col("previous")).alias("not_increasing"),
            F.count_if("repeats").alias("repeated_keys"),
            F.sum(nulls).alias("nulls"),
            F.count_if("is_undecodable").alias("undecodable"),
            F.min_by(in_order, F.when(in_order.isNotNull(), F.col("offset"))).alias("first"),
            F.max("ordinal").alias("last"),
        )
    )


def bronze_counts(appended: DataFrame) -> DataFrame:
    """Count the records that each Bronze version appended: topic, partition, version and records."""
    return appended.groupBy("topic", "partition", F.col("_commit_version").alias("version")).agg(
        F.count(F.lit(1)).alias("records")
    )


def bronze_offsets(bronze: DataFrame, spans: DataFrame) -> DataFrame:
    """Count Bronze's distinct offsets in each range. Nothing else can be counted once its versions are gone.

    `spans` has topic, partition, load_seq, above (bigint; null for no lower bound) and up_to (inclusive).
    """
    within = (
        (bronze["topic"] == spans["topic"])
        & (bronze["partition"] == spans["partition"])
        & (bronze["offset"] > F.coalesce(spans["above"], F.lit(-1)))
        & (bronze["offset"] <= spans["up_to"])
    )
    place = (bronze["topic"], bronze["partition"], spans["load_seq"])
    found = bronze.join(F.broadcast(spans), on=within, how="inner").select(*place, bronze["offset"])
    return found.groupBy("topic", "partition", "load_seq").agg(F.count_distinct("offset").alias("records"))


def later_again(ends: DataFrame, *, sent: DataFrame, kept: DataFrame) -> DataFrame:
    """Find the streams and loads whose duplicates all have later timestamps than their originals.

    `ends` are duplicates, with stream, load_seq, epoch, offset and sequence; `sent` are rows of `bronze_records`, `kept` of
    `silver_records`. A duplicate without an original in `kept` is not compared.
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


def _is_undecodable(records: DataFrame) -> Column:
    if "payload" not in records.columns:
        return F.lit(False)
    return F.col("payload").isNull() & F.col("value").isNotNull()
