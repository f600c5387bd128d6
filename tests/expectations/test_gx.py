"""Great Expectations itself: what it makes of checks and refuses, and the columns it gets. The import takes seconds."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from pyspark.sql import SparkSession

from expectations import gx
from expectations.checks import Check, Subject, build
from expectations.gx import flatten, kind_of, unlike
from lakehouse.settings.pipeline import Gate


def at_most(name: str, column: str, limit: float, severity: str = "critical") -> Check:
    arguments = {"column": column, "max_value": limit}
    return Check(name, Subject.LOADS, column, severity, "expect_column_max_to_be_between", f"at most {limit}", arguments)


def test_results_come_in_the_order_of_their_checks_with_what_was_observed() -> None:
    checks = [at_most("a", "late", 0), at_most("b", "share", 0.5), at_most("c", "gone", 0), at_most("a", "late", 9)]

    results = gx.evaluate(checks, {Subject.LOADS: [{"late": 0, "share": 0.25}, {"late": 3, "share": 1 / 3}]})

    assert [(r.check.name, r.outcome, r.observed) for r in results] == [
        ("a", "failed", "3"),
        ("b", "passed", "0.333333"),
        ("c", "errored", 'Error: The column "gone" in BatchData does not exist.'),
        ("a", "passed", "3"),
    ]


NOT_NULL = "expect_column_values_to_not_be_null"
ASIDE = {"on_fail": "quarantine_rows"}


def test_data_docs_hold_names_and_outcomes_of_the_last_gate_run_but_no_value(tmp_path: Path) -> None:
    checks = [at_most("budget_late", "late", 0), at_most("odd", "gone", 0)]
    results = gx.evaluate(checks, {Subject.LOADS: [{"late": 4711, "who": "<script>"}]})

    for name in ("20261121T093000-abcdef", "20261121T093100-4502ad"):  # the second may be read as a time 45 hours off UTC
        gx.build_docs(results, tmp_path / "docs", run_name=name)
        assert (tmp_path / "docs" / "index.html").is_file()

    (page,) = (tmp_path / "docs" / "validations").rglob("*.html")
    text = page.read_text(encoding="utf-8")
    assert "maximum value must be" in text
    assert "4711" not in text
    assert "BatchData" not in text


@pytest.mark.parametrize("more", [{"on_fail": "drop"}, {**ASIDE, "severity": "warn"}])  # a warning keeps nothing aside
def test_what_on_fail_cannot_be_is_refused(more: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        Gate.model_validate({"expectations": [{NOT_NULL: {"column": "key", **more}}]})


# Two values of each type of a payload's fields: in SQL, and as a config has them.
VALUES: dict[str, tuple[str, str, Any, Any]] = {
    "STRING": ("'a'", "'b'", "a", "b"),
    "BINARY": ("X'31'", "X'32'", "1", "2"),
    "BOOLEAN": ("false", "true", False, True),
    "TINYINT": ("1", "2", 1, 2),
    "SMALLINT": ("1", "2", 1, "2"),
    "INT": ("1", "2", 1, 2),
    "BIGINT": ("1", "9007199254740992", 1, 9007199254740992),
    "FLOAT": ("0.1", "0.3", 0.1, 0.3),
    "DOUBLE": ("0.1", "0.3", 0.1, "0.3"),
    "DECIMAL(38,10)": ("0.1", "0.3", 0.1, "0.3"),
    "DATE": ("'2026-01-01'", "'2026-01-02'", "2026-01-01", "2026-01-02"),
    "TIMESTAMP": ("'2026-01-01'", "'2026-01-01T10:00:00.5Z'", "2026-01-01", "2026-01-01T11:00:00.5+01:00"),
    "TIMESTAMP_NTZ": ("'2026-01-01'", "'2026-01-01T10:00:00'", "2026-01-01", "2026-01-01T10:00:00Z"),
    "ARRAY<INT>": ("array(1)", "array(2)", 1, 2),
    "STRUCT<p:INT>": ("named_struct('p', 1)", "named_struct('p', 2)", 1, 2),
}
NUMBERS = {"TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(38,10)"}
COMPARED = NUMBERS | {"DATE", "TIMESTAMP", "TIMESTAMP_NTZ"}
IN_SETS = COMPARED | {"STRING", "BOOLEAN"}


def expectations_on(column: str, low: Any, high: Any) -> list[tuple[str, dict[str, Any], set[str]]]:
    """Expectations that the two values meet, by name without `expect_column_`, and the types that they accept."""
    of, both = {"column": column}, {"column": column, "value_set": [low, high]}
    any_number = {**of, "min_value": 0, "max_value": 2**53}
    quantiles = {"quantiles": [0.0, 1.0], "value_ranges": [[0, 2], [0, 2**53]]}
    return [
        ("values_to_be_between", {**of, "min_value": low, "max_value": high}, COMPARED),
        ("min_to_be_between", {**of, "min_value": low, "max_value": low}, COMPARED),
        ("max_to_be_between", {**of, "min_value": high, "max_value": high}, COMPARED),
        *((f"{what}_to_be_between", any_number, NUMBERS) for what in ("mean", "median", "sum", "stdev")),
        ("quantile_values_to_be_between", {**of, "quantile_ranges": quantiles}, NUMBERS),
        ("value_z_scores_to_be_less_than", {**of, "threshold": 3, "double_sided": True}, NUMBERS),
        ("values_to_not_be_outliers", {**of, "method": "std", "multiplier": 3.0}, NUMBERS),
        ("values_to_be_in_set", both, IN_SETS),
        *((f"distinct_values_to_{what}_set", both, IN_SETS) for what in ("be_in", "contain", "equal")),
        ("most_common_value_to_be_in_set", {**both, "ties_okay": True}, IN_SETS),
        ("values_to_be_json_parseable", of, {"BINARY"}),  # the texts are none
        ("values_to_not_be_null", of, set(VALUES)),
        ("pair_values_to_be_equal", {"column_A": column, "column_B": column}, set(VALUES)),
    ]


def test_an_expectation_is_met_on_every_type_that_config_check_accepts(spark: SparkSession) -> None:
    rows = (
        ", ".join(f"'f{at}', CAST({value[which]} AS {sql_type})" for at, (sql_type, value) in enumerate(VALUES.items()))
        for which in (0, 1)
    )
    records = spark.sql(" UNION ALL ".join(f"SELECT named_struct({row}) AS payload" for row in rows))
    accepted: dict[tuple[str, str], Check] = {}
    expected = set()
    for at, (sql_type, (_, _, low, high)) in enumerate(VALUES.items()):
        kinds = {f"payload.f{at}": kind_of(sql_type)}
        for name, arguments, types in expectations_on(f"payload.f{at}", low, high):
            if sql_type in types:
                expected.add((name, sql_type))
            if unlike(f"expect_column_{name}", arguments, kinds) is None and (name, sql_type) != (
                "values_to_be_json_parseable",
                "STRING",
            ):
                gate = Gate.model_validate({"expectations": [{f"expect_column_{name}": arguments}]})
                accepted[name, sql_type] = build(gate)[-1]
    assert set(accepted) == expected

    results = gx.evaluate(list(accepted.values()), {Subject.RECORDS: records})

    assert [
        (*each, found.outcome, found.observed)
        for each, found in zip(accepted, results, strict=True)
        if found.outcome != "passed"
    ] == []


def test_only_the_nested_columns_that_checks_name_become_flat(spark: SparkSession) -> None:
    records = spark.sql("SELECT 't' AS topic, named_struct('id', 7, 'n', named_struct('deep', 8), 'other', 9) AS payload")
    expectations: list[dict[str, Any]] = [
        {"expect_column_values_to_not_be_null": {"column": "payload.id"}},
        {"expect_column_values_to_not_be_null": {"column": "payload.gone"}},
        {"expect_compound_columns_to_be_unique": {"column_list": ["topic", "payload.n.deep"]}},
    ]
    checks = [each for each in build(Gate.model_validate({"expectations": expectations})) if each.subject is Subject.RECORDS]

    flat, renamed = flatten(records, checks)

    assert flat.columns == ["topic", "payload", "payload__id", "payload__n__deep"]
    assert [tuple(row) for row in flat.drop("payload").collect()] == [("t", 7, 8)]
    assert [(check.column, dict(check.arguments)) for check in renamed] == [
        ("payload.id", {"column": "payload__id"}),
        ("payload.gone", {"column": "payload.gone"}),
        (None, {"column_list": ["topic", "payload__n__deep"]}),
    ]
