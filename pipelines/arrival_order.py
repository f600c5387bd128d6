"""The order in which records arrived in Bronze, and the order in which Silver keeps them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakehouse.contracts.silver import COLLISION, STREAM, stream_of
from lakehouse.delta import small_tables, tables
from lakehouse.table import BRONZE_RECORDS, SILVER_RECORDS, SILVER_REJECTS
from silver.audit.arrival_order import Order, arrival_orders
from silver.extract.columns import NARROW, narrow, sequenced
from silver.extract.payload import with_schemas
from silver.load import bronze_range
from silver.model import LIMITS
from silver.rules import Rules
from silver.state.tables import last_rules

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.silver import Stream
    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Settings
    from lakehouse.table import Table

_MOST_BLOCKS = 1_000
_CREATE_TIME = 0


def orders(spark: SparkSession, run: Run, settings: Settings, *, topic: str | None = None) -> dict[str, list[Order]]:
    """Return the arrival order of each stream: `bronze`, of all records read, and `silver`, of all records kept.

    With `topic`, reads only that topic.

    Raises:
        TableMissingError: Bronze has not been written yet.
    """
    rules = Rules.of(settings).keeping(last_rules(spark, run)).of_sequences
    table = run.table(BRONZE_RECORDS)
    raw = tables.read(spark, table, version=tables.version(spark, table))
    rules = with_schemas(spark, run, raw, rules)
    found = {"bronze": _orders(narrow(raw, rules), topic), "silver": list[Order]()}
    _note_retries(sequenced(raw, rules), found["bronze"])
    for order in found["bronze"]:
        order.is_contiguous = rules.policy(order.stream[0]).contiguous
    if tables.exists(spark, run.table(SILVER_RECORDS)):
        kept = spark.read.table(run.table(SILVER_RECORDS).sql).withColumn("problem", F.lit(None).cast("string"))
        found["silver"] = _orders(kept, topic)
    if tables.exists(spark, run.table(SILVER_REJECTS)):
        _count_collisions(spark, run.table(SILVER_REJECTS), found["bronze"])
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
    stamps: dict[tuple[Stream, int, int], list[tuple[int, object]]] = {}
    for row in copies.select(*STREAM, "epoch", "sequence", "offset", "timestamp", "timestamp_type").collect():
        if row["timestamp"] is not None and row["timestamp_type"] == _CREATE_TIME:
            stamps.setdefault((stream_of(row), row["epoch"], row["sequence"]), []).append((row["offset"], row["timestamp"]))
    for order, place in again:
        jump = order.jumps[place]
        by_offset = dict(stamps.get((order.stream, jump.epoch, jump.sequence), []))
        if by_offset and jump.offset in by_offset and min(by_offset) < jump.offset:
            order.jumps[place] = replace(jump, is_retry=by_offset[jump.offset] == by_offset[min(by_offset)])


def _count_collisions(spark: SparkSession, rejects: Table, orders: list[Order]) -> None:
    found = small_tables.few(rejects, [*STREAM, "records"], [{"class": (COLLISION, COLLISION)}])
    if found is None:
        collisions = spark.read.table(rejects.sql).where(F.col("class") == COLLISION)
        found = collisions.groupBy(*STREAM).agg(F.sum("records").alias("records")).toArrow()
    by_stream: Counter[Stream] = Counter()
    for row in found.to_pylist():
        by_stream[stream_of(row)] += row["records"]
    for order in orders:
        order.collisions = by_stream[order.stream]


def _orders(records: DataFrame, topic: str | None) -> list[Order]:
    wanted = records if topic is None else records.where(F.col("topic") == topic)
    return arrival_orders(bronze_range.keys_in_chunks(wanted.select(*NARROW), LIMITS.records))
