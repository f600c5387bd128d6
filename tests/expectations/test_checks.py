"""The checks that the settings ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import pytest

from expectations.checks import INVARIANTS, MEASURES, Subject, build
from expectations.evidence.measures import LoadFacts, StreamFacts
from lakehouse.settings.gate import Measure
from lakehouse.settings.pipeline import Gate
from lakehouse.settings.secrets import Secret

if TYPE_CHECKING:
    from collections.abc import Mapping


def limits(**budgets: Mapping[str, float]) -> list[tuple[str, str, str]]:
    gate = Gate.model_validate({"budgets": budgets})
    return [(c.name, c.severity, c.expected) for c in build(gate) if c.subject is Subject.LOADS]


def test_without_budgets_late_missing_and_collision_warn_and_only_the_invariants_are_critical() -> None:
    checks = build(Gate())

    assert limits() == [
        ("budget_late", "warn", "at most 0 in a load"),
        ("budget_missing", "warn", "at most 0 in a load"),
        ("budget_collision", "warn", "at most 0 in a load"),
    ]
    assert [c.name for c in checks if c.severity == "critical"] == [invariant.name for invariant in INVARIANTS]


def test_each_limit_of_a_budget_is_a_check_of_its_own() -> None:
    assert limits(duplicate_share={"warn": 0.2, "critical": 0.5})[:2] == [
        ("budget_duplicate_share", "warn", "at most 0.2 in a load"),
        ("budget_duplicate_share", "critical", "at most 0.5 in a load"),
    ]


def test_a_large_limit_is_shown_whole() -> None:
    assert limits(missing={"critical": 1_234_567})[1] == ("budget_missing", "critical", "at most 1234567 in a load")


@pytest.mark.parametrize("measure", ["late", "late_share"])
def test_a_budget_for_late_replaces_the_default_warning(measure: str) -> None:
    assert [name for name, _, _ in limits(**{measure: {"critical": 1}})] == [
        f"budget_{measure}",
        "budget_missing",
        "budget_collision",
    ]


def test_a_user_expectation_is_critical_unless_it_says_warn() -> None:
    expectations: list[dict[str, Any]] = [
        {"expect_column_values_to_not_be_null": {"column": "payload.id"}},
        {"expect_column_values_to_be_between": {"column": "payload.n", "min_value": 0, "severity": "warn"}},
    ]

    own = [c for c in build(Gate.model_validate({"expectations": expectations})) if c.subject is Subject.RECORDS]

    assert [(c.name, c.column, c.severity, c.expected) for c in own] == [
        ("expect_column_values_to_not_be_null", "payload.id", "critical", "none unexpected"),
        ("expect_column_values_to_be_between", "payload.n", "warn", '{"min_value": 0}'),
    ]


def test_an_argument_from_a_secret_is_not_shown() -> None:
    expectation = {"expect_column_values_to_match_regex": {"column": "payload.id", "regex": Secret("hidden")}}

    check = build(Gate.model_validate({"expectations": [expectation]}))[-1]

    assert check.expected == '{"regex": "********"}'
    assert "hidden" not in repr(check)


def test_every_measure_of_the_settings_is_a_fact_of_a_load() -> None:
    measures = {measure.name for measure in MEASURES}

    assert measures == set(get_args(Measure))
    assert measures < set(LoadFacts(1).as_row())


def test_every_invariant_is_a_fact_of_a_stream() -> None:
    assert {invariant.fact for invariant in INVARIANTS} < set(vars(StreamFacts("t", 0, None, 1)))
