"""The wide copy: a planned range's kept records in Silver's columns. Wide rows are shuffled only where Bronze has replays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.contracts.silver import IN_ORDER, LATE, STREAM
from lakehouse.spark import frames, interval_join
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
    """Return the records of a planned range that Silver keeps: the accepted ones, and by policy the late ones.

    Grain: a record, once. Columns: those of `silver_records`.

    Args:
        spark: The session.
        records: The range's Bronze records, with all columns.
        plan: The plan; its rejects are left out, by offset range and stream.
    """
    if plan.replayed:
        records = _once(spark, records, plan)
    rows = plan.watermarks.in_declared_epochs(spark, sequenced(records, plan.rules.of_sequences))
    by_producer = plan.rules.has_producers
    if plan.rejects.num_rows:
        rows = interval_join.outside(spark, rows, plan.rejects, by_producer=by_producer)
    if plan.late.num_rows:
        late = interval_join.bucketed(frames.of_arrow(spark, plan.late.select([*STREAM, "first_offset", "last_offset"])))
        joined = rows.join(F.broadcast(late), on=interval_join.is_within(rows, late, by_producer=by_producer), how="left")
        arrival = F.when(late["bucket"].isNotNull(), LATE).otherwise(IN_ORDER)
        rows = joined.select(*(rows[name] for name in rows.columns), arrival.alias("arrival"))
    else:
        rows = rows.withColumn("arrival", F.lit(IN_ORDER))
    return _completed(rows, plan)


def _completed(rows: DataFrame, plan: Plan) -> DataFrame:
    return _with_payload(rows.withColumns({"load_seq": F.lit(plan.load_seq).cast("bigint"), **_erased()}), plan.rules)


def released(spark: SparkSession, run: Run, bronze: DataFrame, plan: Plan) -> DataFrame:
    """Return the records that a release takes out of quarantine, with the stream and sequence they were decided by.

    Grain: a Bronze row; a record that Bronze holds twice comes twice. Columns: those of `silver_records`.

    Args:
        spark: The session.
        run: The run.
        bronze: Bronze's records, with all columns.
        plan: The plan of the release.
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
    """The first and last offset of each partition, for Delta to skip other files by their statistics."""
    grouped = rows.group_by(["topic", "partition"]).aggregate([("first_offset", "min"), ("first_offset", "max")])
    names = ("topic", "partition", "first_offset_min", "first_offset_max")
    return [tuple(row[name] for name in names) for row in grouped.to_pylist()]


def _with_payload(rows: DataFrame, rules: Rules) -> DataFrame:
    return decoded(rows, rules) if rules.decodes else rows


def _erased() -> dict[str, Column]:
    """The column `erased` as Silver keeps it; what was extracted from the record is in Silver's other columns."""
    erased = F.col("erased")
    return {"erased": F.when(erased.isNotNull(), F.struct(erased["load_seq"], erased["up_to_offset"]))}


def _once(spark: SparkSession, records: DataFrame, plan: Plan) -> DataFrame:
    """Keep one copy of records that Bronze holds twice. Shuffles only the offset ranges with such records."""
    columns = "topic string, partition int, first_offset bigint, last_offset bigint"
    replayed = interval_join.bucketed(frames.of_tuples(spark, plan.replayed, columns))
    is_twice = interval_join.is_within(records, replayed, by_producer=False)
    twice = records.join(F.broadcast(replayed), on=is_twice, how="left_semi").dropDuplicates(["topic", "partition", "offset"])
    return records.join(F.broadcast(replayed), on=is_twice, how="left_anti").unionByName(twice)
