"""Verify the tables against each other. Read-only, takes no lock, and ignores writes of a concurrent run.

Checks run from cause to consequence: files and logs; the ledger; watermarks, Silver and rejects against it; all of them and
Bronze by offset; Gold against Silver. The first failed check names the damage.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import chain
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from gold import latest as newest
from gold import rows as models
from lakehouse import reconcile
from lakehouse.contracts.silver import CLASSES, STREAM, stream_text
from lakehouse.delta import log_files, small_tables
from lakehouse.delta.errors import SPARK_ERRORS
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
from pipelines.verify.remedies import LOG_OUT, check_table
from pipelines.verify.snapshot import take_snapshot
from silver.audit import ledger_checks
from silver.rules import Rules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from pipelines.verify.snapshot import VerifySnapshot
    from silver.audit.ledger_checks import Row

_UNREADABLE = ("FAILED_READ_FILE", "FILE_NOT_EXIST", "ChecksumException", "is not a Parquet file", "page integrity", "CRC")
_DATA_FILE = re.compile(r"[^\s'\"`]+\.parquet")
_HEALTH = ("records", *CLASSES, "missing", "jumps_forward", "jumps_backward", "last_offset")


def verify(spark: SparkSession, run: Run, *, is_deep: bool) -> dict[str, object]:
    """Run the checks one after another; a file that cannot be read ends them. `is_deep` adds `pipelines.verify.deep`.

    Returns:
        ok; is_deep; last_load_seq and published_load_seq, the last loads that were checked; open_claim, the load that the
        next run finishes, or None; `checks`, a row per check (see `lakehouse.run.findings.Check`); seconds.

    Raises:
        TableMissingError: Silver has not been written yet.
    """
    started = time.monotonic()
    result: dict[str, object] = {"is_deep": is_deep, "last_load_seq": None, "published_load_seq": None, "open_claim": None}
    found: list[Check] = []
    try:
        for each in _checks(spark, run, result, is_deep=is_deep):
            found.append(each)
            run.report.event("verify.checked", check=each.check, ok=each.ok, where=each.where)
    except SPARK_ERRORS as error:
        found.append(_unreadable(run, error))
    ok = all(each.ok for each in found)
    return {"ok": ok, **result, "checks": [asdict(each) for each in found], "seconds": round(time.monotonic() - started, 3)}


def _checks(spark: SparkSession, run: Run, result: dict[str, object], *, is_deep: bool) -> Iterator[Check]:
    files = list(_files(run))
    yield from files
    if not all(each.ok for each in files):
        return  # Spark would read wrong rows, or none
    snapshot = take_snapshot(spark, run)
    result.update(last_load_seq=snapshot.finished, published_load_seq=snapshot.published, open_claim=snapshot.open_claim)
    rules_of = deep.rules_of_loads(spark, run, snapshot) if is_deep else {}
    yield from _ledger(run, snapshot)
    yield from _silver(spark, run, snapshot)
    if snapshot.finished:
        last_rules = Rules.from_json(rules_of[snapshot.finished]) if snapshot.finished in rules_of else None
        yield from Offsets(spark, run, snapshot, last_rules).findings()
    if snapshot.published_to is not None and not snapshot.is_before_rebuild:
        yield from _gold(spark, run, snapshot)
        if is_deep and {GOLD_LATEST, GOLD_RECORDS} <= snapshot.versions.keys():
            yield _latest(spark, run, snapshot)
    if is_deep:
        yield from deep.findings(spark, run, snapshot, rules_of)


def _files(run: Run) -> Iterator[Check]:
    """Check the tables' files under a root. A catalog manages its own files, and a read finds missing ones."""
    root = run.lakehouse.table_files
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


def _ledger(run: Run, snapshot: VerifySnapshot) -> Iterator[Check]:
    ledger, finished = snapshot.ledger, snapshot.finished
    claimed = f"{finished:,} finished loads" + (f", load {snapshot.open_claim} claimed" if snapshot.open_claim else "")
    yield check_table(run, "claims", SILVER_LOADS, ledger_checks.claims(ledger, finished), claimed)
    chained = ledger_checks.chain(ledger, run.pipeline)
    yield check_table(run, "ledger_is_a_chain", SILVER_LOADS, chained, "each load begins where one ended")
    added = f"{snapshot.count('records'):,} records, each in one class"
    yield check_table(run, "classes_add_up", SILVER_LOADS, reconcile.classes_add_up(ledger), added)
    marks = reconcile.watermarks_match(snapshot.loads, snapshot.watermarks)
    left = f"{len(snapshot.watermarks):,} watermarks, where the ledger left them"
    yield check_table(run, "watermarks_match_ledger", SILVER_WATERMARKS, marks, left)


def _silver(spark: SparkSession, run: Run, snapshot: VerifySnapshot) -> Iterator[Check]:
    loads, finished = snapshot.loads, snapshot.finished
    # An open claim's rows may exist or not. Rows without a load, or with a load that was never claimed, are checked.
    claimed = max((row["load_seq"] for row in snapshot.ledger), default=0)
    is_known = F.col("load_seq").isNull() | (F.col("load_seq") <= finished) | (F.col("load_seq") > claimed)
    rows = snapshot.read(spark, run, SILVER_RECORDS).where(is_known)
    by_load = ledger_checks.kept(rows).toArrow().to_pylist()
    kept = f"{sum(row['rows'] for row in by_load):,} rows, as many as the ledger counts"
    yield check_table(run, "silver_matches_ledger", SILVER_RECORDS, reconcile.rows_match(loads, by_load), kept)
    twice = ledger_checks.repeats(ledger_checks.repeated(rows).toArrow().to_pylist())
    yield check_table(run, "keys_are_unique", SILVER_RECORDS, twice, "each sequence of a stream once")
    marks = chain(reconcile.sequences_rise(loads, by_load), reconcile.watermarks_are_reached(loads, by_load))
    yield check_table(run, "sequences_rise", SILVER_RECORDS, marks, "up to each watermark, above the last")
    found = ledger_checks.rejects(snapshot.read(spark, run, SILVER_REJECTS), finished).toArrow().to_pylist()
    out = f"{sum(row['records'] for row in found):,} records, as many as the ledger counts"
    yield check_table(run, "rejects_match_ledger", SILVER_REJECTS, ledger_checks.rejects_match(loads, found), out)


def _gold(spark: SparkSession, run: Run, snapshot: VerifySnapshot) -> Iterator[Check]:
    columns = (*STREAM, "load_seq", *_HEALTH, "epoch", "high_watermark")
    found = small_tables.read(spark, run.table(GOLD_STREAM_HEALTH), columns, version=snapshot.versions[GOLD_STREAM_HEALTH])
    rows = [row for row in found if row["load_seq"] is not None and row["load_seq"] <= snapshot.finished]
    published = f"{snapshot.published:,} published loads, as the ledger has them"
    yield check_table(run, "health_matches_ledger", GOLD_STREAM_HEALTH, _unhealthy(snapshot, rows), published)
    if GOLD_LATEST in snapshot.versions:
        keys = snapshot.read(spark, run, GOLD_LATEST).groupBy("topic", "key").count().where("count > 1").limit(1).collect()
        twice = [Violation(f"{GOLD_LATEST}, topic {row['topic']}", f"{row['count']} rows of a key", "one") for row in keys]
        yield check_table(run, "one_latest_per_key", GOLD_LATEST, twice, "each key once")


def _latest(spark: SparkSession, run: Run, snapshot: VerifySnapshot) -> Check:
    """Check that gold_latest has the latest record of each key by its rule. Skipped during a publish."""
    records = snapshot.read(spark, run, GOLD_RECORDS)
    wrong: list[Violation] = []
    if not newest.is_by_current_rule(spark, run):
        holds = "not compared: Tidemark 0.1 made it, and the next publish rebuilds it"
    elif not records.where(F.col("load_seq") > snapshot.published).isEmpty():
        holds = "not compared: a publish is under way"
    else:
        holds = "the record of each key that is the latest"
        place = ("partition", "offset")
        narrow = records.select(*STREAM, "key", "epoch", "sequence", "timestamp", "offset")
        latest = models.among_streams(models.by_stream(narrow)).select("topic", "key", F.struct(*place).alias("expected"))
        found = snapshot.read(spark, run, GOLD_LATEST).select("topic", "key", F.struct(*place).alias("observed"))
        both = latest.join(found, on=["topic", "key"], how="full_outer").where(~F.col("observed").eqNullSafe(F.col("expected")))
        wrong = [
            Violation(f"{GOLD_LATEST}, topic {row['topic']}", f"of a key {_place(row['observed'])}", _place(row["expected"]))
            for row in both.limit(1).collect()
        ]
    return check_table(run, "latest_by_rule", GOLD_LATEST, wrong, holds)


def _place(found: Mapping[str, int] | None) -> str:
    return "no record" if found is None else f"partition {found['partition']}, offset {found['offset']}"


def _unhealthy(snapshot: VerifySnapshot, rows: list[Row]) -> Iterator[Violation]:
    if snapshot.published_to is not None and snapshot.published_to > snapshot.finished:
        where = f"{GOLD_STREAM_HEALTH} and {SILVER_WATERMARKS}"
        yield Violation(
            where, f"load {snapshot.published_to} is published", f"none after {snapshot.finished}, the last finished load"
        )
    names = {**{name: name for name in _HEALTH}, "epoch": "epoch_after", "high_watermark": "high_watermark_after"}
    expected = {
        (row["load_seq"], *(row[name] for name in STREAM)): {name: row[other] for name, other in names.items()}
        for row in snapshot.loads
        if row["load_seq"] <= snapshot.published and row["load_seq"] not in snapshot.rejected
    }
    observed = {(row["load_seq"], *(row[name] for name in STREAM)): {name: row[name] for name in names} for row in rows}
    for key in sorted({**expected, **observed}, key=str):
        if expected.get(key) != observed.get(key) or len(rows) > len(observed):
            where = f"{GOLD_STREAM_HEALTH}, load {key[0]}, {stream_text((key[1], key[2], key[3]))}"
            yield Violation(where, f"{observed.get(key, 'no row')}", f"{expected.get(key, 'no row')}")


def _unreadable(run: Run, error: Exception) -> Check:
    """Return the finding for a data file that cannot be read; raise any other error again."""
    text = str(error)
    if not any(each in text for each in _UNREADABLE):
        raise error
    file = _DATA_FILE.search(text)
    where = file[0] if file else run.lakehouse.folder("")
    return Check("files_can_be_read", ok=False, where=where, observed=headline(text), expected="whole pages", next_step=LOG_OUT)
