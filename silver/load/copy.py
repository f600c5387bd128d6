"""Copies the kept records of a planned range, in Silver's columns. Shuffles wide rows only where Bronze has replays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakehouse.contracts.silver import IN_ORDER, LATE
from lakehouse.spark import bitmaps, frames, pruning
from silver.extract.columns import from_bytes, sequenced
from silver.extract.payload import decoded, with_schemas

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.run.context import Run
    from silver.rules import Rules
    from silver.state.plan import Plan

_NUMBERS = {"first_offset": "offset", "first_sequence": "sequence"}
"""The columns for the offset and sequence of a single-record reject, and their names in Silver."""


def kept(spark: SparkSession, records: DataFrame, plan: Plan) -> DataFrame:
    """Return the Bronze records of a planned range that Silver keeps: accepted ones, and late ones if the policy accepts them.

    Grain: one row per record. Columns: those of `silver_records`.
    """
    if plan.replayed is not None:
        twice = bitmaps.join(spark, records, plan.replayed, "left_semi").dropDuplicates(["topic", "partition", "offset"])
        records = bitmaps.join(spark, records, plan.replayed, "left_anti").unionByName(twice)
    rows = plan.watermarks.in_declared_epochs(spark, sequenced(records, plan.rules.of_sequences))
    if plan.out is not None:
        rows = bitmaps.join(spark, rows, plan.out, "left_anti")
    if plan.late is not None:
        rows = bitmaps.join(spark, rows, plan.late, "left")
        rows = rows.withColumn("arrival", F.when(rows["block"].isNotNull(), LATE).otherwise(IN_ORDER)).drop("block")
    else:
        rows = rows.withColumn("arrival", F.lit(IN_ORDER))
    return _completed(rows, plan, plan.rules)


def released(spark: SparkSession, run: Run, bronze: DataFrame, plan: Plan) -> DataFrame:
    """Return Bronze's records that a release takes out of quarantine, with the stream and sequence of their decision.

    Grain: a Bronze row; a record that Bronze holds twice comes twice. Columns: those of `silver_records`.
    """
    places = frames.of_arrow(spark, plan.settled.select(["topic", "partition", "producer", "epoch", *_NUMBERS]))
    near = from_bytes(bronze.where(pruning.offset_filter(plan.settled)))
    rows = near.join(F.broadcast(places.withColumnsRenamed(_NUMBERS)), on=["topic", "partition", "offset"], how="inner")
    rules = with_schemas(spark, run, rows, plan.rules) if plan.rules.decodes else plan.rules
    return _completed(rows.withColumn("arrival", F.lit(LATE)), plan, rules)


def _completed(rows: DataFrame, plan: Plan, rules: Rules) -> DataFrame:
    """Add `load_seq`, the decoded payload, and `erased` without what was extracted: Silver's other columns have that."""
    erased = F.when(F.col("erased").isNotNull(), F.struct("erased.load_seq", "erased.up_to_offset"))
    rows = rows.withColumns({"load_seq": F.lit(plan.load_seq).cast("bigint"), "erased": erased})
    return decoded(rows, rules) if rules.decodes else rows
