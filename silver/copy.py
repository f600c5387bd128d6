"""The wide copy: the accepted records of a planned range, as Silver keeps them. No wide row is shuffled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse import frames
from lakehouse.contracts.silver import IN_ORDER, STREAM
from silver.extract import decode, extract

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from silver.plan import Plan
    from silver.rules import Rules

_BUCKET = 256
"""Offsets per bucket: a record is compared with the spans of its bucket only, found by hash."""


def accepted(spark: SparkSession, records: DataFrame, plan: Plan) -> DataFrame:
    """The records of a planned range that the plan accepts.

    Grain: a record, once. Columns: those of `silver_records`.

    Args:
        spark: The session.
        records: The range's Bronze records, whole.
        plan: The plan; what it rejects is left out, by offset span and stream.
    """
    if plan.replayed:
        records = _once(spark, records, plan)
    rows = extract(records, plan.rules)
    if plan.rejects.num_rows:
        rejects = _bucketed(spark.createDataFrame(plan.rejects.select([*STREAM, "first_offset", "last_offset"])))
        rows = rows.join(F.broadcast(rejects), on=_is_within(rows, rejects, plan.rules), how="left_anti")
    return rows.withColumns(
        {"arrival": F.lit(IN_ORDER), "load_seq": F.lit(plan.load_seq).cast("bigint"), **_payload(plan.rules)}
    )


def _payload(rules: Rules) -> dict[str, Column]:
    return {"payload": decode(rules.payload)} if rules.payload else {}


def _once(spark: SparkSession, records: DataFrame, plan: Plan) -> DataFrame:
    """Keep one copy of what Bronze holds twice. Only the spans with such records are shuffled."""
    columns = "topic string, partition int, first_offset bigint, last_offset bigint"
    spans = _bucketed(frames.of_tuples(spark, plan.replayed, columns))
    is_twice = _is_in_span(records, spans)
    twice = records.join(F.broadcast(spans), on=is_twice, how="left_semi").dropDuplicates(["topic", "partition", "offset"])
    return records.join(F.broadcast(spans), on=is_twice, how="left_anti").unionByName(twice)


def _bucketed(spans: DataFrame) -> DataFrame:
    """A row per span and bucket that it touches, so that a hash join finds the spans of a record."""
    first, last = F.col("first_offset"), F.col("last_offset")
    return spans.withColumn("bucket", F.explode(F.sequence(F.floor(first / _BUCKET), F.floor(last / _BUCKET))))


def _is_in_span(records: DataFrame, spans: DataFrame) -> Column:
    return (
        (records["topic"] == spans["topic"])
        & (records["partition"] == spans["partition"])
        & (F.floor(records["offset"] / _BUCKET) == spans["bucket"])
        & records["offset"].between(spans["first_offset"], spans["last_offset"])
    )


def _is_within(rows: DataFrame, rejects: DataFrame, rules: Rules) -> Column:
    """Whether a record is in a reject's span: of its stream, since producers share a partition's offsets."""
    in_span = _is_in_span(rows, rejects)
    return in_span & rows["producer"].eqNullSafe(rejects["producer"]) if rules.producer else in_span
