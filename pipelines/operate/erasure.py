"""Finish erasures: remove old versions, change data, logs and shadows that still hold an erased key, and prove that it is gone.

The proof: no row has the key, and every file in a table's folder and log belongs to the current version. Nothing may read or
write the tables meanwhile: a reader of an earlier version loses its files. On a local root the lock excludes runs; elsewhere
`maintenance.allow_short_retention` must state that nothing else uses the tables.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType

from expectations import gate
from lakehouse.delta import log_files, maintenance, small_tables
from lakehouse.delta import tables as delta
from lakehouse.errors import TableMissingError, TableStateError, UsageError
from lakehouse.run.crash_points import crash_point
from lakehouse.run.lock import locked
from lakehouse.table import SHADOWS, SILVER_LOADS, SILVER_WATERMARKS, TABLE_NAMES, holds_records, statistics
from pipelines.recover import shadows
from pipelines.silver_to_gold import amend_gold

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Settings
    from lakehouse.sidecar_files import Files
    from lakehouse.table import Table

_PATIENCE_SECONDS = 60
_AT_ONCE = {
    "delta.deletedFileRetentionDuration": "interval 0 hours",
    "delta.logRetentionDuration": "interval 0 hours",
    # From this commit on, each one writes a checkpoint, which names live files only.
    "delta.checkpointInterval": "1",
}
_HOURS_A_DAY = 24


def tables(spark: SparkSession, run: Run, settings: Settings) -> list[Table]:
    """Return every existing table, including the operator's models."""
    names = (*TABLE_NAMES, *(model.name for model in settings.gold.models))
    return [table for table in map(run.table, names) if delta.exists(spark, table)]


def keep_out_of_logs(spark: SparkSession, run: Run, settings: Settings) -> None:
    """Set the property that keeps record contents out of a table's log, on each table that lacks it."""
    for table in tables(spark, run, settings):
        wanted = statistics(table.name) if holds_records(table.name) else {}
        if not wanted:
            continue
        found = maintenance.state(spark, table)
        fitting = maintenance.fitting(wanted, found)
        if lacking := {name: value for name, value in fitting.items() if found.properties.get(name) != value}:
            delta.set_properties(spark, table, lacking)


def left(settings: Settings, now: datetime | None = None) -> dict[str, str]:
    """Return the places that still hold an erased key, with the time until which they do, as ISO 8601 in UTC.

    `old_versions`: when `maintain` begins to remove files of earlier versions. `log`: when Delta begins to remove commits,
    with its next checkpoint.

    >>> from types import SimpleNamespace as Of
    >>> kept = Of(maintenance=Of(retain_hours=168, log_retain_days=30))
    >>> left(kept, datetime(2026, 11, 1, 12, tzinfo=UTC))
    {'old_versions': '2026-11-08T12:00:00+00:00', 'log': '2026-12-02T00:00:00+00:00'}
    """
    now = (now or datetime.now(UTC)).replace(microsecond=0)
    files = now + timedelta(hours=settings.maintenance.retain_hours)
    # Delta counts whole days.
    log = now + timedelta(hours=_HOURS_A_DAY * (settings.maintenance.log_retain_days + 1))
    return {"old_versions": files.isoformat(), "log": log.replace(hour=0, minute=0, second=0).isoformat()}


def forget(spark: SparkSession, run: Run, settings: Settings, key: bytes, *, is_dry_run: bool) -> dict[str, Any]:
    """Finish erasures, and prove that a key is gone. The key reaches no table, log or error.

    Commits to each table that holds record contents: temporary properties, VACUUM, and the former properties. Then the log
    starts at a checkpoint of the current version, and no earlier version can be read.

    Returns:
        tables, each with table, removed_files, removed_log_files (0 in a dry run), key_rows, and old_files: files that only
        earlier versions have; old_file is the first. Numbers of files are None in a catalog; old_files also if the log is
        damaged. left_shadows: the folder of remaining shadows, or None. is_proven: all was counted and nothing remains.

    Raises:
        TableMissingError: There are no tables.
        TableStateError: A load is claimed but unfinished, or passed or released but unpublished: it reads an earlier version.
        UsageError: The tables are not in a local folder, and the config does not allow short retention.
        AnotherWriterError: Another run was still active after a minute.
        ModelError: One of the operator's models could not be rebuilt without the key.
    """
    if run.lakehouse.local_root is None and not is_dry_run and not settings.maintenance.allow_short_retention:
        raise UsageError(
            "The tables are not in a local folder, so another reader of the removed files cannot be excluded.",
            where="maintain --erase",
            expected="maintenance.allow_short_retention: true, which says that nothing else reads or writes the tables",
            next_step="Stop what reads and writes them, and say so in the config.",
        )
    with locked(run.lakehouse, wait_seconds=_PATIENCE_SECONDS):
        found = [table for table in tables(spark, run, settings) if holds_records(table.name)]
        if not found:
            raise TableMissingError("There are no tables.", where=run.lakehouse.folder(""))
        root = run.lakehouse.table_files
        if not is_dry_run:
            _require_settled(spark, run)
            amend_gold(spark, run, settings)
        rows = []
        for table in found:
            files = None if root is None else root.below(table.name)
            gone: dict[str, int | None] = {"removed_files": 0, "removed_log_files": 0}
            if not is_dry_run:
                gone = _forget_versions(spark, table, files)
                run.report.event("maintenance.forgotten", table=table.name, **gone)
                crash_point("forget.table")
            rows.append({"table": table.name, **gone, "key_rows": _key_rows(spark, table, key), **_old_files(files)})
        if is_dry_run:
            left_shadows = root.below(SHADOWS).place if root is not None and root.below(SHADOWS).sizes() else None
        else:
            left_shadows = shadows.drop(spark, run)
    is_clean = all(row["key_rows"] == row["old_files"] == 0 for row in rows)
    return {
        "is_dry_run": is_dry_run,
        "tables": rows,
        "left_shadows": left_shadows,
        "is_proven": is_clean and left_shadows is None,
    }


def _key_rows(spark: SparkSession, table: Table, key: bytes) -> int:
    rows = spark.read.table(table.sql)
    is_there = any(field.name == "key" and isinstance(field.dataType, BinaryType) for field in rows.schema.fields)
    return rows.where(F.col("key") == F.lit(bytearray(key))).count() if is_there else 0


def _old_files(table: Files | None) -> dict[str, object]:
    names = None if table is None else log_files.old_files(table)
    return {"old_files": None if names is None else len(names), "old_file": names[0] if names else None}


def _require_settled(spark: SparkSession, run: Run) -> None:
    """Raise if the pipeline still has to read an earlier version of a table."""
    claimed, finished = (small_tables.highest(spark, run.table(name), "load_seq") for name in (SILVER_LOADS, SILVER_WATERMARKS))
    waiting = gate.last_gate_run(spark, run)
    observed = None
    if claimed > finished:
        observed = f"load {claimed} is claimed and not finished"
    elif waiting is not None and waiting.may_be_published:
        observed = "a gate run let loads out that are not published"
    if observed:
        raise TableStateError(
            "The pipeline still has to read earlier versions of its tables; nothing was removed.",
            where=str(run.table(SILVER_LOADS)),
            observed=observed,
            next_step="Finish it first: `tidemark run --stage silver`, then --stage gate and --stage gold.",
        )


def _forget_versions(spark: SparkSession, table: Table, stored: Files | None) -> dict[str, int | None]:
    """Reduce a table to the files of its last version and a log that starts with it. `maintain` repairs it after a crash."""
    found = maintenance.state(spark, table)
    files = None if stored is None else _data_files(stored)
    delta.set_properties(spark, table, {**maintenance.fitting(statistics(table.name), found), **_AT_ONCE})
    crash_point("forget.properties")
    maintenance.vacuum(spark, table)
    crash_point("forget.vacuumed")
    removed = None if stored is None or files is None else files - _data_files(stored)
    in_log = None if stored is None else _restart_log(stored)
    # A crashed attempt left the temporary values, which must not be restored.
    former = {name: value for name, value in found.properties.items() if value != _AT_ONCE.get(name)}
    again = {name: value for name in _AT_ONCE if (value := table.properties.get(name, former.get(name))) is not None}
    if unset := sorted(set(_AT_ONCE) - set(again)):
        maintenance.unset_properties(spark, table, unset)
    if again:
        delta.set_properties(spark, table, again)
    if stored is not None and in_log is not None:  # these commits may have written a checkpoint
        in_log += _cut_log(stored)
    return {"removed_files": removed, "removed_log_files": in_log}


def _data_files(table: Files) -> int:
    return sum(name.endswith(".parquet") and "_delta_log/" not in name for name in table.sizes())


def _restart_log(table: Files) -> int:
    """Remove log files from before the last checkpoint, and those of a crashed writer; return how many."""
    log, before = table.below("_delta_log"), log_files.read_log(table)
    last = before.version
    if before.violations or f"{last:020}.checkpoint.parquet" not in before.names or before.files is None:
        raise TableStateError(
            "The log of a table cannot be restarted; its earlier commits were left.",
            where=log.place,
            observed="; ".join(map(str, before.violations)) or f"no checkpoint of version {last}",
            expected="a checkpoint of its last version",
            next_step="Look at it with `tidemark verify`, and run this again.",
        )
    return _cut_log(table)


def _cut_log(table: Files) -> int:
    """Remove a log's files from before its last checkpoint, in the order of versions, and return how many."""
    log = table.below("_delta_log")
    gone = log_files.before_checkpoint(log.sizes())
    for name in gone:
        log.remove(name)
    return len(gone)
