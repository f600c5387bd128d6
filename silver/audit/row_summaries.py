"""Small summaries of Silver's tables, each in one pass over few columns. Pure: reads and writes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakehouse.contracts.silver import HELD, IN_ORDER, STREAM
from lakehouse.spark.bitmaps import bit, word

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def kept(records: DataFrame) -> DataFrame:
    """Sum up Silver's rows by stream and load, in the form that `lakehouse.reconcile` expects."""
    ordinal = F.when(F.col("epoch").isNotNull() & F.col("sequence").isNotNull(), F.struct("epoch", "sequence"))
    return records.groupBy(*STREAM, "load_seq").agg(
        F.count(F.lit(1)).alias("rows"),
        F.min(F.when(F.col("arrival") == IN_ORDER, ordinal)).alias("first"),
        F.max(ordinal).alias("last"),
    )


def repeated(records: DataFrame) -> DataFrame:
    """Find the bitmap words of 64 sequences in which Silver has more rows than distinct sequences. Shuffles few rows."""
    words = records.groupBy(*STREAM, "epoch", word("sequence").alias("word")).agg(
        F.count(F.lit(1)).alias("rows"),
        F.bit_count(F.bit_or(bit(F.col("sequence")))).cast("bigint").alias("sequences"),
        F.min("sequence").alias("first_sequence"),
        F.max("sequence").alias("last_sequence"),
    )
    return words.where(~F.col("rows").eqNullSafe(F.col("sequences"))).drop("word")


def rejects(rows: DataFrame, finished: int) -> DataFrame:
    """Sum up `silver_rejects` by stream, load, class, reason and state, as of the last finished load."""
    names = (*STREAM, "load_seq", "class", "reason", "state", "settled_load_seq")
    return as_of(rows, finished).groupBy(*names).agg(F.sum("records").alias("records"))


def as_of(rejects: DataFrame, finished: int) -> DataFrame:
    """Return the rejects of the loads up to `finished`, in their state after that load."""
    is_later = F.coalesce(F.col("settled_load_seq") > finished, F.lit(False))
    known = rejects.where(F.col("load_seq").isNull() | (F.col("load_seq") <= finished))
    return known.withColumns(
        {
            "state": F.when(is_later, F.lit(HELD)).otherwise(F.col("state")),
            "settled_load_seq": F.when(~is_later, F.col("settled_load_seq")),
        }
    )
