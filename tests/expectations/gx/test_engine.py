"""Great Expectations itself: what it makes of checks, and what it refuses. The import takes seconds; no JVM is started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from expectations.checks import Check, Subject, build
from expectations.gx import engine
from lakehouse.errors import ConfigError
from lakehouse.settings.pipeline import Gate

if TYPE_CHECKING:
    from pathlib import Path


def at_most(name: str, column: str, limit: float, severity: str = "critical") -> Check:
    arguments = {"column": column, "max_value": limit}
    return Check(name, Subject.LOADS, column, severity, "expect_column_max_to_be_between", f"at most {limit}", arguments)


def require(name: str, arguments: dict[str, Any]) -> None:
    engine.require(build(Gate.model_validate({"expectations": [{name: arguments}]})))


def test_results_come_in_the_order_of_their_checks_with_what_was_observed() -> None:
    checks = [at_most("a", "late", 0), at_most("b", "share", 0.5), at_most("c", "gone", 0), at_most("a", "late", 9)]

    results = engine.evaluate(checks, {Subject.LOADS: [{"late": 0, "share": 0.25}, {"late": 3, "share": 1 / 3}]})

    assert [(r.check.name, r.outcome, r.observed) for r in results] == [
        ("a", "failed", "3"),
        ("b", "passed", "0.333333"),
        ("c", "errored", 'Error: The column "gone" in BatchData does not exist.'),
        ("a", "passed", "3"),
    ]


def test_an_unknown_expectation_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError) as refused:
        require("expect_column_values_not_null", {"column": "key"})

    assert refused.value.where == "gate.expectations[0]"
    assert refused.value.next_step == "Did you mean expect_column_values_to_not_be_null?"


@pytest.mark.parametrize(
    ("arguments", "observed"),
    [
        ({"colum": "key"}, "column: field required; colum: extra fields not permitted"),
        ({"column": "key", "mostly": "much"}, "mostly: value is not a valid float; mostly: value is not a valid dict"),
    ],
)
def test_wrong_arguments_are_refused_by_name(arguments: dict[str, Any], observed: str) -> None:
    with pytest.raises(ConfigError) as refused:
        require("expect_column_values_to_not_be_null", arguments)

    assert refused.value.observed == observed


def test_the_expectation_that_is_wrong_on_spark_is_refused_with_the_reason() -> None:
    with pytest.raises(ConfigError, match="orders by a constant"):
        require("expect_column_values_to_be_increasing", {"column": "sequence"})


def test_data_docs_hold_names_and_outcomes_but_no_value(tmp_path: Path) -> None:
    checks = [at_most("budget_late", "late", 0), at_most("odd", "gone", 0)]
    results = engine.evaluate(checks, {Subject.LOADS: [{"late": 4711, "who": "<script>"}]})

    index = engine.build_docs(results, tmp_path / "docs", run_name="20261121T093000-abcdef")

    pages = [page.read_text(encoding="utf-8") for page in (tmp_path / "docs" / "validations").rglob("*.html")]
    assert index.is_file()
    assert len(pages) == 1
    assert "maximum value must be" in pages[0]
    assert "4711" not in pages[0]
    assert "BatchData" not in pages[0]


def test_data_docs_show_the_last_gate_run(tmp_path: Path) -> None:
    results = engine.evaluate([at_most("budget_late", "late", 0)], {Subject.LOADS: [{"late": 0}]})

    for name in ("20261121T093000-aaaaaa", "20261121T093100-4502ad"):  # the second may be read as a time 45 hours off UTC
        engine.build_docs(results, tmp_path, run_name=name)

    assert len(list((tmp_path / "validations").rglob("*.html"))) == 1


@pytest.mark.parametrize("name", ["expect_column_mean_to_be_between", "expect_table_row_count_to_equal"])
def test_an_expectation_that_names_no_rows_cannot_keep_any_aside(name: str) -> None:
    arguments = {"value": 3} if "table" in name else {"column": "payload.n", "min_value": 0}

    with pytest.raises(ConfigError, match="names none that could be kept aside") as refused:
        require(name, {**arguments, "on_fail": "quarantine_rows"})

    assert refused.value.where == "gate.expectations[0]"


def test_an_expectation_on_a_columns_type_cannot_either() -> None:
    with pytest.raises(ConfigError, match="names none that could be kept aside"):
        require("expect_column_values_to_be_of_type", {"column": "n", "type_": "LongType", "on_fail": "quarantine_rows"})


@pytest.mark.parametrize(
    "arguments",
    [{"on_fail": "drop"}, {"on_fail": "quarantine_rows", "severity": "warn"}],
    ids=["unknown", "a warning keeps nothing aside"],
)
def test_what_on_fail_cannot_be_is_refused(arguments: dict[str, str]) -> None:
    given = {"expectations": [{"expect_column_values_to_not_be_null": {"column": "key", **arguments}}]}

    with pytest.raises(ValidationError):
        Gate.model_validate(given)
