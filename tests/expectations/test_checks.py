"""The checks that the settings ask for."""

from typing import Any

import pytest

from expectations.checks import Subject, build
from expectations.evidence.facts import INVARIANTS, BronzeCounts, Evidence, load_facts
from lakehouse.settings.gate import MEASURES
from lakehouse.settings.pipeline import Gate
from lakehouse.settings.secrets import Secret

BY_DEFAULT = ("late", "missing", "collision", "restart_suspected")
LATE, MISSING, COLLISION, RESTART = ((f"budget_{name}", "warn", "at most 0 in a load") for name in BY_DEFAULT)
# Budgets, and the checks of loads: each limit is a check of its own, and a measure's own budget replaces its default.
BUDGETS: list[tuple[dict[str, Any], list[tuple[str, str, str]]]] = [
    ({}, [LATE, MISSING, COLLISION, RESTART]),
    (
        {"duplicate_share": {"warn": 0.2, "critical": 0.5}},
        [
            ("budget_duplicate_share", "warn", "at most 0.2 in a load"),
            ("budget_duplicate_share", "critical", "at most 0.5 in a load"),
            *(LATE, MISSING, COLLISION, RESTART),
        ],
    ),
    (
        {"missing": {"critical": 1_234_567}},
        [LATE, ("budget_missing", "critical", "at most 1234567 in a load"), COLLISION, RESTART],
    ),
    ({"late": {"critical": 1}}, [("budget_late", "critical", "at most 1 in a load"), MISSING, COLLISION, RESTART]),
    ({"late_share": {"critical": 1}}, [("budget_late_share", "critical", "at most 1 in a load"), MISSING, COLLISION, RESTART]),
]


@pytest.mark.parametrize(("budgets", "expected"), BUDGETS)
def test_budgets_are_checks_of_loads_next_to_invariants(budgets: dict[str, Any], expected: list[tuple[str, str, str]]) -> None:
    checks = build(Gate.model_validate({"budgets": budgets}))

    assert [(each.name, each.severity, each.expected) for each in checks if each.subject is Subject.LOADS] == expected
    others = [(each.name, each.severity) for each in checks if each.subject is not Subject.LOADS]
    assert others == [(name, "critical") for name in INVARIANTS]


def test_a_user_expectation_is_critical_unless_it_says_warn_and_shows_no_secret() -> None:
    expectations: list[dict[str, Any]] = [
        {"expect_column_values_to_not_be_null": {"column": "payload.id"}},
        {"expect_column_values_to_be_between": {"column": "payload.n", "min_value": 0, "severity": "warn"}},
        {"expect_column_values_to_match_regex": {"column": "payload.id", "regex": Secret("hidden")}},
    ]

    own = [c for c in build(Gate.model_validate({"expectations": expectations})) if c.subject is Subject.RECORDS]

    assert [(c.name, c.column, c.severity, c.expected) for c in own] == [
        ("expect_column_values_to_not_be_null", "payload.id", "critical", "none unexpected"),
        ("expect_column_values_to_be_between", "payload.n", "warn", '{"min_value": 0}'),
        ("expect_column_values_to_match_regex", "payload.id", "critical", '{"regex": "********"}'),
    ]
    assert "hidden" not in repr(own)


def test_every_measure_that_is_checked_is_a_fact_of_a_load() -> None:
    (load,) = load_facts(Evidence(1, 1, [], [], [], BronzeCounts({})))
    by_default = {check.column for check in build(Gate()) if check.subject is Subject.LOADS}

    assert set(MEASURES) | by_default < set(load)
