"""The gate of write-audit-publish: audits Silver's new loads, records each result, and passes or fails their range.

`gate_results` has a row per expectation of each gate run, `gate_decisions` what operators decided on those that failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from expectations import gx, row_quarantine
from expectations.checks import Subject, build
from expectations.evidence import snapshot
from expectations.evidence.facts import load_facts, stream_facts
from expectations.gx import Result
from lakehouse.contracts.gate import (
    CRITICAL,
    DECISIONS,
    ERRORED,
    FAILED,
    PASSED,
    REJECTED,
    RELEASED,
    RESTART_QUESTION,
    RESTART_SUSPECTED,
    RESULTS,
    GateRun,
    Rejected,
)
from lakehouse.contracts.gold import REJECTS
from lakehouse.contracts.silver import stream_of
from lakehouse.delta import small_tables, tables
from lakehouse.delta.tables import Transaction
from lakehouse.errors import AnotherWriterError, GateFailedError
from lakehouse.escape import shortened
from lakehouse.protocol import gold_rejects
from lakehouse.run.crash_points import crash_point
from lakehouse.settings.policies import Policies
from lakehouse.spark import frames
from lakehouse.table import (
    GATE_DECISIONS,
    GATE_RESULTS,
    GOLD_LATEST,
    GOLD_RECORDS,
    GOLD_REJECTS,
    GOLD_STREAM_HEALTH,
    SILVER_LOADS,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from expectations.checks import Check
    from expectations.evidence.facts import Evidence, Row
    from expectations.evidence.snapshot import AuditSnapshot
    from lakehouse.contracts.gate import Decision
    from lakehouse.contracts.silver import Stream
    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Gate
    from lakehouse.table import Table

_PLACES = 3
_LONGEST = 60
"""Characters shown of each part of a stream's name."""
_DOCS = "_data_docs"
_OF_RUN = ("gate_run_id", "first_load_seq", "last_load_seq", "silver_version", "loads_version")
"""The columns of gate_results with a gate run's loads and versions."""


@dataclass(frozen=True)
class _Audit:
    """One audit after its evaluation."""

    gate_run: GateRun
    results: Sequence[Result]
    rows: Sequence[Row]
    """The rows of gate_results, without the time."""
    kept_out: Sequence[Row]


def audit(spark: SparkSession, run: Run, gate: Gate, policies: Policies | None = None) -> GateRun | None:
    """Audit the finished loads that are neither published nor rejected, at one version of each table.

    If a released range is not in Gold yet, nothing is audited: that range is published first.

    Commits the records kept out of Gold to gold_rejects, and then all results to gate_results in one commit, even if the gate
    fails: see `last_gate_run`.

    Returns:
        The gate run, failed or not, or the one that was released; None if every finished load is published or rejected.

    Raises:
        TableMissingError: Silver has not been written yet.
    """
    done = _audited(spark, run, gate, policies)
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


def require_passing(spark: SparkSession, run: Run, gate: Gate, policies: Policies | None = None) -> None:
    """Raise the errors of an audit of the waiting loads. Commits nothing, and audits nothing while a table is missing.

    Raises:
        GateFailedError: A critical expectation is not met.
        ContractError: A table of the gate has other columns.
    """
    for contract in (RESULTS, DECISIONS, REJECTS):
        tables.require_columns(spark, run.table(contract.name), contract)
    if not all(tables.exists(spark, run.table(name)) for name in snapshot.READ):
        return
    done = _audited(spark, run, gate, policies)
    if isinstance(done, _Audit):
        raise_if_failed(run, done.gate_run)


def _audited(spark: SparkSession, run: Run, gate: Gate, policies: Policies | None) -> _Audit | GateRun | None:
    """Audit the waiting loads; return the gate run that was released if there is one, None if no load waits."""
    decided = decisions(spark, run)
    if (released := _released(spark, run, decided)) is not None:
        return released
    taken = snapshot.take_snapshot(spark, run, rejected_loads(decided))
    if taken is None:
        return None
    with tables.prefetch_snapshots(spark) as prefetch:
        prefetch([run.table(name) for name in (SILVER_LOADS, GOLD_RECORDS, GOLD_LATEST, GOLD_STREAM_HEALTH)])
        results, kept_out = _evaluate(spark, run, taken, build(gate), policies or Policies())
    rows = [
        {
            **{name: getattr(taken.gate_run, name) for name in _OF_RUN},
            "expectation": result.check.name,
            "column": result.check.column,
            "severity": result.check.severity,
            "outcome": result.outcome,
            "success": result.outcome == PASSED,
            "observed": result.observed,
            "expected": result.check.expected,
            "run_id": run.run_id,
        }
        for result in results
    ]
    return _Audit(gate_run_of(rows, decided), results, rows, kept_out)


def _evaluate(
    spark: SparkSession, run: Run, taken: AuditSnapshot, checks: Sequence[Check], policies: Policies
) -> tuple[list[Result], list[Row]]:
    """Evaluate expectations; return their results, and the rows kept out of Gold, which the other expectations do not see."""
    found = snapshot.evidence(spark, run, taken)
    streams = stream_facts(found)
    data: dict[Subject, list[Row] | DataFrame] = {Subject.STREAMS: streams, Subject.LOADS: load_facts(found)}
    own_results: list[Result] = []
    kept_out: list[Row] = []
    if any(check.subject is Subject.RECORDS for check in checks):
        records = snapshot.gold_records(spark, run, taken)
        keeping_out = [check for check in checks if check.quarantines_rows]
        own_results, kept_out = row_quarantine.find(records, keeping_out, found.ledger, policies)
        data[Subject.RECORDS] = gold_rejects.without(spark, records, kept_out)
    others = gx.evaluate([check for check in checks if not check.quarantines_rows], data)
    return [*(_placed(result, streams, found) for result in others), *own_results], kept_out


def _keep_out(spark: SparkSession, run: Run, done: _Audit) -> None:
    """Record the rows kept out of Gold, before the results that allow the publish of their loads."""
    if not done.kept_out and not tables.exists(spark, run.table(GOLD_REJECTS)):
        return
    row_quarantine.record(spark, run, done.gate_run, done.kept_out)
    if done.kept_out:
        run.report.event("gate.kept_aside", gate_run_id=done.gate_run.gate_run_id, records=len(done.kept_out))
    crash_point("gate.kept_aside")


def _placed(result: Result, streams: Sequence[Row], found: Evidence) -> Result:
    """Add to a result the places of violations and restarts, and how completely Bronze could be counted."""
    check, outcome, observed, bronze = result.check, result.outcome, result.observed, found.bronze
    if _is_restart(result):
        places = [f"{_stream_name(stream_of(row))} in load {row['load_seq']}" for row in found.restarts]
        return Result(check, outcome, f"{observed}: {_listed(places)}: {RESTART_QUESTION}")
    if check.subject is not Subject.STREAMS or check.column is None:
        return result
    places = [f"{row['topic']}/{row['partition']} in load {row['load_seq']}" for row in streams if row[check.column]]
    if places:
        observed += f": {_listed(places)}"
    if check.column == "unaccounted" and bronze.counts_offsets:
        observed += " (by different offsets: Bronze's versions are gone from its log)"
    if check.column == "unaccounted" and bronze.uncounted:
        outcome = ERRORED
        observed += f" (the Bronze range of loads {', '.join(map(str, bronze.uncounted))} is unknown)"
    return Result(check, outcome, observed)


def _stream_name(stream: Stream) -> str:
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
    """Return now, or just after the last gate run if the clock was set back, because `last` uses the latest run."""
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
        place = folder.fill(lambda path: gx.build_docs(done.results, path, run_name=done.gate_run.gate_run_id))
    except OSError as error:  # must not stop the publish to Gold
        run.report.event("gate.docs_failed", reason=str(error))
        return
    run.report.event("gate.docs_built", path=f"{place}/index.html")


def raise_if_failed(run: Run, gate_run: GateRun) -> None:
    """Raise if the gate failed and the range was not released.

    Raises:
        GateFailedError: It names each critical expectation that was not met.
    """
    if gate_run.may_be_published:
        return
    budgets = [name.removeprefix("budget_") for name in gate_run.failed if name.startswith("budget_")]
    loosen = f" If that is expected, loosen gate.budgets: {', '.join(budgets)}." if budgets else ""
    raise GateFailedError(
        f"The gate failed: Gold stays before load {gate_run.first_load_seq}.",
        where=f"{run.pipeline}, {gate_run.named}",
        observed="".join(f"\n    {each}" for each in gate_run.unmet),
        expected="every critical expectation met",
        next_step=f"See the rows behind it: `tidemark gate show`.{loosen} For these loads alone: `tidemark gate release` or "
        "`tidemark gate reject`.",
    )


def last_gate_run(spark: SparkSession, run: Run) -> GateRun | None:
    """Return the last gate run, from gate_results, so that Gold may run as a separate task.

    Returns:
        The gate run, failed or not; None if there is none yet, if Gold has published its range, if it was rejected, if a
        restore rolled it back, or if Gold was rolled back to before it.
    """
    rows = last_results(spark, run)
    if not rows:
        return None
    gate_run = gate_run_of(rows, decisions(spark, run))
    unpublished = snapshot.unpublished(spark, run, up_to=gate_run.last_load_seq)
    waiting = [load_seq for load_seq in unpublished if load_seq not in gate_run.rejected]
    is_waiting = gate_run.last_load_seq in waiting and min(waiting) >= gate_run.first_load_seq
    return gate_run if is_waiting else None


def last_results(spark: SparkSession, run: Run) -> list[Row]:
    """Return the gate_results rows of the last gate run; none before the first."""
    rows = small_tables.last(spark, run.table(GATE_RESULTS), RESULTS.names, by="evaluated_at")
    latest = max((row["gate_run_id"] for row in rows), default=None)
    return [row for row in rows if row["gate_run_id"] == latest]


def gate_run_of(rows: Sequence[Row], decided: Sequence[Row]) -> GateRun:
    """Build a gate run from its rows of gate_results and those of gate_decisions."""
    failed = [row for row in rows if row["outcome"] != PASSED and row["severity"] == CRITICAL]
    warned = [row for row in rows if row["outcome"] != PASSED and row["severity"] != CRITICAL]
    decision = decision_on(decided, rows[0]["gate_run_id"])
    return GateRun(
        **{name: rows[0][name] for name in _OF_RUN},
        failed=tuple(dict.fromkeys(row["expectation"] for row in failed)),
        warned=tuple(dict.fromkeys(row["expectation"] for row in warned)),
        unmet=tuple(map(_unmet, failed)),
        decision=decision["decision"] if decision else None,
        rejected=rejected_loads(decided),
    )


def _unmet(row: Row) -> str:
    """Describe an expectation that was not met. Its column is named only if its name does not imply it."""
    name = row["expectation"]
    if name.startswith("expect_") and row["column"]:
        name = f"{name} on {shortened(row['column'])}"
    return f"{name} {row['outcome']}: observed {row['observed']}, expected {row['expected']}"


def decisions(spark: SparkSession, run: Run) -> list[Row]:
    """Return all rows of `gate_decisions`; none before the first decision."""
    return small_tables.read(spark, run.table(GATE_DECISIONS), DECISIONS.names, contract=DECISIONS)


def decision_on(decided: Iterable[Row], gate_run_id: str) -> Row | None:
    """Return the decision on a gate run, or None."""
    return next((row for row in decided if row["gate_run_id"] == gate_run_id), None)


def rejected_loads(decided: Iterable[Row]) -> Rejected:
    """Return the rejected loads."""
    ranges = ((row["first_load_seq"], row["last_load_seq"]) for row in decided if row["decision"] == REJECTED)
    return Rejected(tuple(sorted(ranges)))


def _released(spark: SparkSession, run: Run, decided: Sequence[Row]) -> GateRun | None:
    """Return the last gate run if it was released and is not in Gold yet. Reads nothing if no release is recorded."""
    up_to = max((row["last_load_seq"] for row in decided if row["decision"] == RELEASED), default=0)
    if not up_to or up_to <= snapshot.last_published(spark, run):
        return None
    waiting = last_gate_run(spark, run)
    return waiting if waiting is not None and waiting.decision == RELEASED else None


def record_decision(spark: SparkSession, run: Run, gate_run: GateRun, decision: Decision) -> None:
    """Append a decision to gate_decisions, in one commit. Delta accepts one of two concurrent decisions on a gate run.

    Raises:
        AnotherWriterError: Another decision on this gate run was recorded meanwhile.
    """
    table = run.table(GATE_DECISIONS)
    tables.create(spark, table, DECISIONS)
    row = {
        **vars(decision),
        **{name: getattr(gate_run, name) for name in ("gate_run_id", "first_load_seq", "last_load_seq")},
        "expectations": ", ".join(gate_run.failed),
        "run_id": run.run_id,
        "decided_at": datetime.now(UTC),
    }
    transaction = Transaction(f"{run.app_id(GATE_DECISIONS)}/{gate_run.gate_run_id}", 1)
    tables.append(frames.of_contract(spark, [row], DECISIONS), table, DECISIONS, transaction=transaction)
    recorded = decision_on(decisions(spark, run), gate_run.gate_run_id)
    if recorded is None or recorded["run_id"] != run.run_id:
        raise AnotherWriterError(
            "Another decision on this gate run was recorded first; nothing was written.",
            where=f"{table}, gate run {gate_run.gate_run_id}",
            observed=recorded and f"{recorded['decision']} by {recorded['decided_by']}",
            next_step="See `tidemark gate show`.",
        )
