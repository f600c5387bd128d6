"""The gate over real tables: what passes, what fails, and what is recorded."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

import pytest

from expectations import gate, verdict
from expectations.checks import INVARIANTS
from lakehouse.errors import ConfigError, GateFailedError
from lakehouse.settings.pipeline import Gate
from tests.conftest import Events
from tests.support.silver import two_loads

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import tzinfo
    from pathlib import Path

    from pyspark.sql import Row, SparkSession

    from lakehouse.run.context import Run

pytestmark = pytest.mark.everywhere


@pytest.fixture(scope="module")
def loaded(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, run_at: Callable[[Path], Run]) -> Run:
    """Two finished loads, made once."""
    run = run_at(tmp_path_factory.mktemp("loaded") / "lakehouse")
    two_loads(spark, run)
    return run


@pytest.fixture
def audited(loaded: Run, tmp_path: Path, copied: Callable[[Run, Path], Run]) -> Run:
    """A run over a copy of the loaded tables, for one test to audit and to spoil."""
    return copied(loaded, tmp_path / "lakehouse")


def settings(**gate_settings: Any) -> Gate:
    return Gate.model_validate(gate_settings)


def results(spark: SparkSession, run: Run) -> dict[tuple[str, str], Row]:
    rows = spark.read.table(run.table("gate_results").sql).collect()
    return {(row["expectation"], row["severity"]): row for row in rows}


def test_good_loads_pass_and_every_result_is_recorded(spark: SparkSession, audited: Run) -> None:
    gate_run = gate.audit(spark, audited, Gate())

    assert gate_run is not None
    assert (gate_run.first_load_seq, gate_run.last_load_seq, gate_run.passed) == (1, 2, True)
    assert gate_run.warned == ("budget_missing",)
    recorded = results(spark, audited)
    assert {name for (name, severity), row in recorded.items() if row["success"]} == {
        "budget_late",
        "budget_collision",
        *(invariant.name for invariant in INVARIANTS),
    }
    missing = recorded["budget_missing", "warn"]
    assert (missing["outcome"], missing["observed"], missing["expected"]) == ("failed", "2", "at most 0 in a load")
    assert {row["silver_version"] for row in recorded.values()} == {gate_run.silver_version}
    verdict.raise_if_failed(spark, audited, gate_run)
    assert verdict.last(spark, audited) == gate_run


def test_a_budget_is_held_against_the_worst_load_and_fails_with_a_message_that_says_so(
    spark: SparkSession, audited: Run
) -> None:
    budgets = {"duplicate_share": {"warn": 0.1, "critical": 0.12}, "undecodable": {"critical": 0}}

    gate_run = gate.audit(spark, audited, settings(budgets=budgets))

    assert gate_run is not None
    assert gate_run.failed == ("budget_duplicate_share", "budget_undecodable")
    assert gate_run.warned == ("budget_duplicate_share", "budget_missing")
    with pytest.raises(GateFailedError) as failed:
        verdict.raise_if_failed(spark, audited, gate_run)
    assert failed.value.exit_code == 3
    assert "budget_duplicate_share failed: observed 0.125, expected at most 0.12 in a load" in str(failed.value)
    assert "loosen gate.budgets: duplicate_share, undecodable" in str(failed.value)
    assert verdict.last(spark, audited) == gate_run


@pytest.mark.parametrize(
    ("statement", "failed"),
    [
        (
            "DELETE FROM {silver_records} WHERE partition = 0 AND offset = 6",
            {"silver_matches_ledger", "watermark_matches_silver"},
        ),
        (
            "INSERT INTO {silver_records} SELECT * FROM {silver_records} WHERE partition = 1 AND offset = 2",
            {"silver_matches_ledger", "stream_key_is_unique", "sequence_increases"},
        ),
        (
            "UPDATE {silver_records} SET load_seq = NULL WHERE offset = 1 AND partition = 0",
            {"required_columns_are_not_null", "silver_matches_ledger"},
        ),
        ("UPDATE {silver_watermarks} SET high_watermark = 9 WHERE partition = 0", {"watermark_matches_silver"}),
        ("UPDATE {silver_loads} SET duplicate = 0 WHERE load_seq = 1 AND partition = 0", {"records_are_conserved"}),
    ],
)
def test_a_table_that_was_tampered_with_fails_the_invariant_by_name(
    spark: SparkSession, audited: Run, statement: str, failed: set[str]
) -> None:
    names = ("silver_records", "silver_watermarks", "silver_loads")
    spark.sql(statement.format(**{name: audited.table(name).sql for name in names}))

    gate_run = gate.audit(spark, audited, Gate())

    assert gate_run is not None
    assert set(gate_run.failed) == failed


def test_the_place_of_a_violation_is_recorded(spark: SparkSession, audited: Run) -> None:
    spark.sql(f"DELETE FROM {audited.table('silver_records').sql} WHERE partition = 1 AND offset = 0")

    gate.audit(spark, audited, Gate())

    assert results(spark, audited)["silver_matches_ledger", "critical"]["observed"] == "1: t/1 in load 1"


def test_where_bronzes_versions_are_gone_its_offsets_are_counted_and_that_is_said(
    spark: SparkSession, audited: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object, **__: object) -> None:
        return None

    monkeypatch.setattr("lakehouse.delta.tables.collect_appended", gone)
    monkeypatch.setattr("lakehouse.delta.few_rows.appended", gone)

    gate_run = gate.audit(spark, audited, Gate())

    assert gate_run is not None
    assert gate_run.passed
    assert results(spark, audited)["records_are_conserved", "critical"]["observed"].startswith("0 (by different offsets")
    assert isinstance(audited.report, Events)
    assert audited.report.named("gate.bronze_versions_gone")


def test_a_load_whose_bronze_range_is_unknown_is_an_error_and_not_skipped(spark: SparkSession, audited: Run) -> None:
    spark.sql(f"UPDATE {audited.table('silver_loads').sql} SET bronze_to_version = NULL WHERE load_seq = 2")

    gate_run = gate.audit(spark, audited, Gate())

    assert gate_run is not None
    row = results(spark, audited)["records_are_conserved", "critical"]
    assert (row["outcome"], row["observed"]) == ("errored", "0 (the Bronze range of loads 2 is unknown)")
    assert gate_run.failed == ("records_are_conserved",)


def test_user_expectations_run_on_the_increment_and_one_that_raises_is_errored(spark: SparkSession, audited: Run) -> None:
    expectations: list[dict[str, Any]] = [
        {"expect_column_values_to_not_be_null": {"column": "payload.id", "mostly": 0.5}},
        {"expect_column_values_to_be_between": {"column": "payload.n", "max_value": 4, "severity": "warn"}},
        {"expect_column_values_to_match_regex": {"column": "payload.nope", "regex": "^id"}},
        {"expect_column_values_to_be_in_set": {"column": "gate_run_id", "value_set": ["x"], "severity": "warn"}},
        {"expect_table_row_count_to_be_between": {"min_value": 9, "max_value": 9}},
        {"expect_column_mean_to_be_between": {"column": "payload.n", "min_value": 0}},
    ]

    gate_run = gate.audit(spark, audited, settings(expectations=expectations))

    assert gate_run is not None
    recorded = results(spark, audited)
    found = [(row["outcome"], row["observed"]) for (name, _), row in recorded.items() if name.startswith("expect_")]
    assert sorted(found) == [
        ("errored", 'Error: The column "payload.nope" in BatchData does not exist.'),
        ("failed", "1 of 9 unexpected"),
        ("failed", "9 of 9 unexpected"),
        ("passed", "1 of 9 unexpected"),
        ("passed", "9"),
        ("passed", "not shown: it may be a value of a record"),
    ]
    assert gate_run.failed == ("expect_column_values_to_match_regex",)


@pytest.mark.parametrize(
    "expectation",
    [
        {"expect_column_values_not_null": {"column": "sequence"}},
        {"expect_column_values_to_not_be_null": {}},
    ],
)
def test_an_expectation_that_cannot_be_taken_stops_before_anything_is_audited(
    spark: SparkSession, audited: Run, expectation: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError):
        gate.audit(spark, audited, settings(expectations=[expectation]))

    assert verdict.last(spark, audited) is None
    assert isinstance(audited.report, Events)
    assert audited.report.seen == []


class AnHourAgo(datetime):
    """A clock that was set back."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return super().now(tz) - timedelta(hours=1)


def test_the_verdict_is_that_of_the_last_gate_run_also_when_the_clock_was_set_back(
    spark: SparkSession, audited: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = gate.audit(spark, audited, settings(budgets={"missing": {"critical": 0}}))
    monkeypatch.setattr(gate, "datetime", AnHourAgo)

    after = gate.audit(spark, audited, Gate())

    assert before is not None
    assert (before.passed, verdict.last(spark, audited)) == (False, after)


def test_no_result_holds_a_value_of_a_record(spark: SparkSession, audited: Run) -> None:
    expectations: list[dict[str, Any]] = [
        {"expect_column_most_common_value_to_be_in_set": {"column": "payload.id", "value_set": ["x"]}},
        {"expect_column_distinct_values_to_be_in_set": {"column": "payload.id", "value_set": ["x"]}},
        {"expect_column_values_to_be_between": {"column": "payload.id", "min_value": 1}},  # a text is no number: Spark raises
    ]

    gate.audit(spark, audited, settings(expectations=expectations))

    rows = [row for (name, _), row in results(spark, audited).items() if name.startswith("expect_")]
    assert {row["outcome"] for row in rows} == {"failed", "errored"}
    assert not [row for row in rows if "id" in row["observed"]]


def test_where_great_expectations_raises_all_is_errored_and_the_next_gate_run_lets_out_what_waited(
    spark: SparkSession, audited: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no metric today")

    with monkeypatch.context() as patched:
        patched.setattr("great_expectations.datasource.fluent.interfaces.Batch.validate", broken)
        failed = gate.audit(spark, audited, Gate())
    assert failed is not None
    assert {row["outcome"] for row in results(spark, audited).values()} == {"errored"}
    with pytest.raises(GateFailedError, match="errored"):
        verdict.raise_if_failed(spark, audited, failed)

    passed = gate.audit(spark, audited, Gate())

    assert passed is not None
    assert (passed.passed, verdict.last(spark, audited)) == (True, passed)


def test_nothing_finished_means_nothing_to_audit(spark: SparkSession, audited: Run) -> None:
    spark.sql(f"DELETE FROM {audited.table('silver_watermarks').sql}")

    assert gate.audit(spark, audited, Gate()) is None


def test_data_docs_are_built_beside_the_tables_when_asked_for(spark: SparkSession, audited: Run) -> None:
    gate.audit(spark, audited, settings(data_docs=True))

    beside = audited.lakehouse.beside("_data_docs")
    assert beside is not None
    assert "index.html" in beside.names()
