"""The gate's tables: a row per expectation and gate run, and a row per operator decision on a gate run."""

from dataclasses import dataclass

from lakehouse.contracts.contract import Column, Contract
from lakehouse.table import GATE_DECISIONS, GATE_RESULTS

PASSED = "passed"
FAILED = "failed"
ERRORED = "errored"

CRITICAL = "critical"
WARN = "warn"

RESTART_SUSPECTED = "restart_suspected"
RESTART_QUESTION = "all records of this stream in this load are duplicates with later timestamps: did the numbering restart?"

RELEASED = "released"
REJECTED = "rejected"

RESULTS = Contract(
    GATE_RESULTS,
    "The result of an expectation on a range of loads in a gate run.",
    (
        Column("gate_run_id", "string", "The gate run"),
        Column("first_load_seq", "bigint", "First load of the audited range"),
        Column("last_load_seq", "bigint", "Last load of the audited range, inclusive"),
        Column("expectation", "string", "Name of the expectation, for example sequence_increases or budget_duplicate_share"),
        Column("column", "string", "Column or fact that it checks"),
        Column("severity", "string", "critical: the loads stay out of Gold if it is not met; warn: it is only recorded"),
        Column("outcome", "string", "passed, failed or errored"),
        Column("success", "boolean", "Whether the expectation was met"),
        Column("observed", "string", "What was observed"),
        Column("expected", "string", "What was expected"),
        Column("silver_version", "bigint", "Delta version of silver_records that was audited"),
        Column("loads_version", "bigint", "Delta version of silver_loads that was audited"),
        Column("run_id", "string", "The run that started the audit"),
        Column("evaluated_at", "timestamp", "When the expectation was evaluated, UTC"),
    ),
)

DECISIONS = Contract(
    GATE_DECISIONS,
    "A person's decision on a failed gate run. Append-only, at most one per gate run.",
    (
        Column("gate_run_id", "string", "The gate run"),
        Column("first_load_seq", "bigint", "First load of its range"),
        Column("last_load_seq", "bigint", "Last load of its range, inclusive"),
        Column("decision", "string", "released: Gold gets the range despite the failure; rejected: Gold never gets it"),
        Column("expectations", "string", "The critical expectations that were not met, by name"),
        Column("reason", "string", "Why, in that person's words"),
        Column("decided_by", "string", "Who decided"),
        Column("run_id", "string", "The run that recorded it"),
        Column("decided_at", "timestamp", "When it was decided, UTC"),
    ),
)


@dataclass(frozen=True)
class Decision:
    """An operator's decision, `released` or `rejected`. It is refused if `gate_run_id` is given and not the last gate run."""

    decision: str
    reason: str
    decided_by: str
    gate_run_id: str | None = None


@dataclass(frozen=True)
class Rejected:
    """The loads that operators rejected, as (first, last) of each rejection, both inclusive; they may overlap.

    >>> 4 in Rejected(((3, 5),)), 6 in Rejected(((3, 5),)), None in Rejected(((3, 5),))
    (True, False, False)
    """

    ranges: tuple[tuple[int, int], ...] = ()

    def __contains__(self, load_seq: int | None) -> bool:
        return load_seq is not None and any(first <= load_seq <= last for first, last in self.ranges)

    def pending(self, after: int, up_to: int) -> tuple[int, int] | None:
        """Return the first and last load of (after, up_to] that are not rejected; None if all are.

        >>> Rejected(((3, 5),)).pending(2, 7), Rejected(((3, 5),)).pending(0, 5), Rejected(((3, 5),)).pending(2, 5)
        ((6, 7), (1, 2), None)
        """
        left = [load_seq for load_seq in range(after + 1, up_to + 1) if load_seq not in self]
        return (left[0], left[-1]) if left else None

    @property
    def excluded(self) -> str:
        """The SQL condition that a row's load is not rejected. Contains numbers only.

        >>> Rejected(((3, 5), (9, 9))).excluded, Rejected().excluded
        ('load_seq NOT BETWEEN 3 AND 5 AND load_seq NOT BETWEEN 9 AND 9', 'true')
        """
        return " AND ".join(f"load_seq NOT BETWEEN {first} AND {last}" for first, last in self.ranges) or "true"


NOTHING_REJECTED = Rejected()


@dataclass(frozen=True)
class GateRun:
    """An audit of the loads that are not published yet, up to `last_load_seq` inclusive.

    The versions are the audited ones. `failed` and `warned` name the critical and the other expectations that failed or
    errored; `unmet` has what each critical one observed. Loads of the range that operators `rejected` stay out of Gold.
    """

    gate_run_id: str
    first_load_seq: int
    last_load_seq: int
    silver_version: int
    loads_version: int
    failed: tuple[str, ...] = ()
    warned: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()
    decision: str | None = None
    rejected: Rejected = NOTHING_REJECTED

    @property
    def named(self) -> str:
        """Its loads and id, for messages."""
        return f"loads {self.first_load_seq} to {self.last_load_seq}, gate run {self.gate_run_id}"

    @property
    def range(self) -> str:
        """The SQL condition that a row's load is in the range and was not rejected. Contains numbers only."""
        return f"load_seq BETWEEN {self.first_load_seq} AND {self.last_load_seq} AND {self.rejected.excluded}"

    @property
    def passed(self) -> bool:
        """Whether every critical expectation was met."""
        return not self.failed

    @property
    def may_be_published(self) -> bool:
        """Whether Gold may publish the range: it passed, or an operator released it."""
        return self.passed or self.decision == RELEASED
