"""Execute an operator's decision on a failed gate run: publish its loads to Gold anyway, or never.

A release is one commit, followed by the publish of the audited versions. After a crash between the two, the next run publishes
the range before it audits. A rejection is one commit; the gate continues after the range.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations import gate
from expectations.evidence.facts import INVARIANTS
from gold.publish import is_after_rebuild
from lakehouse.contracts.gate import REJECTED, RELEASED
from lakehouse.delta import tables
from lakehouse.errors import TableStateError, UsageError
from lakehouse.run.crash_points import crash_point
from lakehouse.table import GATE_RESULTS, SILVER_LOADS, SILVER_RECORDS
from pipelines import silver_to_gold
from pipelines.silver_to_gold import amend_gold, withdraw_unpublished

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.contracts.gate import Decision, GateRun
    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Settings


def decide(spark: SparkSession, run: Run, settings: Settings, decision: Decision, *, is_dry_run: bool) -> dict[str, object]:
    """Release or reject the range of the last gate run. Repeating a crashed release publishes it.

    Commits to gate_decisions. A release then commits to Gold's tables, see `gold.publish`. Erasures and restores in the range
    are applied to Gold first, see `pipelines.silver_to_gold`.

    Returns:
        decision, gate_run_id, first_load_seq, last_load_seq; expectations, the critical ones that were not met; records,
        their number in Silver; published, Gold's result, None except after a release; is_dry_run.

    Raises:
        UsageError: No gate run waits for this decision, another one was named, or its range cannot be rejected.
        TableStateError: An invariant was not met, or the audited versions cannot be read any more; nothing was released.
        AnotherWriterError: Another decision on this gate run was recorded meanwhile.
        ModelError: A model failed; Gold's own tables are published, or amended.
    """
    waiting = _waiting(spark, run, decision)
    if decision.decision == RELEASED:
        _require_sound(run, waiting)
    else:
        _require_no_rebuild(spark, run, waiting)
    result: dict[str, object] = {
        "decision": decision.decision,
        "gate_run_id": waiting.gate_run_id,
        "first_load_seq": waiting.first_load_seq,
        "last_load_seq": waiting.last_load_seq,
        "expectations": list(waiting.failed),
        "records": _records(spark, run, waiting, decision),
        "published": None,
        "is_dry_run": is_dry_run,
    }
    if is_dry_run:
        return result
    if waiting.decision is None:
        _record(spark, run, settings, waiting, decision)
    if decision.decision == RELEASED:
        result["published"] = silver_to_gold.run_gold(spark, run, settings)
    return result


def _record(spark: SparkSession, run: Run, settings: Settings, waiting: GateRun, decision: Decision) -> None:
    if decision.decision == REJECTED:
        amend_gold(spark, run, settings)
        first, last = waiting.first_load_seq, waiting.last_load_seq
        withdraw_unpublished(spark, run, settings, first=first, last=last)
    gate.record_decision(spark, run, waiting, decision)
    run.report.event(
        f"gate.{decision.decision}",
        gate_run_id=waiting.gate_run_id,
        first_load_seq=waiting.first_load_seq,
        last_load_seq=waiting.last_load_seq,
        reason=decision.reason,
        decided_by=decision.decided_by,
    )
    crash_point("gate.decided")


def _waiting(spark: SparkSession, run: Run, decision: Decision) -> GateRun:
    """Return the gate run that waits for this decision, or for its completion."""
    waiting = gate.last_gate_run(spark, run)
    if waiting is None or waiting.passed or waiting.decision not in (None, decision.decision):
        raise UsageError(
            "No gate run waits for this decision.",
            where=str(run.table(GATE_RESULTS)),
            observed=_describe_state(spark, run, waiting),
            expected="a last gate run that failed, of loads that are not published",
            next_step="See `tidemark gate show` and `tidemark status`; `tidemark run` audits and publishes what there is.",
        )
    if decision.gate_run_id not in (None, waiting.gate_run_id):
        raise UsageError(
            "The named gate run is not the last one.",
            where="--gate-run",
            observed=waiting.named,
            expected=decision.gate_run_id,
            next_step="Look at it: `tidemark gate show`.",
        )
    return waiting


def _describe_state(spark: SparkSession, run: Run, waiting: GateRun | None) -> str:
    """Describe the current state if no gate run is waiting."""
    if waiting is not None:
        return f"{waiting.named}: {'it has passed' if waiting.passed else f'{waiting.decision}, and not published yet'}"
    rows = gate.last_results(spark, run)
    if not rows:
        return "no gate run yet"
    done = gate.gate_run_of(rows, gate.decisions(spark, run))
    return f"{done.named}: {done.decision or 'published, or undone since'}"


def _require_sound(run: Run, waiting: GateRun) -> None:
    broken = [name for name in INVARIANTS if name in waiting.failed]
    if broken:
        raise TableStateError(
            "The tables violate an invariant. Such a gate run cannot be released.",
            where=f"{run.pipeline}, {waiting.named}",
            observed=", ".join(broken),
            expected="only budgets and your own expectations unmet",
            next_step="`tidemark verify` names the damage and the next step; `tidemark gate show` lists the rows.",
        )


def _require_no_rebuild(spark: SparkSession, run: Run, waiting: GateRun) -> None:
    loads = spark.read.table(run.table(SILVER_LOADS).sql).where(waiting.range)
    if is_after_rebuild(spark, run, {row["kind"] for row in loads.select("kind").distinct().collect()}):
        raise UsageError(
            "This range holds a rebuild's loads, and cannot be rejected: Gold would mix loads from before and after it.",
            where=f"{run.pipeline}, {waiting.named}",
            observed=", ".join(waiting.failed),
            next_step="Release it; or loosen the config; or rebuild under another config: `tidemark rebuild --apply`.",
        )


def _records(spark: SparkSession, run: Run, waiting: GateRun, decision: Decision) -> int:
    """Count Silver's records in the range. A first release requires that the audited versions can still be read."""
    if decision.decision == RELEASED and waiting.decision is None:
        for name, version in {SILVER_LOADS: waiting.loads_version, SILVER_RECORDS: waiting.silver_version}.items():
            if not tables.can_read(spark, run.table(name), version=version, where=waiting.range):
                raise TableStateError(
                    "The audited version cannot be read any more; nothing was released.",
                    where=str(run.table(name)),
                    observed=f"version {version} is gone, or its files are",
                    expected="the version that the gate run audited",
                    next_step="Audit again: `tidemark run --stage gate`. Then release that gate run.",
                )
    return spark.read.table(run.table(SILVER_RECORDS).sql).where(waiting.range).count()
