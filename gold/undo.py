"""Roll Gold back to an earlier load, for example after a restore of Silver: remove what later loads brought."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gold.latest import is_kept, make_anew
from lakehouse.delta import tables
from lakehouse.run.crash_points import crash_point
from lakehouse.table import GOLD_LATEST, GOLD_LATEST_BY_STREAM, GOLD_RECORDS, GOLD_STREAM_HEALTH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run


def withdraw(spark: SparkSession, run: Run, *, keep_to: int, undo_to: int, by_load_seq: int) -> None:
    """Remove what the loads after `keep_to` brought. A repeat changes nothing; without Gold, it does nothing.

    A key that loses its latest record gets the latest of those that stay. Commits to gold_records, gold_latest,
    gold_latest_by_stream and gold_stream_health, in this order; the last one says what is published.

    Args:
        spark: The session.
        run: The run.
        keep_to: The last load that stays.
        undo_to: The last load that is rolled back.
        by_load_seq: The load that rolls them back; a restore or rebuild claimed after it takes precedence.

    Raises:
        AnotherWriterError: Another run publishes at the same time.
        UndoneError: Another restore or rebuild was claimed since.
    """
    health = run.table(GOLD_STREAM_HEALTH)
    if not tables.exists(spark, health):
        return
    undone = f"load_seq > {keep_to} AND load_seq <= {undo_to}"
    tables.delete(spark, run.table(GOLD_RECORDS), undone)
    crash_point("gold.withdrawn")
    if not is_kept(spark, run) or any(
        not spark.read.table(run.table(name).sql).where(undone).isEmpty() for name in (GOLD_LATEST, GOLD_LATEST_BY_STREAM)
    ):
        make_anew(spark, run, up_to=by_load_seq)
    tables.delete(spark, health, undone)
    run.report.event("gold.withdrawn", keep_to=keep_to, undo_to=undo_to)
