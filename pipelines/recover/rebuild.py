"""Rebuild Silver from Bronze in a shadow next to the live tables; cut over to it only on request."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from lakehouse.contracts.bronze import plain_topic
from lakehouse.contracts.silver import PLACE, REBUILD
from lakehouse.delta import small_tables
from lakehouse.delta import tables as delta
from lakehouse.errors import TableMissingError, TableStateError
from lakehouse.table import BRONZE_RECORDS, SILVER_LOADS, SILVER_WATERMARKS
from pipelines import bronze_to_silver
from pipelines.recover import shadows
from silver import replay
from silver.audit import ledger_checks
from silver.load import cutover
from silver.replay import Replayed, Row, Step
from silver.requests import erase_key
from silver.rules import Rules
from silver.state import ledger
from silver.state.request import Cutover, Request
from silver.state.tables import create_missing, last_rules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Settings

CHANGES = "decision_changes"

_SHOWN = 20


def rebuild(  # noqa: PLR0913 -- the decision's parts, as an operator gives them
    spark: SparkSession, run: Run, settings: Settings, *, apply: bool, reason: str, by: str
) -> dict[str, object]:
    """Decide all of Bronze again with the current config, and report the records with a different decision.

    Use it for a changed extractor or policy, or a damaged table. Operators' decisions in the ledger are repeated in
    order. All results are written to a shadow. If applied, it replaces Silver's tables in one load (`silver.load.cutover`), and
    Gold follows with the next gate that passes. `reason` and `by` go to the ledger.

    Returns:
        load_seq, None if not applied; records of Bronze that were decided; repeated, the number of operators' decisions, and
        not_repeated, the others with reasons; changes, rows of before, after and records; samples, the first changed records;
        payload_fields, see `silver.replay.changed_fields`; shadow, the table of all changes, None once
        applied; is_applied.

    Raises:
        TableMissingError: Bronze has not been written yet.
        TableStateError: The ledger contradicts itself; or a restore or rebuild is unfinished, and this rebuild is not applied.
        AnotherWriterError: Another run wrote at the same time.
    """
    if not delta.exists(spark, run.table(BRONZE_RECORDS)):
        raise TableMissingError("There is no Bronze to rebuild Silver from.", where=str(run.table(BRONZE_RECORDS)))
    # First: a load claimed from here on is not in the shadow, and stops the rebuild.
    highest = cutover.highest_load(spark, run)
    rules = bronze_to_silver.rules_of(spark, run, settings).keeping(last_rules(spark, run))
    found = _steps(spark, run, rules, apply=apply)
    decided = {plain_topic(row["topic"]) for step in found for row in step.rows if "topic" in row}
    # A decided topic stays decided, even if the config no longer names it. The next load decides a waiting topic.
    rules = replace(rules, decided_topics=tuple(sorted(decided))) if decided else rules
    shadows.drop(spark, run)
    wanted = Cutover(keep_to=0, undo_to=highest, shadow=run.run_id.replace("-", "_"))  # catalogs allow no hyphen in a name
    shadow = cutover.in_shadow(run, wanted)
    create_missing(spark, shadow, rules)
    done = replay.replay(spark, shadow, rules, found)
    erase_key.erase_in_shadow(spark, run, shadow)
    before = {row["rules"] for step in found for row in step.rows if "rules" in row}
    fields = replay.changed_fields(map(Rules.from_json, before), rules)
    changes = shadow.table(CHANGES)
    delta.overwrite(replay.changed_decisions(spark, run, shadow), changes)
    summary = {**_summary(spark, shadow, done), "payload_fields": fields, "load_seq": None, "shadow": str(changes)}
    if not apply:
        return {**summary, "is_applied": False}
    for planned in done.erasures:  # an unfinished erasure may not have reached Bronze yet
        if planned.request is not None and planned.request.erase is not None:
            erase_key.erase_in_bronze(spark, shadow, planned, planned.request.erase)
    create_missing(spark, run, rules)
    # AnotherWriterError if another run has claimed a load since the ledger was read; nothing was written then.
    summary["load_seq"] = cutover.claim_and_apply(
        spark,
        run,
        Request(REBUILD, reason, by),
        wanted,
        marks=done.watermarks,
        rules=rules,
        bronze_version=done.bronze_version,
        first_free=highest + done.loads + 1,
        before=cutover.renumbered(spark, shadow, wanted, SILVER_LOADS),
    )
    shadows.drop(spark, run)
    return {**summary, "shadow": None, "is_applied": True}


def _steps(spark: SparkSession, run: Run, rules: Rules, *, apply: bool) -> list[Step]:
    """Return the loads to repeat: those of the ledger, including an unfinished one. Without a ledger, one for all of Bronze."""
    rows = _without_cutover(spark, run, _ledger(spark, run), apply=apply)
    if not rows:
        bronze = run.table(BRONZE_RECORDS)
        run.report.event("rebuild.no_ledger", rules=rules.fingerprint)
        last = {"load_seq": 0, "bronze_to_version": delta.version(spark, bronze), "claimed_at": datetime.now(UTC)}
        return [Step([last])]
    broken = next(ledger_checks.chain(rows, run.pipeline), None)
    if broken is not None:
        raise TableStateError(
            "The ledger is inconsistent. Operators' decisions in it cannot be replayed.",
            where=broken.where,
            observed=broken.observed,
            expected=broken.expected,
            next_step=f"Restore {run.table(SILVER_LOADS)} from a backup, or by RESTORE. Without one, move it away and rebuild: "
            "all of Bronze is then decided without operators' decisions.",
        )
    return replay.steps(rows)


def _ledger(spark: SparkSession, run: Run) -> list[Row]:
    table = run.table(SILVER_LOADS)
    if not delta.exists(spark, table):
        return []
    rows: list[Row] = spark.read.table(table.sql).toArrow().sort_by([("load_seq", "ascending")]).to_pylist()
    return rows


def _without_cutover(spark: SparkSession, run: Run, rows: list[Row], *, apply: bool) -> list[Row]:
    """Return the ledger's rows without an unfinished cutover, which an applied rebuild replaces."""
    claimed = ledger.open_cutover(rows, small_tables.highest(spark, run.table(SILVER_WATERMARKS), "load_seq"))
    if not claimed:
        return rows
    undone = Request.from_json(claimed[0]["request"]).cutover
    if undone is None or not apply:
        raise cutover.unfinished(run, claimed[0])
    before = [row for row in rows if row["load_seq"] <= (undone.keep_to or undone.undo_to)]
    return before or [row for row in rows if row["load_seq"] < claimed[0]["load_seq"]]


def _summary(spark: SparkSession, shadow: Run, done: Replayed) -> dict[str, Any]:
    found = spark.read.table(shadow.table(CHANGES).sql)
    counted = found.groupBy("before", "after").agg(F.count(F.lit(1)).alias("records")).orderBy(F.desc("records"), "before")
    samples = found.orderBy(*PLACE).limit(_SHOWN)
    records = spark.read.table(shadow.table(SILVER_LOADS).sql).agg(F.coalesce(F.sum("records"), F.lit(0))).collect()[0][0]
    return {
        "records": records,
        "repeated": done.repeated,
        "not_repeated": done.not_repeated,
        "changes": [row.asDict() for row in counted.collect()],
        "samples": [row.asDict() for row in samples.collect()],
    }
