"""Classify suspects in Spark if there are many: windows over hashes, so that no value is shuffled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from lakehouse.contracts.silver import COLLISION, DUPLICATE, LATE, STREAM
from lakehouse.spark import interval_join
from silver.suspects.compare_on_driver import ERASED, KEY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def judged(suspects: DataFrame, known: DataFrame) -> DataFrame:
    """Classify each suspect; consecutive duplicates of a block become one row.

    Grain: a block of duplicates, or any other suspect. Columns: those of `silver.suspects.compare_on_driver.judged`.

    Args:
        suspects: A row per suspect with its key, offset, block and `content_sha256`.
        known: The records known before: key, `content_sha256` and `place`, the lower the earlier.
    """
    first = known.groupBy(*as_keys()).agg(F.min_by("content_sha256", "place").alias("known"))
    return _blocks(_with_class(suspects, first))


def _with_class(suspects: DataFrame, known: DataFrame) -> DataFrame:
    by_key = Window.partitionBy(*KEY).orderBy("offset")
    compared = suspects.join(known, on=same_key(suspects, known), how="left").select(
        *(suspects[name] for name in suspects.columns), "known"
    )
    ordered = compared.withColumns(
        {"nth": F.row_number().over(by_key), "first": F.coalesce("known", F.first("content_sha256").over(by_key))}
    )
    return ordered.withColumn(
        "class",
        F.when(F.col("known").isNull() & (F.col("nth") == 1), LATE)
        .when((F.col("content_sha256") == F.col("first")) | _is_after_erasure(), DUPLICATE)
        .otherwise(COLLISION),
    )


def erased(up_to_offset: Column, is_collision: Column) -> Column:
    """The content hash of an erased record: equal to no other under its key, except that of copies erased along with it."""
    return F.concat(F.lit(ERASED), up_to_offset, F.when(is_collision, ":collision").otherwise(""))


def _is_after_erasure() -> Column:
    """See `silver.suspects.compare_on_driver.is_same`."""
    up_to = F.get(F.split("first", ":"), 1).try_cast("bigint")  # `get`: a hash has no second part
    return F.coalesce(F.col("first").startswith(ERASED) & (F.col("offset") > up_to), F.lit(False))


def _blocks(judged: DataFrame) -> DataFrame:
    """Merge consecutive duplicates of a block into one row; every other suspect keeps its own."""
    by_offset = Window.partitionBy(*STREAM, "block").orderBy("offset")
    is_duplicate = F.col("class") == DUPLICATE
    continues = is_duplicate & F.coalesce(F.lag("class").over(by_offset) == DUPLICATE, F.lit(False))
    number = F.sum(F.when(continues, 0).otherwise(1)).over(by_offset.rowsBetween(Window.unboundedPreceding, 0))
    return (
        judged.withColumn("number", number)
        .groupBy(*STREAM, "epoch", "class", "block", "number")
        .agg(
            *interval_join.summed(),
            F.min(F.when(~is_duplicate, F.col("content_sha256"))).alias("content_sha256"),
        )
    )


def same_key(rows: DataFrame, keys: DataFrame) -> Column:
    """Whether a row has the key in the columns of `as_keys`."""
    same = rows["producer"].eqNullSafe(keys["key_producer"])
    for name in KEY:
        if name != "producer":
            same &= rows[name] == keys[f"key_{name}"]
    return same


def as_keys() -> list[Column]:
    """The key columns, renamed: a DataFrame is joined with one that was derived from it."""
    return [F.col(name).alias(f"key_{name}") for name in KEY]
