"""Build the checks of a gate run: the invariants, and the checks in the settings. Evaluates nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from lakehouse.contracts.gate import CRITICAL, RESTART_SUSPECTED, WARN
from lakehouse.settings.secrets import mask

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakehouse.settings.gate import Budget, Gate, UserExpectation


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
    for invariant in INVARIANTS:
        yield Check(
            name=invariant.name,
            subject=Subject.STREAMS,
            column=invariant.fact,
            severity=CRITICAL,
            type="expect_column_sum_to_be_between",
            expected="0",
            arguments={"column": invariant.fact, "min_value": 0, "max_value": 0},
        )


def _budgets(budgets: Mapping[Any, Budget]) -> Iterator[Check]:
    """Yield one check per limit. A measure that warns by default does not warn if its count or share has a budget."""
    for measure in MEASURES:
        budget = budgets.get(measure.name)
        if budget is not None:
            if budget.warn is not None:
                yield _at_most(measure.name, measure.name, budget.warn, WARN)
            if budget.critical is not None:
                yield _at_most(measure.name, measure.name, budget.critical, CRITICAL)
        elif measure.warns_on is not None and f"{measure.name}_share" not in budgets:
            yield _at_most(measure.name, measure.warns_on, 0, WARN)


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
    """Return the limit of a budget from `gate_results`, because the config may have changed since.

    >>> limit_of("at most 0.2 in a load")
    0.2
    """
    return float(expected.removeprefix("at most ").removesuffix(" in a load"))


def _of_user(expectation: UserExpectation) -> Check:
    arguments = expectation.arguments
    quarantines_rows = expectation.on_fail == "quarantine_rows"
    on_fail = {"on_fail": expectation.on_fail} if quarantines_rows else {}
    shown = mask({**{name: value for name, value in arguments.items() if name != "column"}, **on_fail})
    column = arguments.get("column")
    without_arguments = "none unexpected" if "_values_" in expectation.name else "it holds"
    return Check(
        name=expectation.name,
        subject=Subject.RECORDS,
        column=None if column is None else str(column),
        severity=WARN if quarantines_rows else expectation.severity,
        type=expectation.name,
        expected=json.dumps(shown, default=str) if shown else without_arguments,
        arguments=arguments,
        quarantines_rows=quarantines_rows,
    )


@dataclass(frozen=True)
class Invariant:
    """A property of every stream and load, for any input of a producer. Critical, and not configurable.

    `name` is its name in `gate_results`. `fact` is the column of `StreamFacts` that counts its violations.
    """

    name: str
    fact: str
    meaning: str


INVARIANTS = (
    Invariant(
        "sequence_increases",
        "not_increasing",
        "In a stream, (epoch, sequence) of in-order records rises strictly by offset, the step from the load before included.",
    ),
    Invariant("stream_key_is_unique", "repeated_keys", "No (stream, epoch, sequence) stands twice in the audited loads."),
    Invariant("required_columns_are_not_null", "nulls", "No required column of a kept record is null."),
    Invariant(
        "records_are_conserved",
        "unaccounted",
        "The Bronze records of each partition and load, counted in Bronze, are the sum of the ledger's classes.",
    ),
    Invariant(
        "silver_matches_ledger", "silver_mismatch", "Silver holds as many rows of each stream and load as the ledger accepted."
    ),
    Invariant(
        "watermark_matches_silver",
        "watermark_mismatch",
        "The ledger's watermark is Silver's highest (epoch, sequence), and silver_watermarks says the same.",
    ),
)


@dataclass(frozen=True)
class Measure:
    """A number per audited load that a budget may limit, by its key under `gate.budgets`.

    Without a budget, the fact `warns_on` of a load warns above 0.
    """

    name: str
    meaning: str
    warns_on: str | None = None


MEASURES = (
    Measure("duplicate", "Records that were sent again, or lie below the watermark and are not compared yet"),
    Measure("duplicate_share", "The same, as a share of the load's Bronze records"),
    Measure("late", "Records that came after a higher sequence and were never accepted before", warns_on="late"),
    Measure("late_share", "The same, as a share of the load's Bronze records"),
    Measure("missing", "Sequences in gaps: the accepted records stepped over them", warns_on="missing_of_contiguous"),
    Measure("quarantined", "Records that wait for a decision: late, collision, invalid, jump or fenced"),
    Measure("quarantined_share", "The same, as a share of the load's Bronze records"),
    Measure("undecodable", "Accepted records whose value could not be decoded"),
    Measure("undecodable_share", "The same, as a share of the load's accepted records"),
    Measure("collision", "Records whose sequence was accepted with another payload", warns_on="collision"),
    Measure(
        RESTART_SUSPECTED,
        "Streams with at least ten records in the load, all of them duplicates with later timestamps than their originals",
        warns_on=RESTART_SUSPECTED,
    ),
)
