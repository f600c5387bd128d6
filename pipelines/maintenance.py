"""Maintenance of every table, alongside the pipeline: retention, small files, the files of old versions.

Transaction ids of loads are part of every checkpoint, so they outlive the log. Keeps old versions that a claim or Gold must
still read. On a local root each step holds the root's lock, and a run waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from expectations import gate
from lakehouse.contracts.silver import RETIRE
from lakehouse.delta import maintenance, small_tables
from lakehouse.delta import tables as delta
from lakehouse.errors import AnotherWriterError
from lakehouse.run.lock import locked
from lakehouse.table import (
    BRONZE_RECORDS,
    SILVER_LOADS,
    SILVER_RECORDS,
    SILVER_WATERMARKS,
    TABLE_NAMES,
)
from pipelines.operate import requests
from silver.state.request import RecordFilter, Request

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Maintenance, Settings
    from lakehouse.table import Table

_PATIENCE_SECONDS = 60


def maintain(spark: SparkSession, run: Run, settings: Settings, *, is_dry_run: bool) -> list[dict[str, object]]:
    """Maintain every existing table, including the operator's models.

    Commits to each table separately: properties, OPTIMIZE, VACUUM, each only if needed.

    Returns:
        A row per table: table, files and bytes before and after, removed_files, properties that were set, seconds, and
        `skipped`: the steps left for next time, with reasons. A dry run adds small_files; its files and bytes after are None.
    """
    names = (*TABLE_NAMES, *(model.name for model in settings.gold.models))
    tables = [table for table in map(run.table, names) if delta.exists(spark, table)]
    work = _look if is_dry_run else _maintain
    done = []
    for table in tables:
        done.append(work(spark, run, table, settings.maintenance))
        run.report.event("maintenance.table", **done[-1])
    return done


def retire(spark: SparkSession, run: Run, settings: Settings, *, is_dry_run: bool) -> dict[str, object]:
    """Retire the streams that were quiet for `maintenance.retire_streams_days`; see `silver.requests.planner`.

    Commits to silver_loads and silver_watermarks.

    Returns:
        load_seq, None if there was nothing to do; streams, their number; `skipped`, why the next run must do it, or None.
    """
    days = settings.maintenance.retire_streams_days
    nothing: dict[str, object] = {"load_seq": None, "streams": 0, "skipped": None}
    if days is None or not delta.exists(spark, run.table(SILVER_WATERMARKS)):
        return nothing
    reason = f"quiet for {days} days or longer (maintenance.retire_streams_days)"
    request = Request(RETIRE, reason, "tidemark maintain", wanted=RecordFilter(days=days))
    try:
        with locked(run.lakehouse, wait_seconds=_PATIENCE_SECONDS, is_maintenance=True):
            done = requests.carry_out(spark, run, settings, request, is_dry_run=is_dry_run)
    except AnotherWriterError:
        return {**nothing, "skipped": "another writer was first"}
    found = {**nothing, "load_seq": done["load_seq"], "streams": done["retired"]}
    run.report.event("maintenance.retired", **found)
    return found


def _look(spark: SparkSession, run: Run, table: Table, wanted: Maintenance) -> dict[str, object]:
    started = time.monotonic()
    found = maintenance.state(spark, table)
    still_read = _still_read(spark, run, table)
    return {
        "table": table.name,
        "files_before": found.files,
        "files_after": None,
        "bytes_before": found.bytes,
        "bytes_after": None,
        "small_files": maintenance.small_files(spark, table, file_mib=wanted.file_mib),
        "removed_files": 0 if still_read else maintenance.unneeded_files(spark, table),
        "properties": maintenance.lacking(table, found),
        "skipped": [still_read] if still_read else [],
        "seconds": round(time.monotonic() - started, 3),
    }


def _maintain(spark: SparkSession, run: Run, table: Table, wanted: Maintenance) -> dict[str, object]:
    started = time.monotonic()
    before = maintenance.state(spark, table)
    lacking = maintenance.lacking(table, before)
    counts: dict[str, object] = {"removed_files": 0}
    skipped: list[str] = []

    def compact() -> None:
        maintenance.compact(spark, table, file_mib=wanted.file_mib)

    def vacuum() -> None:
        if still_read := _still_read(spark, run, table):
            skipped.append(still_read)
        elif found := maintenance.unneeded_files(spark, table):
            maintenance.vacuum(spark, table)
            counts["removed_files"] = found

    if lacking:
        _step(run, "properties", lambda: delta.set_properties(spark, table, lacking), skipped)
    _step(run, "compaction", compact, skipped)
    _step(run, "vacuum", vacuum, skipped)
    after = maintenance.state(spark, table)
    return {
        "table": table.name,
        "files_before": before.files,
        "files_after": after.files,
        "bytes_before": before.bytes,
        "bytes_after": after.bytes,
        **counts,
        "properties": lacking,
        "skipped": skipped,
        "seconds": round(time.monotonic() - started, 3),
    }


def _step(run: Run, name: str, do: Callable[[], None], skipped: list[str]) -> None:
    try:
        with locked(run.lakehouse, wait_seconds=_PATIENCE_SECONDS, is_maintenance=True):
            do()
    except AnotherWriterError:
        skipped.append(f"{name}: another writer was first")


def _still_read(spark: SparkSession, run: Run, table: Table) -> str | None:
    """Return why old versions of the table must still be kept; None if they may be removed."""
    if table.name == BRONZE_RECORDS:
        claimed, finished = (
            small_tables.highest(spark, run.table(name), "load_seq") for name in (SILVER_LOADS, SILVER_WATERMARKS)
        )
        if claimed > finished:
            return "vacuum: a claimed load is unfinished, and reads the version that its claim names"
    waiting = gate.last_gate_run(spark, run) if table.name in (SILVER_RECORDS, SILVER_LOADS) else None
    if waiting is not None and waiting.may_be_published:
        return "vacuum: a gate run let loads out that are not published, and Gold copies from the version that it audited"
    return None
