"""The gate of write-audit-publish: audits Silver's new loads, records each result, and passes or fails their range."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from expectations import checks as suites
from expectations import decisions as decided
from expectations import row_quarantine, verdict
from expectations.checks import Subject
from expectations.evidence import snapshot
from expectations.evidence.measures import StreamFacts, load_facts, stream_facts
from expectations.gx import engine
from expectations.gx.arguments import flatten
from expectations.gx.engine import Result
from expectations.row_quarantine import QuarantineLimits, RowQuarantine
from lakehouse.contracts.gate import DECISIONS, ERRORED, FAILED, PASSED, RESTART_QUESTION, RESTART_SUSPECTED, RESULTS, GateRun
from lakehouse.contracts.gold import REJECTS
from lakehouse.contracts.silver import stream_of
from lakehouse.delta import small_tables, tables
from lakehouse.escape import shortened
from lakehouse.protocol import gold_rejects
from lakehouse.run.context import new_id
from lakehouse.run.crash_points import crash_point
from lakehouse.spark import frames
from lakehouse.table import GATE_RESULTS, GOLD_LATEST, GOLD_RECORDS, GOLD_REJECTS, GOLD_STREAM_HEALTH, SILVER_LOADS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from expectations.checks import Check
    from expectations.evidence.measures import Evidence, Row
    from expectations.evidence.snapshot import AuditSnapshot
    from lakehouse.contracts.silver import Stream
    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Gate
    from lakehouse.table import Table

_PLACES = 3
_LONGEST = 60
"""Characters shown of each part of a stream's name."""
_DOCS = "_data_docs"


@dataclass(frozen=True)
class _Audit:
    """One audit after its evaluation."""

    gate_run: GateRun
    results: Sequence[Result]
    rows: Sequence[Row]
    """The rows of gate_results, without the time."""
    kept_out: Sequence[Row]


def audit(spark: SparkSession, run: Run, gate: Gate, limits: QuarantineLimits | None = None) -> GateRun | None:
    """Audit the finished loads that are neither published nor rejected, at one pinned version of each table.

    If a released range is not in Gold yet, nothing is audited: that range is published first.

    Commits the records kept out of Gold to gold_rejects, and then all results to gate_results in one commit, even if the gate
    fails: see `expectations.verdict`.

    Returns:
        The gate run, failed or not, or the one that was released; None if every finished load is published or rejected.

    Raises:
        TableMissingError: Silver has not been written yet.
    """
    done = _audited(spark, run, gate, limits)
    if isinstance(done, GateRun):
        run.report.event("gate.released_waits", gate_run_id=done.gate_run_id)
        return done
    if done is None:
        run.report.event("gate.nothing_new")
        return None
    crash_point("gate.audited")
    _keep_out(spark, run, done)
    _record(spark, run, done)
    crash_point("gate.recorded")
    if gate.data_docs:
        _build_docs(run, done)
    _report(run, done)
    return done.gate_run


def require(spark: SparkSession, run: Run, gate: Gate, limits: QuarantineLimits | None = None) -> None:
    """Raise the errors of an audit of the waiting loads. Commits nothing, and audits nothing while a table is missing.

    Raises:
        GateFailedError: A critical expectation is not met.
        ContractError: A table of the gate has other columns.
    """
    for contract in (RESULTS, DECISIONS, REJECTS):
        tables.require(spark, run.table(contract.name), contract)
    if not all(tables.exists(spark, run.table(name)) for name in snapshot.READ):
        return
    done = _audited(spark, run, gate, limits)
    if isinstance(done, _Audit):
        verdict.require_let_out(run, done.gate_run, done.rows)


def _audited(spark: SparkSession, run: Run, gate: Gate, limits: QuarantineLimits | None) -> _Audit | GateRun | None:
    """Audit the waiting loads; returns the gate run that was released if there is one, None if no load waits."""
    checks = suites.build(gate)
    decisions = decided.read(spark, run)
    if (released := verdict.released(spark, run, decisions)) is not None:
        return released
    pins = snapshot.take_snapshot(spark, run, decided.rejected(decisions))
    if pins is None:
        return None
    with tables.prefetch_snapshots(spark) as prefetch:
        prefetch([run.table(name) for name in (SILVER_LOADS, GOLD_RECORDS, GOLD_LATEST, GOLD_STREAM_HEALTH)])
        return _evaluate(spark, run, pins, checks=checks, limits=limits or QuarantineLimits())


def _evaluate(
    spark: SparkSession, run: Run, pins: AuditSnapshot, *, checks: Sequence[Check], limits: QuarantineLimits
) -> _Audit:
    """Evaluate the expectations. Those that keep rows out run first; the others check the remaining rows."""
    gate_run_id = new_id()
    found = snapshot.evidence(spark, run, pins)
    streams = stream_facts(found)
    data: dict[Subject, Sequence[Mapping[str, object]] | DataFrame] = {
        Subject.STREAMS: [vars(row) for row in streams],
        Subject.LOADS: load_facts(found),
    }
    flat, kept = list(checks), RowQuarantine([], [])
    if any(check.subject is Subject.RECORDS for check in checks):
        records = snapshot.gold_records(spark, run, pins, gate_run_id=gate_run_id)
        kept = row_quarantine.find(records, [check for check in checks if check.quarantines_rows], found.ledger, limits)
        checks = [check for check in checks if not check.quarantines_rows]
        data[Subject.RECORDS], flat = flatten(gold_rejects.without(spark, records, kept.rows), checks)
    found_by = zip(checks, engine.evaluate(flat, data), strict=True)
    results = [*(_placed(replace(result, check=check), streams, found) for check, result in found_by), *kept.results]
    rows = [
        {
            "gate_run_id": gate_run_id,
            "first_load_seq": pins.first_load_seq,
            "last_load_seq": pins.last_load_seq,
            "expectation": result.check.name,
            "column": result.check.column,
            "severity": result.check.severity,
            "outcome": result.outcome,
            "success": result.outcome == PASSED,
            "observed": result.observed,
            "expected": result.check.expected,
            "silver_version": pins.silver_version,
            "loads_version": pins.loads_version,
            "run_id": run.run_id,
        }
        for result in results
    ]
    return _Audit(replace(verdict.of_results(rows, []), rejected=pins.rejected), results, rows, kept.rows)


def _keep_out(spark: SparkSession, run: Run, done: _Audit) -> None:
    """Record the rows kept out of Gold, before the results that allow the publish of their loads."""
    if not done.kept_out and not tables.exists(spark, run.table(GOLD_REJECTS)):
        return
    gate_run_id = done.gate_run.gate_run_id
    row_quarantine.record(spark, run, done.kept_out, gate_run_id=gate_run_id, first=done.gate_run.first_load_seq)
    if done.kept_out:
        run.report.event("gate.kept_aside", gate_run_id=gate_run_id, records=len(done.kept_out))
    crash_point("gate.kept_aside")


def _placed(result: Result, streams: Sequence[StreamFacts], found: Evidence) -> Result:
    """Add to a result the places of violations and restarts, and how completely Bronze could be counted."""
    check, outcome, observed, bronze = result.check, result.outcome, result.observed, found.bronze
    if _is_restart(result):
        places = [f"{_named(stream_of(row))} in load {row['load_seq']}" for row in found.restarts]
        return Result(check, outcome, f"{observed}: {_listed(places)}: {RESTART_QUESTION}")
    if check.subject is not Subject.STREAMS or check.column is None:
        return result
    places = [f"{row.topic}/{row.partition} in load {row.load_seq}" for row in streams if getattr(row, check.column)]
    if places:
        observed += f": {_listed(places)}"
    if check.column == "unaccounted" and bronze.counts_offsets:
        observed += " (by different offsets: Bronze's versions are gone from its log)"
    if check.column == "unaccounted" and bronze.uncounted:
        outcome = ERRORED
        observed += f" (the Bronze range of loads {', '.join(map(str, bronze.uncounted))} is unknown)"
    return Result(check, outcome, observed)


def _named(stream: Stream) -> str:
    return "/".join(shortened(str(part), _LONGEST) for part in stream if part is not None)


def _listed(places: Sequence[str]) -> str:
    return ", ".join(places[:_PLACES]) + (", ..." if len(places) > _PLACES else "")


def _is_restart(result: Result) -> bool:
    return (result.check.subject, result.check.column, result.outcome) == (Subject.LOADS, RESTART_SUSPECTED, FAILED)


def _record(spark: SparkSession, run: Run, done: _Audit) -> None:
    table = run.table(GATE_RESULTS)
    tables.create(spark, table, RESULTS)
    tables.create_views(spark, run.lakehouse, {GATE_RESULTS})
    evaluated_at = _after_the_last(spark, table)
    rows = [{**row, "evaluated_at": evaluated_at} for row in done.rows]
    tables.append(frames.of_contract(spark, rows, RESULTS), table, RESULTS)


def _after_the_last(spark: SparkSession, table: Table) -> datetime:
    """Return now, or just after the last gate run if the clock was set back, because `verdict.last` uses the latest run."""
    last = small_tables.last(spark, table, ["evaluated_at"], by="evaluated_at")
    now = datetime.now(UTC)
    return max(now, last[0]["evaluated_at"] + timedelta(microseconds=1)) if last else now


def _report(run: Run, done: _Audit) -> None:
    for result in filter(_is_restart, done.results):
        run.report.event("gate.restart_suspected", severity=result.check.severity, observed=result.observed)
    gate_run = done.gate_run
    run.report.event(
        "gate.audited",
        gate_run_id=gate_run.gate_run_id,
        first_load_seq=gate_run.first_load_seq,
        last_load_seq=gate_run.last_load_seq,
        passed=gate_run.passed,
        expectations=len(done.results),
        failed=list(gate_run.failed),
        warned=list(gate_run.warned),
    )


def _build_docs(run: Run, done: _Audit) -> None:
    folder = run.lakehouse.sidecar_files(_DOCS)
    if folder is None:
        run.report.event(
            "gate.docs_skipped", reason="Data Docs are built where the tables are in a folder or a store that Tidemark reaches."
        )
        return
    try:
        place = folder.fill(lambda path: engine.build_docs(done.results, path, run_name=done.gate_run.gate_run_id))
    except OSError as error:  # must not stop the publish to Gold
        run.report.event("gate.docs_failed", reason=str(error))
        return
    run.report.event("gate.docs_built", path=f"{place}/index.html")
