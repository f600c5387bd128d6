"""Finish erasures: remove what still holds an erased key (old versions, change feed, logs, shadows), and prove that it is gone.

An erased key is in no current row. It is still in the files of earlier versions, in the change data of the erasure itself, and,
if a text column holds it, in the statistics of earlier commits. Retention removes all of this in time; this module removes it
now. The proof: no row has the key, and neither a table's folder nor its log has a file that the current version lacks.

Nothing may read or write the tables meanwhile: a reader of an earlier version loses its files. On a local root the root's lock
keeps runs out for as long as it takes; another user's query may fail, and must be repeated. Elsewhere nothing can be kept out,
so `maintenance.allow_short_retention` must state that nothing else uses the tables.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType

from expectations import verdict
from lakehouse.delta import log_files, maintenance, small_tables
from lakehouse.delta import tables as delta
from lakehouse.delta.stored_files import files_of
from lakehouse.errors import TableMissingError, TableStateError, UsageError
from lakehouse.run.crash_points import crash_point
from lakehouse.run.lock import locked
from lakehouse.table import SHADOWS, SILVER_LOADS, SILVER_WATERMARKS, TABLE_NAMES, holds_records, statistics
from pipelines.recover import shadows
from pipelines.silver_to_gold import amend_gold

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.delta.stored_files import Files
    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Settings
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
    """Every existing table, including the operator's models."""
    names = (*TABLE_NAMES, *(model.name for model in settings.gold.models))
    return [table for table in map(run.table, names) if delta.exists(spark, table)]


def keep_out_of_logs(spark: SparkSession, run: Run, settings: Settings) -> None:
    """Keep record contents out of the tables' logs from now on: a table made by an earlier version still lets them in.

    Commits to each table that lacks the property, once.
    """
    for table in tables(spark, run, settings):
        wanted = statistics(table.name) if holds_records(table.name) else {}
        if not wanted:
            continue
        found = maintenance.state(spark, table)
        fitting = maintenance.fitting(wanted, found)
        if lacking := {name: value for name, value in fitting.items() if found.properties.get(name) != value}:
            delta.set_properties(spark, table, lacking)


def left(settings: Settings, now: datetime | None = None) -> dict[str, str]:
    """What still holds an erased key after its erasure, and until when, as ISO 8601 in UTC.

    Returns:
        old_versions, when `maintain` begins to remove the files of earlier versions and of the change feed; log, when Delta
        begins to remove the commits, with the next checkpoint that it writes.

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
    """Finish erasures, and prove that a key is gone.

    Commits to each table that holds record contents: temporary properties, VACUUM, and the former properties. Then the log
    starts at a checkpoint of the current version: no earlier one can be read any more.

    Args:
        spark: The session.
        run: The run.
        settings: The pipeline's settings.
        key: The key's bytes; they reach no table, log or error.
        is_dry_run: Only count what is left.

    Returns:
        tables, a row for each: table; removed_files and removed_log_files, 0 in a dry run; key_rows, the rows whose record has
        the key; old_files, how many files only earlier versions had, and old_file, the first of them. Numbers of files are None
        if the table is a catalog's, old_files also if its log is damaged. left_shadows, the folder of shadows that are left, or
        None; is_proven, whether all of this was counted and nothing is left; is_dry_run.

    Raises:
        TableMissingError: There are no tables.
        TableStateError: A load is claimed and not finished, or let out and not published: it reads an earlier version.
        UsageError: The tables are not in a local folder, and the config does not allow short retention.
        AnotherWriterError: Another run was still active after a minute.
        ModelError: One of the operator's models could not be rebuilt without the key.
    """
    if run.lakehouse.local_root is None and not is_dry_run and not settings.maintenance.allow_short_retention:
        raise UsageError(
            "The tables are in no folder of this machine, so nobody can be kept from reading the files that would be removed.",
            where="maintain --erase",
            expected="maintenance.allow_short_retention: true, which says that nothing else reads or writes the tables",
            next_step="Stop what reads and writes them, and say so in the config.",
        )
    with locked(run.lakehouse, wait_seconds=_PATIENCE_SECONDS):
        found = [table for table in tables(spark, run, settings) if holds_records(table.name)]
        if not found:
            raise TableMissingError("There are no tables.", where=run.lakehouse.folder(""))
        root = files_of(run.lakehouse)
        places = [(table, None if root is None else root.below(table.name)) for table in found]
        removed: list[dict[str, int | None]] = [{"removed_files": 0, "removed_log_files": 0}] * len(found)
        if not is_dry_run:
            removed = _forget(spark, run, settings, places)
            left_shadows = shadows.drop(spark, run)
        else:
            left_shadows = root.below(SHADOWS).place if root is not None and root.below(SHADOWS).sizes() else None
        rows = [
            {"table": table.name, **gone, "key_rows": _key_rows(spark, table, key), **_old_files(files)}
            for (table, files), gone in zip(places, removed, strict=True)
        ]
    is_clean = all(row["key_rows"] == row["old_files"] == 0 for row in rows)
    return {
        "is_dry_run": is_dry_run,
        "tables": rows,
        "left_shadows": left_shadows,
        "is_proven": is_clean and left_shadows is None,
    }


def _key_rows(spark: SparkSession, table: Table, key: bytes) -> int:
    """How many rows of the current version have the key as their record's key."""
    rows = spark.read.table(table.sql)
    is_there = any(field.name == "key" and isinstance(field.dataType, BinaryType) for field in rows.schema.fields)
    return rows.where(F.col("key") == F.lit(bytearray(key))).count() if is_there else 0


def _old_files(table: Files | None) -> dict[str, object]:
    names = None if table is None else log_files.old_files(table)
    return {"old_files": None if names is None else len(names), "old_file": names[0] if names else None}


def _forget(
    spark: SparkSession, run: Run, settings: Settings, places: list[tuple[Table, Files | None]]
) -> list[dict[str, int | None]]:
    _require_settled(spark, run)
    amend_gold(spark, run, settings)
    done = []
    for table, files in places:
        done.append(_forget_versions(spark, table, files))
        run.report.event("maintenance.forgotten", table=table.name, **done[-1])
        crash_point("forget.table")
    return done


def _require_settled(spark: SparkSession, run: Run) -> None:
    """Raise if the pipeline still has to read an earlier version of a table."""
    claimed, finished = (small_tables.highest(spark, run.table(name), "load_seq") for name in (SILVER_LOADS, SILVER_WATERMARKS))
    waiting = verdict.last(spark, run)
    observed = None
    if claimed > finished:
        observed = f"load {claimed} is claimed and not finished"
    elif waiting is not None and waiting.is_let_out:
        observed = "a gate run let loads out that are not published"
    if observed:
        raise TableStateError(
            "The pipeline still has to read earlier versions of its tables; nothing was removed.",
            where=str(run.table(SILVER_LOADS)),
            observed=observed,
            next_step="Finish it first: `tidemark run --stage silver`, then --stage gate and --stage gold.",
        )


def _forget_versions(spark: SparkSession, table: Table, stored: Files | None) -> dict[str, int | None]:
    """Reduce a table to its last version: its files, and a log that starts with it.

    A crash in between leaves the temporary properties set: `maintain` and the next try put the others back.
    """
    found = maintenance.state(spark, table)
    files = None if stored is None else _data_files(stored)
    delta.set_properties(spark, table, {**maintenance.fitting(statistics(table.name), found), **_AT_ONCE})
    crash_point("forget.properties")
    maintenance.vacuum(spark, table)
    crash_point("forget.vacuumed")
    removed = None if stored is None or files is None else files - _data_files(stored)
    in_log = None if stored is None else _start_log_anew(stored)
    # A try that a crash ended left the temporary values: they are no former ones.
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


def _start_log_anew(table: Files) -> int:
    """Remove log files from before the last checkpoint, and what a crashed writer left there; return how many.

    Raises:
        TableStateError: The last version has no checkpoint of its own, or the log is damaged.
    """
    log, before = table.below("_delta_log"), log_files.read_log(table)
    names, last = {name.removeprefix("_delta_log/") for name in before.sizes if name.startswith("_delta_log/")}, before.version
    if before.violations or f"{last:020}.checkpoint.parquet" not in names or before.files is None:
        raise TableStateError(
            "The log of a table cannot be started anew; its earlier commits were left.",
            where=log.place,
            observed="; ".join(map(str, before.violations)) or f"no checkpoint of version {last}",
            expected="a checkpoint of its last version",
            next_step="Look at it with `tidemark verify`, and run this again.",
        )
    return _cut_log(table)


def _cut_log(table: Files) -> int:
    """Remove a log's files from before its last checkpoint, in order of version, and return how many.

    A log may lack its first commits if a checkpoint follows; without that checkpoint it is broken.
    """
    log = table.below("_delta_log")
    gone = log_files.before_checkpoint(log.sizes())
    for name in gone:
        log.remove(name)
    return len(gone)
