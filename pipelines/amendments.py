"""Changes to published Gold that erasures and restores require. Any later run finishes what an earlier one left.

The ledger records each request, so Gold may still have to follow any load that is finished and not published. Each change is
idempotent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.evidence.snapshot import last_published
from gold import amend
from gold.sql_models import refresh_models
from gold.undo import withdraw
from lakehouse.contracts.silver import ERASE, RESTORE
from lakehouse.delta import small_tables, tables
from lakehouse.table import GOLD_RECORDS, GOLD_STREAM_HEALTH, SILVER_LOADS
from silver.state import watermarks
from silver.state.request import Request

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Settings


def amend_gold(spark: SparkSession, run: Run, settings: Settings, *, after_load_seq: int | None = None) -> int | None:
    """Remove from Gold what finished loads erased or rolled back since its last publish, and rebuild the models.

    Commits to Gold's tables, see `gold.amend` and `gold.undo`, and to the models.

    Args:
        spark: The session.
        run: The run.
        settings: The pipeline's settings.
        after_load_seq: The last load that Gold has published, if known. Loads rejected since then count as not published: Gold
            still follows what they erased or rolled back.

    Returns:
        The last such load, None if there is none. The rebuilt models name it.

    Raises:
        ModelError: A model failed; the next run tries again.
    """
    after = last_published(spark, run) if after_load_seq is None else after_load_seq
    loads = small_tables.read(spark, run.table(SILVER_LOADS), ("load_seq", "kind", "request"), start=("load_seq", after + 1))
    asked = sorted({(row["load_seq"], row["request"]) for row in loads if row["kind"] in (ERASE, RESTORE)})
    if not asked or not tables.exists(spark, run.table(GOLD_STREAM_HEALTH)):
        return None
    finished = watermarks.read(spark, run).load_seq
    known = max(row["load_seq"] for row in loads)
    done = [(load_seq, Request.from_json(text)) for load_seq, text in asked if load_seq <= finished]
    for load_seq, request in done:
        if request.erase is not None:
            erased = request.erase
            names = (erased.topic, erased.key_sha256, erased.salt, erased.is_of_all_incarnations)
            amend.remove_key(spark, run, amend.ErasedKey(*names, before_load_seq=load_seq))
        if request.swap is not None:
            keep_to, undo_to = request.swap.keep_to, request.swap.undo_to
            withdraw(spark, run, keep_to=keep_to, undo_to=undo_to, by_load_seq=known)
            amend.undo_decisions(spark, run, keep_to=keep_to, undo_to=undo_to)
    if not done:
        return None
    last: int = done[-1][0]
    refresh_models(spark, run, settings.gold, amended_by=last)
    return last


def withdraw_unpublished(spark: SparkSession, run: Run, settings: Settings, *, first: int, last: int) -> None:
    """Remove what a publish that died brought of some loads, before the loads are rejected.

    A gate run may have let them out; then more loads came, and the gate run over all of them failed. Commits to Gold's tables
    and to the models, if there is anything to remove.

    Args:
        spark: The session.
        run: The run.
        settings: The pipeline's settings.
        first: The first of the loads; none from it on is published.
        last: The last of them.
    """
    if small_tables.highest(spark, run.table(GOLD_RECORDS), "load_seq") >= first:
        withdraw(spark, run, keep_to=first - 1, undo_to=last, by_load_seq=last)
        refresh_models(spark, run, settings.gold, amended_by=last)
