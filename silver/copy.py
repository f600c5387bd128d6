"""The wide copy: the records of a planned range that are kept, as Silver keeps them. No wide row is shuffled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse import frames
from lakehouse.contracts.silver import IN_ORDER, LATE
from silver import spans
from silver.extract import decode, extract

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from silver.plan import Plan
    from silver.rules import Rules


def kept(spark: SparkSession, records: DataFrame, plan: Plan) -> DataFrame:
    """The records of a planned range that Silver takes: the accepted ones, and by policy the late ones.

    Grain: a record, once. Columns: those of `silver_records`.

    Args:
        spark: The session.
        records: The range's Bronze records, whole.
        plan: The plan; what it rejects is left out, by offset span and stream.
    """
    if plan.replayed:
        records = _once(spark, records, plan)
    rows = extract(records, plan.rules)
    by_producer = plan.rules.producer is not None
    if plan.rejects.num_rows:
        rejects = spans.of_segments(spark, plan.rejects)
        rows = rows.join(F.broadcast(rejects), on=spans.is_within(rows, rejects, by_producer=by_producer), how="left_anti")
    if plan.late.num_rows:
        late = spans.of_segments(spark, plan.late)
        joined = rows.join(F.broadcast(late), on=spans.is_within(rows, late, by_producer=by_producer), how="left")
        arrival = F.when(late["bucket"].isNotNull(), LATE).otherwise(IN_ORDER)
        rows = joined.select(*(rows[name] for name in rows.columns), arrival.alias("arrival"))
    else:
        rows = rows.withColumn("arrival", F.lit(IN_ORDER))
    return rows.withColumns({"load_seq": F.lit(plan.load_seq).cast("bigint"), **_payload(plan.rules)})


def _payload(rules: Rules) -> dict[str, Column]:
    return {"payload": decode(rules.payload)} if rules.payload else {}


def _once(spark: SparkSession, records: DataFrame, plan: Plan) -> DataFrame:
    """Keep one copy of what Bronze holds twice. Only the spans with such records are shuffled."""
    columns = "topic string, partition int, first_offset bigint, last_offset bigint"
    replayed = spans.bucketed(frames.of_tuples(spark, plan.replayed, columns))
    is_twice = spans.is_within(records, replayed, by_producer=False)
    twice = records.join(F.broadcast(replayed), on=is_twice, how="left_semi").dropDuplicates(["topic", "partition", "offset"])
    return records.join(F.broadcast(replayed), on=is_twice, how="left_anti").unionByName(twice)
