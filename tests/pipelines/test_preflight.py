"""What a config gets wrong and only an import can tell: found before anything starts."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from lakehouse.config import load
from lakehouse.errors import ConfigError
from pipelines import medallion
from pipelines.job import Job
from tests.conftest import Events
from tests.support.small_config import write_config
from tidemark.commands import main

NOT_NULL = "expect_column_values_to_not_be_null"
BETWEEN = "expect_column_values_to_be_between"
LENGTHS, IN_SET = "expect_column_value_lengths_to_be_between", "expect_column_values_to_be_in_set"
FIELDS = {"format": "json", "schema": "id STRING, n INT, t TIMESTAMP, at STRUCT<lat: DOUBLE>"}
ASIDE, NONE_ASIDE = {"on_fail": "quarantine_rows"}, "it cannot name rows to keep out of Gold."
# An expectation over these fields, its arguments, and words of the error.
EXPECTATIONS: list[tuple[str, dict[str, Any], str]] = [
    ("expect_column_values_to_not_be_nul", {"column": "key"}, "next: Did you mean expect_column_values_to_not_be_null?"),
    (NOT_NULL, {"colum": "key"}, "observed: column: field required; colum: extra fields not permitted"),
    (NOT_NULL, {"column": "key", "mostly": "much"}, "mostly: value is not a valid float; mostly: value is not a valid dict"),
    ("expect_column_values_to_be_increasing", {"column": "sequence"}, "it orders by a constant and knows no streams."),
    ("expect_column_mean_to_be_between", {"column": "payload.n", "min_value": 0, **ASIDE}, NONE_ASIDE),
    ("expect_table_row_count_to_equal", {"value": 3, **ASIDE}, NONE_ASIDE),
    ("expect_column_values_to_be_of_type", {"column": "payload.n", "type_": "LongType", **ASIDE}, NONE_ASIDE),
    (NOT_NULL, {"column": "payload.at.lon"}, "payload.at"),
    (NOT_NULL, {"column": "sequenz"}, "sequenz"),
    ("expect_column_values_to_match_regex", {"column": "payload.id", "regex": "("}, ".regex"),
    ("expect_column_values_to_match_regex_list", {"column": "topic", "regex_list": ["[a"]}, ".regex_list"),
    ("expect_table_columns_to_match_set", {"column_set": ["sequenz"]}, "sequenz"),
    (NOT_NULL, {"column": "key", "row_condition": "sequenz > 3"}, "sequenz"),
    (NOT_NULL, {"column": "key", "row_condition": "offset = 1 or payload.no > 1", "condition_parser": "spark"}, "payload.no"),
    (NOT_NULL, {"column": "key", "row_condition": 'col("sequence") > 3'}, ".row_condition"),
    (NOT_NULL, {"column": "key", "row_condition": 'col("nope") > 3', "condition_parser": "great_expectations"}, "nope"),
    (BETWEEN, {"column": "payload.id", "min_value": 1, "on_fail": "quarantine_rows"}, ".min_value"),
    (BETWEEN, {"column": "topic", "max_value": "9"}, ".max_value"),
    (BETWEEN, {"column": "payload.t", "max_value": 9}, ".max_value"),
    ("expect_column_max_to_be_between", {"column": "key", "max_value": 9}, ".max_value"),
    ("expect_column_mean_to_be_between", {"column": "payload.id", "max_value": 9}, ".column"),
    (IN_SET, {"column": "payload.id", "value_set": [1]}, ".value_set"),
    (IN_SET, {"column": "payload.n", "value_set": ["a"]}, ".value_set"),
    (IN_SET, {"column": "payload.n", "value_set": [1, None]}, ".value_set"),
    (IN_SET, {"column": "payload.t", "value_set": ["yesterday"]}, ".value_set"),
    (IN_SET, {"column": "payload.at", "value_set": ["a"]}, ".column"),
    ("expect_column_most_common_value_to_be_in_set", {"column": "payload.id", "value_set": [1]}, ".value_set"),
    (BETWEEN, {"column": "sequence", "max_value": 2**53 + 1}, "a number that a DOUBLE can hold; sequence is BIGINT"),
    ("expect_column_pair_values_to_be_equal", {"column_A": "payload.id", "column_B": "payload.n"}, ".column_A"),
    ("expect_column_values_to_match_like_pattern", {"column": "payload.id", "like_pattern": "a%"}, "not have it for Spark"),
    ("expect_table_row_count_to_equal_other_table", {"other_table_name": "t"}, "no other table"),
]
MISTAKES: list[tuple[dict[str, Any], str]] = [
    *(({"value": FIELDS, "gate": {"expectations": [{name: given}]}}, message) for name, given, message in EXPECTATIONS),
    ({"gate": {"expectations": [{NOT_NULL: {"column": "payload.id"}}]}}, "`value` section"),
    ({"value": {"format": "json", "schema": "id STRNG"}}, "STRNG"),
    ({"sequence": {"custom": "nowhere_at_all:sequence"}}, "nowhere_at_all"),
    ({"producer": {"custom": "json:no_such_function"}}, "no_such_function"),
    ({"sequence": {"custom": "builtins:max"}}, "sequence.custom"),  # without a signature
    ({"producer": {"custom": "os:sep"}}, "producer.custom"),  # no function
    ({"sequence": {"custom": "tests.pipelines.test_preflight:by_name"}}, "value"),
    ({"epoch": {"custom": "json:dumps"}}, "bronze_records"),
]


def written(folder: Path, changes: dict[str, Any]) -> Path:
    kafka = {"bootstrap_servers": "localhost:1", "topics": ["t"]}
    return write_config(folder, root=str(folder / "lakehouse"), kafka=kafka, **changes)


@pytest.mark.parametrize(("changes", "message"), MISTAKES)
def test_config_check_and_a_run_end_before_they_start_anything(
    changes: dict[str, Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, report = written(tmp_path, changes), Events()
    assert main(["config", "check", "--config", str(file)]) == ConfigError.exit_code
    assert message in capsys.readouterr().err
    with pytest.raises(ConfigError, match=re.escape(message)):
        medallion.run(Job.on(None, load.load(file, environ={}), report))  # type: ignore[arg-type]  # no session is needed
    assert report.seen == []
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.filterwarnings("ignore:Passing a string to the row_condition:DeprecationWarning")  # it is what operators write
def test_a_config_that_is_right_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_extractors.py").write_text("def sequence(key, value):\n    return value\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    changes = {
        "sequence": {"custom": "own_extractors:sequence"},
        "value": {"format": "json", "schema": "id STRING, at STRUCT<lat: DOUBLE>, m MAP<STRING, INT>, d DATE, n DECIMAL(5,1)"},
        "gate": {
            "expectations": [
                {NOT_NULL: {"column": "payload.id", "severity": "warn"}},
                {BETWEEN: {"column": "payload.at.lat", "min_value": -90}},
                {LENGTHS: {"column": "payload.id", "min_value": 1}},
                {"expect_column_values_to_match_regex": {"column": "payload.id", "regex": r"^\p{Lu}+[^](]\)$"}},
                {"expect_table_columns_to_match_set": {"column_set": ["topic"], "exact_match": False}},
                {NOT_NULL: {"column": "key", "row_condition": "Payload.M.k > 3 and length(value) > 2 and topic LIKE 'x = %'"}},
                {NOT_NULL: {"column": "payload.at.lat"}},
                {"expect_column_pair_values_to_be_equal": {"column_A": "key", "column_B": "value"}},
                {"expect_table_row_count_to_be_between": {"min_value": 0}},
            ]
        },
    }
    assert main(["config", "check", "--config", str(written(tmp_path, changes))]) == 0
    monkeypatch.delitem(sys.modules, "own_extractors")


def by_name(*, value: object) -> object:
    """No extractor: its parameter has no place."""
    return value
