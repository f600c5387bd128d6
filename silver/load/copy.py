"""Copies the kept records of a planned range, in Silver's columns. Shuffles wide rows only where Bronze has replays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.contracts.silver import IN_ORDER, LATE
from lakehouse.spark import bitmaps, frames, interval_join
from silver.extract.columns import from_bytes, sequenced
from silver.extract.payload import decoded
from silver.extract.schemas import with_schemas

if TYPE_CHECKING:
    import pyarrow as pa
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
    return _completed(rows, plan)


def _completed(rows: DataFrame, plan: Plan) -> DataFrame:
    return _with_payload(rows.withColumns({"load_seq": F.lit(plan.load_seq).cast("bigint"), **_erased()}), plan.rules)


def released(spark: SparkSession, run: Run, bronze: DataFrame, plan: Plan) -> DataFrame:
    """Return Bronze's records that a release takes out of quarantine, with the stream and sequence of their decision.

    Grain: a Bronze row; a record that Bronze holds twice comes twice. Columns: those of `silver_records`.
    """
    places = frames.of_arrow(spark, plan.settled.select(["topic", "partition", "producer", "epoch", *_NUMBERS]))
    within = interval_join.any_of(
        interval_join.at(topic, partition, f"offset BETWEEN {first} AND {last}")
        for topic, partition, first, last in _reach(plan.settled)
    )
    named = places.withColumnsRenamed(_NUMBERS)
    rows = from_bytes(bronze.where(within)).join(F.broadcast(named), on=["topic", "partition", "offset"], how="inner")
    columns = {"arrival": F.lit(LATE), "load_seq": F.lit(plan.load_seq).cast("bigint")}
    rules = with_schemas(spark, run, rows, plan.rules) if plan.rules.decodes else plan.rules
    return _with_payload(rows.withColumns({**columns, **_erased()}), rules)


def _reach(rows: pa.Table) -> list[tuple[str, int, int, int]]:
    """Return the first and last offset of each partition, so that Delta can skip files by their statistics."""
    grouped = rows.group_by(["topic", "partition"]).aggregate([("first_offset", "min"), ("first_offset", "max")])
    names = ("topic", "partition", "first_offset_min", "first_offset_max")
    return [tuple(row[name] for name in names) for row in grouped.to_pylist()]


def _with_payload(rows: DataFrame, rules: Rules) -> DataFrame:
    return decoded(rows, rules) if rules.decodes else rows


def _erased() -> dict[str, Column]:
    """Return Silver's column `erased`. Values extracted from the record are in Silver's other columns."""
    erased = F.col("erased")
    return {"erased": F.when(erased.isNotNull(), F.struct(erased["load_seq"], erased["up_to_offset"]))}
