"""Prove the tables against each other. Reads only, and takes no lock: what a concurrent run writes is left out.

The checks run in the order of causes: files and logs; the ledger by itself; the watermarks, Silver and the rejects against the
ledger; all of them and Bronze by offset; Gold against Silver. So the first that does not hold names what is damaged.
"""

from __future__ import annotations

import re
import time
from dataclasses import asdict, replace
from itertools import chain
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from gold import latest as newest
from gold import rows as models
from lakehouse import reconcile
from lakehouse.contracts.silver import CLASSES, STREAM, stream_text
from lakehouse.delta import log_files, small_tables, tables
from lakehouse.delta.errors import SPARK_ERRORS
from lakehouse.delta.stored_files import files_of
from lakehouse.errors import headline
from lakehouse.run.findings import Check, Violation, finding
from lakehouse.table import (
    GOLD_LATEST,
    GOLD_RECORDS,
    GOLD_STREAM_HEALTH,
    SILVER_LOADS,
    SILVER_RECORDS,
    SILVER_REJECTS,
    SILVER_WATERMARKS,
    TABLE_NAMES,
)
from pipelines.verify import deep
from pipelines.verify.by_offset import Offsets
from pipelines.verify.remedies import GOLD_OUT, LOG_OUT, SILVER_OUT
from pipelines.verify.snapshot import pin
from silver.audit import ledger_checks, reject_checks, row_summaries

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from pipelines.verify.snapshot import Pins
    from silver.audit.ledger_checks import Row

_UNREADABLE = ("FAILED_READ_FILE", "FILE_NOT_EXIST", "ChecksumException", "is not a Parquet file", "page integrity", "CRC")
_DATA_FILE = re.compile(r"[^\s'\"`]+\.parquet")
_HEALTH = ("records", *CLASSES, "missing", "jumps_forward", "jumps_backward", "last_offset")
_FOREIGN = ("DELETE", "UPDATE", "RESTORE", "TRUNCATE", "REPLACE TABLE", "CREATE OR REPLACE TABLE", "CLONE")
"""Operations that no load of records performs. Tidemark's own restore deletes and updates too: a hint, no proof."""


def verify(spark: SparkSession, run: Run, *, is_deep: bool) -> dict[str, object]:
    """Run the checks one after another; after a file that cannot be read, the remaining ones are skipped.

    Args:
        spark: The session.
        run: The run.
        is_deep: Whether every file is read whole and every load decided again.

    Returns:
        ok; is_deep; last_load_seq and published_load_seq, the last loads that were checked; open_claim, the load that the next
        run finishes, or None; `checks`, a row per check (see `lakehouse.run.findings.Check`); seconds.

    Raises:
        TableMissingError: Silver has not been written yet.
    """
    started = time.monotonic()
    result: dict[str, object] = {"is_deep": is_deep, "last_load_seq": None, "published_load_seq": None, "open_claim": None}
    found: list[Check] = []
    try:
        for each in _checks(spark, run, result, is_deep=is_deep):
            found.append(_with_history(spark, run, each))
            run.report.event("verify.checked", check=each.check, ok=each.ok, where=each.where)
    except SPARK_ERRORS as error:
        found.append(_unreadable(run, error))
    ok = all(each.ok for each in found)
    return {"ok": ok, **result, "checks": [asdict(each) for each in found], "seconds": round(time.monotonic() - started, 3)}


def _checks(spark: SparkSession, run: Run, result: dict[str, object], *, is_deep: bool) -> Iterator[Check]:
    files = list(_files(run))
    yield from files
    if not all(each.ok for each in files):
        return  # Spark would read something other than what was written, or nothing
    pins = pin(spark, run)
    result.update(last_load_seq=pins.finished, published_load_seq=pins.published, open_claim=pins.open_claim)
    yield from _ledger(run, pins)
    yield from _silver(spark, run, pins)
    if pins.finished:
        yield from Offsets(spark, run, pins, deep.rules(spark, run, pins) if is_deep else None).findings()
    if pins.published_to is not None and not pins.is_before_rebuild:
        yield from _gold(spark, run, pins)
        if is_deep and {GOLD_LATEST, GOLD_RECORDS} <= pins.versions.keys():
            yield _latest(spark, run, pins)
    if is_deep:
        yield from deep.findings(spark, run, pins)


def _files(run: Run) -> Iterator[Check]:
    """Check the tables' files under a root; those of a catalog are its own, and reading finds what is missing."""
    root = files_of(run.lakehouse)
    if root is None:
        return
    logs = {name: log for name in TABLE_NAMES if (log := log_files.read_log(root.below(name))).sizes}
    damaged = (each for log in logs.values() for each in log.violations)
    read = f"{len(logs)} logs, whole from the last checkpoint on"
    yield finding("logs_are_whole", damaged, where=root.place, holds=read, next_step=LOG_OUT)
    files = (each for name, log in logs.items() for each in log_files.damaged_files(root.below(name), log))
    count = sum(len(log.files or ()) for log in logs.values())
    there = f"{count:,} data files, as long as the logs say"
    yield finding("files_are_there", files, where=root.place, holds=there, next_step=LOG_OUT)


def _ledger(run: Run, pins: Pins) -> Iterator[Check]:
    ledger, marks = str(run.table(SILVER_LOADS)), str(run.table(SILVER_WATERMARKS))
    told = f"{pins.finished:,} finished loads" + (f", load {pins.open_claim} claimed" if pins.open_claim else "")
    yield finding("claims", ledger_checks.claims(pins.ledger, pins.finished), where=ledger, holds=told, next_step=SILVER_OUT)
    chained = ledger_checks.chain(pins.ledger, run.pipeline)
    yield finding("ledger_is_a_chain", chained, where=ledger, holds="each load begins where one ended", next_step=SILVER_OUT)
    added = f"{pins.count('records'):,} records, each in one class"
    yield finding("classes_add_up", reconcile.classes_add_up(pins.ledger), where=ledger, holds=added, next_step=SILVER_OUT)
    standing = reconcile.watermarks_match(pins.loads, pins.watermarks)
    stand = f"{len(pins.watermarks):,} watermarks, where the ledger left them"
    yield finding("watermarks_match_ledger", standing, where=marks, holds=stand, next_step=SILVER_OUT)


def _silver(spark: SparkSession, run: Run, pins: Pins) -> Iterator[Check]:
    silver, rejects = str(run.table(SILVER_RECORDS)), str(run.table(SILVER_REJECTS))
    rows = pins.read(spark, run, SILVER_RECORDS)
    # An open claim's rows may be there or not. Rows that name no load, or one that was never claimed, are checked.
    claimed = max((row["load_seq"] for row in pins.ledger), default=0)
    is_known = F.col("load_seq").isNull() | (F.col("load_seq") <= pins.finished) | (F.col("load_seq") > claimed)
    by_load, repeated = row_summaries.parted(row_summaries.kept(rows.where(is_known)).toArrow().to_pylist())
    kept = f"{sum(row['rows'] for row in by_load):,} rows, as many as the ledger counts"
    counted = reconcile.rows_match(pins.loads, by_load)
    yield finding("silver_matches_ledger", counted, where=silver, holds=kept, next_step=SILVER_OUT)
    once = ledger_checks.repeats(repeated)
    yield finding("keys_are_unique", once, where=silver, holds="each sequence of a stream once", next_step=SILVER_OUT)
    reached = chain(reconcile.sequences_rise(pins.loads, by_load), reconcile.watermarks_are_reached(pins.loads, by_load))
    yield finding("sequences_rise", reached, where=silver, holds="up to each watermark, above the last", next_step=SILVER_OUT)
    found = row_summaries.rejects(pins.read(spark, run, SILVER_REJECTS), pins.finished).toArrow().to_pylist()
    out = f"{sum(row['records'] for row in found):,} records, as many as the ledger counts"
    listed = reject_checks.compare(pins.loads, found)
    yield finding("rejects_match_ledger", listed, where=rejects, holds=out, next_step=SILVER_OUT)


def _gold(spark: SparkSession, run: Run, pins: Pins) -> Iterator[Check]:
    health, latest = str(run.table(GOLD_STREAM_HEALTH)), str(run.table(GOLD_LATEST))
    columns = (*STREAM, "load_seq", *_HEALTH, "epoch", "high_watermark")
    found = small_tables.read(spark, run.table(GOLD_STREAM_HEALTH), columns, version=pins.versions[GOLD_STREAM_HEALTH])
    rows = [row for row in found if row["load_seq"] is not None and row["load_seq"] <= pins.finished]
    told = f"{pins.published:,} published loads, as the ledger has them"
    yield finding("health_matches_ledger", _unhealthy(pins, rows), where=health, holds=told, next_step=GOLD_OUT)
    if GOLD_LATEST in pins.versions:
        keys = pins.read(spark, run, GOLD_LATEST).groupBy("topic", "key").count().where("count > 1").limit(1).collect()
        twice = [Violation(f"{GOLD_LATEST}, topic {row['topic']}", f"{row['count']} rows of a key", "one") for row in keys]
        yield finding("one_latest_per_key", twice, where=latest, holds="each key once", next_step=GOLD_OUT)


def _latest(spark: SparkSession, run: Run, pins: Pins) -> Check:
    """Check that gold_latest has the record of each key that the rule names; skipped while a publish is under way."""
    where, holds = str(run.table(GOLD_LATEST)), "the record of each key that is the latest"
    records = pins.read(spark, run, GOLD_RECORDS)
    if not newest.is_kept(spark, run):
        holds = "not looked at: Tidemark 0.1 made it, and the next publish makes it anew"
    elif not records.where(F.col("load_seq") > pins.published).isEmpty():
        holds = "not looked at: a publishing is under way"
    else:
        place = ("partition", "offset")
        narrow = records.select(*STREAM, "key", "epoch", "sequence", "timestamp", "offset")
        latest = models.latest(narrow).select("topic", "key", F.struct(*place).alias("expected"))
        found = pins.read(spark, run, GOLD_LATEST).select("topic", "key", F.struct(*place).alias("observed"))
        both = latest.join(found, on=["topic", "key"], how="full_outer").where(~F.col("observed").eqNullSafe(F.col("expected")))
        wrong = [
            Violation(f"{GOLD_LATEST}, topic {row['topic']}", f"of a key {_place(row['observed'])}", _place(row["expected"]))
            for row in both.limit(1).collect()
        ]
        return finding("latest_by_rule", wrong, where=where, holds=holds, next_step=GOLD_OUT)
    return finding("latest_by_rule", [], where=where, holds=holds, next_step=GOLD_OUT)


def _place(found: Mapping[str, int] | None) -> str:
    return "no record" if found is None else f"partition {found['partition']}, offset {found['offset']}"


def _unhealthy(pins: Pins, rows: list[Row]) -> Iterator[Violation]:
    if pins.published_to is not None and pins.published_to > pins.finished:
        where = f"{GOLD_STREAM_HEALTH} and {SILVER_WATERMARKS}"
        yield Violation(where, f"load {pins.published_to} is published", f"none after {pins.finished}, the last finished load")
    names = {**{name: name for name in _HEALTH}, "epoch": "epoch_after", "high_watermark": "high_watermark_after"}
    expected = {
        (row["load_seq"], *(row[name] for name in STREAM)): {name: row[other] for name, other in names.items()}
        for row in pins.loads
        if row["load_seq"] <= pins.published and row["load_seq"] not in pins.rejected
    }
    observed = {(row["load_seq"], *(row[name] for name in STREAM)): {name: row[name] for name in names} for row in rows}
    for key in sorted({**expected, **observed}, key=str):
        if expected.get(key) != observed.get(key) or len(rows) > len(observed):
            where = f"{GOLD_STREAM_HEALTH}, load {key[0]}, {stream_text((key[1], key[2], key[3]))}"
            yield Violation(where, f"{observed.get(key, 'no row')}", f"{expected.get(key, 'no row')}")


def _with_history(spark: SparkSession, run: Run, found: Check) -> Check:
    """Add to a failed finding the operations on its tables that Tidemark does not perform."""
    place = found.where.split(",")[0]
    named = [name for name in TABLE_NAMES if name in place and "/" not in place]
    if found.ok or not named:
        return found
    foreign = [
        f"version {version} of {name} is a {operation}"
        for name in named
        for version, operation in tables.operations(spark, run.table(name))
        if operation in _FOREIGN
    ]
    return replace(found, observed="; ".join([found.observed, *foreign[:3]]))


def _unreadable(run: Run, error: Exception) -> Check:
    """The finding for a data file that cannot be read.

    Raises:
        Exception: The error itself, if it is about anything else.
    """
    text = str(error)
    if not any(each in text for each in _UNREADABLE):
        raise error
    file = _DATA_FILE.search(text)
    where = file[0] if file else run.lakehouse.folder("")
    return Check("files_can_be_read", ok=False, where=where, observed=headline(text), expected="whole pages", next_step=LOG_OUT)
