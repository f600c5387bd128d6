"""The gate over real tables: what passes, what fails, and what is recorded."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from pyspark.sql import Row, SparkSession

from expectations import failing_rows, gate
from expectations.evidence.facts import INVARIANTS
from lakehouse.contracts.gate import GateRun
from lakehouse.errors import ConfigError, GateFailedError
from lakehouse.run.context import Run
from lakehouse.settings.pipeline import Gate
from tests.conftest import Events
from tests.support.bronze import Record
from tests.support.prepared import copy_of
from tests.support.silver import load_records, message, two_loads

pytestmark = pytest.mark.everywhere

AN_HOUR_LATER = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)


loaded = copy_of(two_loads)


def audited(spark: SparkSession, run: Run, **settings: Any) -> GateRun:
    gate_run = gate.audit(spark, run, Gate.model_validate(settings))
    assert gate_run is not None
    return gate_run


def results(spark: SparkSession, run: Run, gate_run: GateRun) -> dict[tuple[str, str], Row]:
    rows = spark.read.table(run.table("gate_results").sql).where(f"gate_run_id = '{gate_run.gate_run_id}'").collect()
    return {(row["expectation"], row["severity"]): row for row in rows}


def test_good_loads_pass_after_an_errored_gate_run(spark: SparkSession, loaded: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no metric today")

    with monkeypatch.context() as patched:
        patched.setattr("great_expectations.datasource.fluent.interfaces.Batch.validate", broken)
        errored = audited(spark, loaded)
    assert {row["outcome"] for row in results(spark, loaded, errored).values()} == {"errored"}
    with pytest.raises(GateFailedError, match="errored"):
        gate.raise_if_failed(loaded, errored)
    spark.sql(f"UPDATE {loaded.table('gate_results').sql} SET evaluated_at = evaluated_at + INTERVAL 1 HOUR")

    gate_run = audited(spark, loaded, data_docs=True)

    assert (gate_run.first_load_seq, gate_run.last_load_seq, gate_run.passed) == (1, 2, True)
    assert gate_run.warned == (), "gaps are no news"
    recorded = results(spark, loaded, gate_run)
    passed = {name for (name, severity), row in recorded.items() if row["success"]}
    budgets = {f"budget_{name}" for name in ("late", "missing", "collision", "restart_suspected")}
    assert passed == {*budgets, *INVARIANTS}
    missing = recorded["budget_missing", "warn"]
    assert (missing["column"], missing["observed"]) == ("missing_of_contiguous", "0")
    assert {row["silver_version"] for row in recorded.values()} == {gate_run.silver_version}
    gate.raise_if_failed(loaded, gate_run)
    assert gate.last_gate_run(spark, loaded) == gate_run
    data_docs = loaded.lakehouse.sidecar_files("_data_docs")
    assert data_docs is not None
    assert "index.html" in data_docs.sizes()


MANY: dict[str, Any] = {
    "budgets": {"duplicate_share": {"warn": 0.1, "critical": 0.12}, "undecodable": {"critical": 0}, "missing": {"warn": 1}},
    "expectations": [
        {"expect_column_values_to_not_be_null": {"column": "payload.id", "mostly": 0.5}},
        {"expect_column_values_to_be_between": {"column": "payload.n", "max_value": 4, "severity": "warn"}},
        {"expect_column_values_to_match_regex": {"column": "payload.nope", "regex": "^id"}},
        {"expect_column_values_to_be_in_set": {"column": "gate_run_id", "value_set": ["x"], "severity": "warn"}},
        {"expect_table_row_count_to_be_between": {"min_value": 9, "max_value": 9}},
        {"expect_column_mean_to_be_between": {"column": "payload.n", "min_value": 0}},
        # The rest would show a value. A text is no number: Spark raises.
        {"expect_column_most_common_value_to_be_in_set": {"column": "payload.id", "value_set": ["x"]}},
        {"expect_column_distinct_values_to_be_in_set": {"column": "payload.id", "value_set": ["x"]}},
        {"expect_column_values_to_be_between": {"column": "payload.id", "min_value": 1}},
    ],
}


def test_budgets_and_user_expectations_fail_a_gate_run_and_show_no_value(spark: SparkSession, loaded: Run) -> None:
    gate_run = audited(spark, loaded, **MANY)

    assert {name for name in gate_run.failed if name.startswith("budget")} == {"budget_duplicate_share", "budget_undecodable"}
    assert {name for name in gate_run.warned if name.startswith("budget")} == {"budget_duplicate_share", "budget_missing"}
    with pytest.raises(GateFailedError) as raised:
        gate.raise_if_failed(loaded, gate_run)
    assert raised.value.exit_code == 3
    assert "budget_duplicate_share failed: observed 0.125, expected at most 0.12 in a load" in str(raised.value)
    assert "loosen gate.budgets: duplicate_share, undecodable" in str(raised.value)
    assert "expect_column_values_to_match_regex on payload.nope errored: observed" in str(raised.value)
    assert gate.last_gate_run(spark, loaded) == gate_run

    rows = [row for (name, _), row in results(spark, loaded, gate_run).items() if name.startswith("expect_")]
    found = {(row["outcome"], row["observed"]) for row in rows}
    assert {
        ("errored", 'Error: The column "payload.nope" in BatchData does not exist.'),
        ("failed", "1 of 9 unexpected"),
        ("failed", "9 of 9 unexpected"),
        ("passed", "1 of 9 unexpected"),
        ("passed", "9"),
        ("passed", "not shown: it may be a value of a record"),
    } <= found
    assert "expect_column_values_to_match_regex" in gate_run.failed
    assert not [observed for _, observed in found if "id" in observed]


def test_bronze_without_versions_counts_by_offset(spark: SparkSession, loaded: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object, **__: object) -> None:
        return None

    with monkeypatch.context() as patched:
        patched.setattr("lakehouse.delta.tables.collect_appended", gone)
        counted = audited(spark, loaded)
    spark.sql(f"UPDATE {loaded.table('silver_loads').sql} SET bronze_to_version = NULL WHERE load_seq = 2")
    unknown = audited(spark, loaded)

    by_offset, not_at_all = (results(spark, loaded, each)["records_are_conserved", "critical"] for each in (counted, unknown))
    assert counted.passed
    assert by_offset["observed"].startswith("0 (by different offsets")
    assert cast(Events, loaded.report).named("gate.bronze_versions_gone")
    assert unknown.failed == ("records_are_conserved",)
    assert (not_at_all["outcome"], not_at_all["observed"]) == ("errored", "0 (the Bronze range of loads 2 is unknown)")


def test_a_stream_of_later_duplicates_only_is_asked_about_and_a_retried_one_is_not(spark: SparkSession, loaded: Run) -> None:
    constant = [Record(nth, b"OK", b"sensor-7", (("seq", b"%d" % (nth + 1)),), partition=2) for nth in range(30)]
    load_records(spark, loaded, constant)
    again = [replace(record, offset=record.offset + 30, timestamp=AN_HOUR_LATER) for record in constant]
    retried = [message(7 + nth, nth % 4 + 1, key=f"k{nth % 4 + 1}") for nth in range(12)]
    load_records(spark, loaded, [*again, *retried])

    gate_run = audited(spark, loaded)

    assert (gate_run.passed, "budget_restart_suspected" in gate_run.warned) == (True, True)
    observed = results(spark, loaded, gate_run)["budget_restart_suspected", "warn"]["observed"]
    assert observed == (
        "1: t/2 in load 4: all records of this stream in this load are duplicates with later timestamps: "
        "did the numbering restart?"
    )
    (reported,) = cast(Events, loaded.report).named("gate.restart_suspected")
    assert reported == {"severity": "warn", "observed": observed}
    shown = failing_rows.describe_last_gate_run(spark, loaded, Gate(), rows=1)
    assert shown is not None
    behind = {each["expectation"]: [kind["rows"] for kind in each["behind"]] for each in shown["expectations"]}
    stream = {"topic": "t", "partition": 2, "producer": None, "load_seq": 4, "duplicate": 30}
    assert behind["budget_restart_suspected"] == [[{"load_seq": 4, "restart_suspected": 1, "limit": 0.0}], [stream]]


def test_an_unknown_expectation_and_an_empty_increment_leave_no_verdict(spark: SparkSession, loaded: Run) -> None:
    with pytest.raises(ConfigError):
        audited(spark, loaded, expectations=[{"expect_column_values_not_null": {"column": "sequence"}}])
    assert gate.last_gate_run(spark, loaded) is None
    assert cast(Events, loaded.report).seen == []

    spark.sql(f"DELETE FROM {loaded.table('silver_watermarks').sql}")
    assert gate.audit(spark, loaded, Gate()) is None
