"""Operators' decisions on gate runs that failed: the table `gate_decisions`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lakehouse.contracts.gate import DECISIONS, REJECTED, RELEASED, Rejected
from lakehouse.delta import small_tables, tables
from lakehouse.delta.tables import Transaction
from lakehouse.errors import AnotherWriterError
from lakehouse.spark import frames
from lakehouse.table import GATE_DECISIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from expectations.evidence.measures import Row
    from lakehouse.contracts.gate import Decision, GateRun
    from lakehouse.run.context import Run


def read(spark: SparkSession, run: Run) -> list[Row]:
    """Return all rows of `gate_decisions`; none before the first decision."""
    return small_tables.read(spark, run.table(GATE_DECISIONS), DECISIONS.names, contract=DECISIONS)


def rejected(decisions: Iterable[Row]) -> Rejected:
    """Return the rejected loads."""
    ranges = ((row["first_load_seq"], row["last_load_seq"]) for row in decisions if row["decision"] == REJECTED)
    return Rejected(tuple(sorted(ranges)))


def released_up_to(decisions: Iterable[Row]) -> int:
    """Return the last load of all released ranges; 0 without a release."""
    return max((row["last_load_seq"] for row in decisions if row["decision"] == RELEASED), default=0)


def of(decisions: Iterable[Row], gate_run_id: str) -> Row | None:
    """Return the decision on a gate run, or None."""
    return next((row for row in decisions if row["gate_run_id"] == gate_run_id), None)


def record(spark: SparkSession, run: Run, gate_run: GateRun, asked: Decision) -> None:
    """Append a decision to gate_decisions, in one commit. Delta accepts one of two concurrent decisions on a gate run.

    Raises:
        AnotherWriterError: Another decision on this gate run was recorded meanwhile.
    """
    table = run.table(GATE_DECISIONS)
    tables.create(spark, table, DECISIONS)
    row = {
        "gate_run_id": gate_run.gate_run_id,
        "first_load_seq": gate_run.first_load_seq,
        "last_load_seq": gate_run.last_load_seq,
        "decision": asked.decision,
        "expectations": ", ".join(gate_run.failed),
        "reason": asked.reason,
        "decided_by": asked.decided_by,
        "run_id": run.run_id,
        "decided_at": datetime.now(UTC),
    }
    transaction = Transaction(f"{run.app_id(GATE_DECISIONS)}/{gate_run.gate_run_id}", 1)
    tables.append(frames.of_contract(spark, [row], DECISIONS), table, DECISIONS, transaction=transaction)
    stands = of(read(spark, run), gate_run.gate_run_id)
    if stands is None or stands["run_id"] != run.run_id:
        raise AnotherWriterError(
            "Somebody else has decided on this gate run meanwhile; nothing was written.",
            where=f"{table}, gate run {gate_run.gate_run_id}",
            observed=stands and f"{stands['decision']} by {stands['decided_by']}",
            next_step="See `tidemark gate show`.",
        )
