"""Erasure: removes key, value and headers of a key's records from every table of Bronze and Silver, as a separate load.

Rows stay; their contents are removed. Bronze keeps the extracted values, so a new decision gives the same result. A repeat
finds the same records, by the key's hash or by the number of the load that erased them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.contracts.bronze import BRONZE
from lakehouse.contracts.silver import COLLISION, PLACE
from lakehouse.delta import tables
from lakehouse.protocol import cutover_fence
from lakehouse.run.crash_points import crash_point
from lakehouse.spark.pruning import at
from lakehouse.table import BRONZE_RECORDS, SILVER_RECORDS, SILVER_REJECTS, Table
from silver.extract.columns import sequenced
from silver.extract.payload import with_schemas
from silver.state.tables import latest_bronze, merge_rows
from silver.suspects.compare import ERASED

if TYPE_CHECKING:
    from lakehouse.run.context import Run
    from silver.state.ledger import Plan
    from silver.state.request import Erase
    from silver.state.watermarks import Watermarks

_PLACES = "tidemark_erased"
_APPEND_ONLY = "delta.appendOnly"


def has_key(erase: Erase) -> Column:
    """Whether a record has the key."""
    topic = F.col("topic")
    is_of_topic = topic == erase.topic
    if erase.is_of_all_incarnations:
        is_of_topic = is_of_topic | topic.startswith(f"{erase.topic}@")
    salted = F.concat(F.unhex(F.lit(erase.salt)), F.col("key"))
    return is_of_topic & (F.sha2(salted, 256) == erase.key_sha256)


def records(bronze: DataFrame, erase: Erase, watermarks: Watermarks, load_seq: int) -> DataFrame:
    """Return Bronze's decided records of the key, or erased by this load, with `up_to_offset` of their partition."""
    is_meant = has_key(erase) | (F.col("erased.load_seq") == (load_seq if erase.load_seq is None else erase.load_seq))
    decided = ((place, last) for place, last in watermarks.last_offsets.items() if erase.is_of(place[0]))
    last_of = [F.when(F.expr(at(*place, "TRUE")), F.lit(last).cast("bigint")) for place, last in decided]
    up_to = F.coalesce(*last_of, F.lit(None).cast("bigint"))
    return bronze.withColumn("up_to_offset", up_to).where(is_meant & (F.col("offset") <= F.col("up_to_offset")))


def erase(spark: SparkSession, run: Run, plan: Plan, request: Erase) -> None:
    """Erase the records, in Bronze last because they are found there; not in a shadow's Bronze, see `erase_in_bronze`.

    Commits to silver_rejects, silver_records and bronze_records, each in an idempotent MERGE. AnotherWriterError if another run
    wrote to the same place, UndoneError if a restore or rebuild has rolled back the load.
    """
    load_seq = F.lit(request.load_seq or plan.load_seq).cast("bigint")
    meant = records(latest_bronze(spark, run), request, plan.watermarks, plan.load_seq)
    places = meant.select(*PLACE, "up_to_offset", load_seq.alias("load_seq")).distinct()
    places = cutover_fence.guarded(places, run, plan.load_seq)
    _in_rejects(run.table(SILVER_REJECTS), places)
    crash_point("erase.rejects")
    _in_silver(spark, run.table(SILVER_RECORDS), places, f"found.erased IS NULL AND found.load_seq < {plan.load_seq}")
    crash_point("erase.silver")
    if run.lakehouse.shadow is None:
        erase_in_bronze(spark, run, plan, request)
    run.report.event("silver.erased", load_seq=plan.load_seq, records=plan.count("erased"))
    crash_point("erase.bronze")


def erase_in_bronze(spark: SparkSession, run: Run, plan: Plan, request: Erase) -> None:
    """Erase the records in Bronze, the last step of an erasure. Commits to bronze_records."""
    rejects = spark.read.table(run.table(SILVER_REJECTS).sql).where(F.col("class") == COLLISION)
    collisions = rejects.select("topic", "partition", F.col("first_offset").alias("offset"), F.lit(True).alias("is_collision"))
    meant = records(latest_bronze(spark, run), request, plan.watermarks, plan.load_seq)
    whole = meant.where(F.col("erased").isNull())
    left = sequenced(whole, with_schemas(spark, run, whole, plan.rules))
    kept = left.join(F.broadcast(collisions.distinct()), on=list(PLACE), how="left")
    cutover_fence.require_not_rolled_back(spark, run, plan.load_seq)  # before append-only is lifted
    left_ones = cutover_fence.guarded(kept.dropDuplicates(list(PLACE)), run, plan.load_seq)
    _in_bronze(spark, run.table(BRONZE_RECORDS), left_ones, request.load_seq or plan.load_seq)


def erase_in_shadow(spark: SparkSession, run: Run, shadow: Run) -> None:
    """Erase in a shadow what is erased in Bronze: a replay reads old versions. Commits to silver_rejects and silver_records."""
    erased = spark.read.table(run.table(BRONZE_RECORDS).sql).where("erased IS NOT NULL")
    places = erased.select(*PLACE, "erased.up_to_offset", "erased.load_seq").distinct()
    _in_rejects(shadow.table(SILVER_REJECTS), places)
    _in_silver(spark, shadow.table(SILVER_RECORDS), places, "found.erased IS NULL")


def _in_rejects(table: Table, places: DataFrame) -> None:
    """Overwrite the hashes of key and value, which would confirm a guess."""
    left = f"found.content_sha256 IS NOT NULL AND NOT startswith(found.content_sha256, '{ERASED}')"
    is_collision = f"CASE WHEN found.class = '{COLLISION}' THEN ':collision' ELSE '' END"
    emptied = f"content_sha256 = concat('{ERASED}', place.up_to_offset, {is_collision})"
    _update(table, places, left, emptied, offset="first_offset")


def _in_silver(spark: SparkSession, table: Table, places: DataFrame, left: str) -> None:
    names = [name for name in ("key", "value", "headers", "payload") if name in spark.read.table(table.sql).columns]
    erased = "erased = named_struct('load_seq', place.load_seq, 'up_to_offset', place.up_to_offset)"
    emptied = ", ".join([*(f"{name} = NULL" for name in names), erased])
    _update(table, places, left, emptied)


def _in_bronze(spark: SparkSession, table: Table, left: DataFrame, load_seq: int) -> None:
    """Erase rows of Bronze; its append-only property is lifted for this one MERGE.

    If no row is left to change, only sets the property again, in case an earlier attempt died before that.
    """
    kept_on = {_APPEND_ONLY: BRONZE.properties[_APPEND_ONLY]}
    if left.limit(1).count() == 0:
        if tables.properties(spark, table).get(_APPEND_ONLY) != kept_on[_APPEND_ONLY]:
            tables.set_properties(spark, table, kept_on)
        return
    kept = ("up_to_offset", "producer", "epoch", "sequence", "problem")
    is_collision = F.coalesce("is_collision", F.lit(False)).alias("is_collision")
    named = ", ".join(f"'{name}', place.{name}" for name in (*kept, "is_collision"))
    emptied = f"key = NULL, value = NULL, headers = NULL, erased = named_struct('load_seq', {load_seq}L, {named})"
    tables.set_properties(spark, table, {_APPEND_ONLY: "false"})
    try:
        _update(table, left.select(*PLACE, *kept, is_collision), "found.erased IS NULL", emptied)
    finally:  # even if a restore has rolled back the erasure meanwhile, because no run would then repeat it
        tables.set_properties(spark, table, kept_on)


def _update(table: Table, places: DataFrame, left: str, emptied: str, *, offset: str = "offset") -> None:
    """Empty the rows at these offsets in one MERGE; commit nothing if there are no offsets."""
    if places.limit(1).count() == 0:
        return
    statement = f"""
        MERGE INTO {table.sql} AS found USING {_PLACES} AS place
        ON found.topic = place.topic AND found.partition = place.partition AND found.{offset} = place.offset AND {left}
        WHEN MATCHED THEN UPDATE SET {emptied}
        """
    merge_rows(places, _PLACES, statement, table)
