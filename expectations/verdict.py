"""The verdict on the unpublished loads: the last recorded gate run and the operator's decision on it. Read-only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from expectations import decisions as decided
from expectations.evidence import snapshot
from lakehouse.contracts.gate import CRITICAL, PASSED, RELEASED, RESULTS, GateRun
from lakehouse.delta import small_tables
from lakehouse.errors import GateFailedError
from lakehouse.escape import shortened
from lakehouse.table import GATE_RESULTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import SparkSession

    from expectations.evidence.measures import Row
    from lakehouse.run.context import Run


def raise_if_failed(spark: SparkSession, run: Run, gate_run: GateRun) -> None:
    """Raise if the gate failed and the range was not released.

    Raises:
        GateFailedError: It names each critical expectation that was not met.
    """
    if not gate_run.is_let_out:
        require_let_out(run, gate_run, _results(spark, run, gate_run.gate_run_id))


def require_let_out(run: Run, gate_run: GateRun, rows: Iterable[Row]) -> None:
    """Raise as `raise_if_failed`, with the gate run's rows of gate_results."""
    if gate_run.is_let_out:
        return
    unmet = [
        f"{_named(row)} {row['outcome']}: observed {row['observed']}, expected {row['expected']}"
        for row in rows
        if row["severity"] == CRITICAL and row["outcome"] != PASSED
    ]
    budgets = [name.removeprefix("budget_") for name in gate_run.failed if name.startswith("budget_")]
    loosen = f" If that is expected, loosen gate.budgets: {', '.join(budgets)}." if budgets else ""
    raise GateFailedError(
        f"The gate failed: Gold stays before load {gate_run.first_load_seq}.",
        where=f"{run.pipeline}, {gate_run.named}",
        observed="".join(f"\n    {each}" for each in unmet),
        expected="every critical expectation met",
        next_step=f"See the rows behind it: `tidemark gate show`.{loosen} For these loads alone: `tidemark gate release` or "
        "`tidemark gate reject`.",
    )


def _named(row: Row) -> str:
    """Return an expectation's name with its column. The name of an invariant or a budget already implies it."""
    is_of_users = row["expectation"].startswith("expect_") and row["column"]
    return f"{row['expectation']} on {shortened(row['column'])}" if is_of_users else str(row["expectation"])


def last(spark: SparkSession, run: Run) -> GateRun | None:
    """Return the last gate run, from gate_results, so that Gold may run as a separate task.

    Returns:
        The gate run, failed or not; None if there is none yet, if Gold has published its range, if it was rejected, if a
        restore rolled it back, or if Gold was rolled back to before it.
    """
    rows = recorded(spark, run)
    if not rows:
        return None
    gate_run = of_results(rows, decided.read(spark, run))
    unpublished = snapshot.unpublished(spark, run, up_to=gate_run.last_load_seq)
    waiting = [load_seq for load_seq in unpublished if load_seq not in gate_run.rejected]
    is_waiting = gate_run.last_load_seq in waiting and min(waiting) >= gate_run.first_load_seq
    return gate_run if is_waiting else None


def recorded(spark: SparkSession, run: Run) -> list[Row]:
    """Return the gate_results rows of the last gate run; none before the first."""
    rows = small_tables.last(spark, run.table(GATE_RESULTS), RESULTS.names, by="evaluated_at")
    latest = max((row["gate_run_id"] for row in rows), default=None)
    return [row for row in rows if row["gate_run_id"] == latest]


def of_results(rows: Sequence[Row], decisions: Sequence[Row]) -> GateRun:
    """Build a gate run from its rows of gate_results and those of gate_decisions."""
    unmet = [row for row in rows if row["outcome"] != PASSED]
    decision = decided.of(decisions, rows[0]["gate_run_id"])
    return GateRun(
        gate_run_id=rows[0]["gate_run_id"],
        first_load_seq=rows[0]["first_load_seq"],
        last_load_seq=rows[0]["last_load_seq"],
        silver_version=rows[0]["silver_version"],
        loads_version=rows[0]["loads_version"],
        failed=tuple(dict.fromkeys(row["expectation"] for row in unmet if row["severity"] == CRITICAL)),
        warned=tuple(dict.fromkeys(row["expectation"] for row in unmet if row["severity"] != CRITICAL)),
        decision=decision["decision"] if decision else None,
        rejected=decided.rejected(decisions),
    )


def released(spark: SparkSession, run: Run, decisions: Sequence[Row]) -> GateRun | None:
    """Return the last gate run if it was released and is not in Gold yet. Reads nothing if no release is recorded."""
    up_to = decided.released_up_to(decisions)
    if not up_to or up_to <= snapshot.last_published(spark, run):
        return None
    waiting = last(spark, run)
    return waiting if waiting is not None and waiting.decision == RELEASED else None


def _results(spark: SparkSession, run: Run, gate_run_id: str) -> list[Row]:
    results = spark.read.table(run.table(GATE_RESULTS).sql).where(F.col("gate_run_id") == gate_run_id)
    rows: list[Row] = results.toArrow().to_pylist()
    return rows
