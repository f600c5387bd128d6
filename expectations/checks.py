"""Build the checks of a gate run: the invariants, and the checks in the settings. Evaluates nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from expectations.evidence.facts import INVARIANTS
from lakehouse.contracts.gate import CRITICAL, RESTART_SUSPECTED, WARN
from lakehouse.settings.gate import MEASURES
from lakehouse.settings.secrets import mask

if TYPE_CHECKING:
    from lakehouse.settings.gate import Budget, Gate, Measure, UserExpectation


class Subject(Enum):
    """A check evaluates the facts of each stream and load, the measures of each load, or the new records."""

    STREAMS = "streams"
    LOADS = "loads"
    RECORDS = "records"


@dataclass(frozen=True)
class Check:
    """One expectation of a gate run, and one row of `gate_results`.

    Attributes:
        column: The column or fact that it evaluates; None for whole rows.
        type: The Great Expectations expectation, by its snake_case name.
        expected: What is expected, in words or as JSON; holds no secret.
        quarantines_rows: Whether the rows that do not meet it are kept out of Gold, instead of failing the load.
    """

    name: str
    subject: Subject
    column: str | None
    severity: str
    type: str
    expected: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    quarantines_rows: bool = False


def build(gate: Gate) -> tuple[Check, ...]:
    """Return the invariants, the budgets, then the user's expectations in their order."""
    return (*_invariants(), *_budgets(gate.budgets), *(_of_user(expectation) for expectation in gate.expectations))


def _invariants() -> Iterator[Check]:
    for name, invariant in INVARIANTS.items():
        yield Check(
            name=name,
            subject=Subject.STREAMS,
            column=invariant.fact,
            severity=CRITICAL,
            type="expect_column_sum_to_be_between",
            expected="0",
            arguments={"column": invariant.fact, "min_value": 0, "max_value": 0},
        )


def _budgets(budgets: Mapping[Measure, Budget]) -> Iterator[Check]:
    """Yield one check per limit. A measure that warns by default does not warn if its count or share has a budget."""
    for measure in MEASURES:
        if (budget := budgets.get(measure)) is not None:
            if budget.warn is not None:
                yield _at_most(measure, measure, budget.warn, WARN)
            if budget.critical is not None:
                yield _at_most(measure, measure, budget.critical, CRITICAL)
        elif measure in _WARNS_BY_DEFAULT and f"{measure}_share" not in budgets:
            yield _at_most(measure, _WARNS_BY_DEFAULT[measure], 0, WARN)


def _at_most(measure: str, fact: str, limit: float, severity: str) -> Check:
    return Check(
        name=f"budget_{measure}",
        subject=Subject.LOADS,
        column=fact,
        severity=severity,
        type="expect_column_max_to_be_between",
        expected=f"at most {limit:.15g} in a load",
        arguments={"column": fact, "max_value": limit},
    )


def limit_of(expected: str) -> float:
    """Return a budget's limit as `gate_results` has it, because the config may have changed since.

    >>> limit_of("at most 0.2 in a load")
    0.2
    """
    return float(expected.removeprefix("at most ").removesuffix(" in a load"))


def _of_user(expectation: UserExpectation) -> Check:
    quarantines_rows = expectation.on_fail == "quarantine_rows"
    shown = dict(expectation.arguments)
    column = shown.pop("column", None)
    if quarantines_rows:
        shown["on_fail"] = expectation.on_fail
    without_arguments = "none unexpected" if "_values_" in expectation.name else "it holds"
    return Check(
        name=expectation.name,
        subject=Subject.RECORDS,
        column=None if column is None else str(column),
        severity=WARN if quarantines_rows else expectation.severity,
        type=expectation.name,
        expected=json.dumps(mask(shown), default=str) if shown else without_arguments,
        arguments=expectation.arguments,
        quarantines_rows=quarantines_rows,
    )


_WARNS_BY_DEFAULT = {
    "late": "late",
    "missing": "missing_of_contiguous",
    "collision": "collision",
    RESTART_SUSPECTED: RESTART_SUSPECTED,
}
"""Measures that warn without a budget, each with the number of a load that must be 0."""
