"""The table that the gate writes: one row per expectation and gate run."""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.contracts.model import Column, Contract
from lakehouse.table import GATE_RESULTS

PASSED = "passed"
FAILED = "failed"
ERRORED = "errored"

CRITICAL = "critical"
WARN = "warn"

RESULTS = Contract(
    GATE_RESULTS,
    "An expectation on a range of loads, as one gate run saw it.",
    (
        Column("gate_run_id", "string", "The gate run"),
        Column("first_load_seq", "bigint", "First load of the audited range"),
        Column("last_load_seq", "bigint", "Last load of the audited range, inclusive"),
        Column("expectation", "string", "Name of the expectation, for example sequence_increases or budget_duplicate_share"),
        Column("column", "string", "Column or fact that it looks at"),
        Column("severity", "string", "critical: keeps Gold where it is when not met; warn: is only recorded"),
        Column("outcome", "string", "passed, failed or errored"),
        Column("success", "boolean", "Whether the expectation was met"),
        Column("observed", "string", "What was observed"),
        Column("expected", "string", "What was expected"),
        Column("silver_version", "bigint", "Delta version of silver_records that was audited"),
        Column("loads_version", "bigint", "Delta version of silver_loads that was audited"),
        Column("run_id", "string", "The run that asked for the audit"),
        Column("evaluated_at", "timestamp", "When the expectation was evaluated, UTC"),
    ),
)


@dataclass(frozen=True)
class GateRun:
    """One audit of the loads that are not published yet, as Gold needs to know it.

    Attributes:
        gate_run_id: The gate run; Gold's rows and commits name it.
        first_load_seq: First load of the audited range.
        last_load_seq: Last load of the audited range, inclusive.
        silver_version: Delta version of silver_records that was audited, and that Gold copies from.
        loads_version: Delta version of silver_loads that was audited.
        failed: Names of the critical expectations that failed or errored; empty where the gate passed.
        warned: Names of the expectations that failed or errored without being critical.
    """

    gate_run_id: str
    first_load_seq: int
    last_load_seq: int
    silver_version: int
    loads_version: int
    failed: tuple[str, ...] = ()
    warned: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether Gold may publish the range."""
        return not self.failed
