"""The order in which records arrived in Bronze, and the order in which Silver keeps them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakehouse.contracts.silver import COLLISION, STREAM, stream_of
from lakehouse.delta import tables
from lakehouse.table import SILVER_RECORDS, SILVER_REJECTS
from silver.audit.arrival_order import Order, arrival_orders
from silver.extract.columns import NARROW, narrow, sequenced
from silver.extract.payload import with_schemas
from silver.load import bronze_range
from silver.model import LIMITS
from silver.rules import Rules
from silver.state.tables import last_rules, latest_bronze

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.silver import Stream
    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Settings

_MOST_BLOCKS = 1_000
_CREATE_TIME = 0


def orders(spark: SparkSession, run: Run, settings: Settings, *, topic: str | None = None) -> dict[str, list[Order]]:
    """Return the arrival order of each stream: `bronze`, of all records read, and `silver`, of all records kept.

    With `topic`, reads only that topic.

    Raises:
        TableMissingError: Bronze has not been written yet.
    """
    rules = Rules.of(settings).keeping(last_rules(spark, run)).of_sequences
    raw = latest_bronze(spark, run)
    rules = with_schemas(spark, run, raw, rules)
    found = {"bronze": _orders(narrow(raw, rules), topic), "silver": list[Order]()}
    _note_retries(sequenced(raw, rules), found["bronze"])
    for order in found["bronze"]:
        order.is_contiguous = rules.policy(order.stream[0]).contiguous
    if tables.exists(spark, run.table(SILVER_RECORDS)):
        kept = spark.read.table(run.table(SILVER_RECORDS).sql).withColumn("problem", F.lit(None).cast("string"))
        found["silver"] = _orders(kept, topic)
    if tables.exists(spark, run.table(SILVER_REJECTS)):
        collisions = spark.read.table(run.table(SILVER_REJECTS).sql).where(F.col("class") == COLLISION)
        counted = collisions.groupBy(*STREAM).agg(F.sum("records").alias("records")).collect()
        by_stream = {stream_of(row): row["records"] for row in counted}
        for order in found["bronze"]:
            order.collisions = by_stream.get(order.stream, 0)
    return found


def _note_retries(records: DataFrame, orders: list[Order]) -> None:
    """Set for each repeated block whether it has the timestamps of the first copy.

    A client that resends a batch keeps its timestamps; an application creates new ones. Leaves the value unset if the broker
    sets the timestamps.
    """
    again = [(order, place) for order in orders for place, jump in enumerate(order.jumps) if jump.block][:_MOST_BLOCKS]
    if not again:
        return
    topics = {order.stream[0] for order, _ in again}
    sequences = {order.jumps[place].sequence for order, place in again}
    copies = records.where(F.col("topic").isin(*topics) & F.col("sequence").isin(*sequences) & F.col("problem").isNull())
    stamped = copies.where(F.col("timestamp").isNotNull() & (F.col("timestamp_type") == _CREATE_TIME))
    stamps: dict[tuple[Stream, int, int], dict[int, object]] = {}
    for row in stamped.select(*STREAM, "epoch", "sequence", "offset", "timestamp").collect():
        stamps.setdefault((stream_of(row), row["epoch"], row["sequence"]), {})[row["offset"]] = row["timestamp"]
    for order, place in again:
        jump = order.jumps[place]
        by_offset = stamps.get((order.stream, jump.epoch, jump.sequence), {})
        if jump.offset in by_offset and min(by_offset) < jump.offset:
            order.jumps[place] = replace(jump, is_retry=by_offset[jump.offset] == by_offset[min(by_offset)])


def _orders(records: DataFrame, topic: str | None) -> list[Order]:
    wanted = records if topic is None else records.where(F.col("topic") == topic)
    return arrival_orders(bronze_range.keys_in_chunks(wanted.select(*NARROW), LIMITS.records))
