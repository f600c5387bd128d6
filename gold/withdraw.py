"""Gold back to an earlier load, where Silver was restored: what later loads had brought goes, in every table of Gold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gold import models
from gold.newest import newest
from lakehouse import delta, fence
from lakehouse.crash import crash_point
from lakehouse.table import GOLD_LATEST, GOLD_RECORDS, GOLD_STREAM_HEALTH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.run import Run

_HELD = "tidemark_held"


def withdraw(spark: SparkSession, run: Run, *, keep_to: int, undo_to: int, by_load_seq: int) -> None:
    """Take back what the loads after one brought. Done again it changes nothing; where there is no Gold it does nothing.

    A key whose latest record goes gets the latest of those that stay. Commits to gold_records, gold_latest and
    gold_stream_health, in this order; the last one says what is published.

    Args:
        spark: The session.
        run: The run.
        keep_to: The last load that stays.
        undo_to: The last load that goes.
        by_load_seq: The load that takes them back: where another restore or rebuild has come since, that one decides.

    Raises:
        AnotherWriterError: Another run publishes at the same time.
        UndoneError: Another restore or rebuild was claimed since.
    """
    health = run.table(GOLD_STREAM_HEALTH)
    if not delta.exists(spark, health):
        return
    undone = f"load_seq > {keep_to} AND load_seq <= {undo_to}"
    records, latest = run.table(GOLD_RECORDS), run.table(GOLD_LATEST)
    delta.delete(spark, records, undone)
    crash_point("gold.withdrawn")
    delta.delete(spark, latest, undone)
    held = delta.read(spark, records, version=delta.version(spark, records))
    fence.guarded(newest(spark, held), run, by_load_seq).createOrReplaceTempView(_HELD)
    try:
        delta.merge(spark, models.merge_latest(latest.sql, _HELD), latest)
    finally:
        spark.catalog.dropTempView(_HELD)
    delta.delete(spark, health, undone)
    run.report.event("gold.withdrawn", keep_to=keep_to, undo_to=undo_to)
