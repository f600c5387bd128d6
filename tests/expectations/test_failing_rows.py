"""`tidemark gate show`: the rows behind what a gate run found not met, over real tables."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from expectations import failing_rows, gate
from lakehouse.contracts.gate import REJECTED, Decision
from lakehouse.run.context import Run
from lakehouse.settings.pipeline import Gate
from pipelines.operate import gate_decision
from tests.support.prepared import Histories
from tests.support.silver import load_records, message, two_loads
from tests.support.small_config import settings_of

GATE = Gate.model_validate(
    {
        "budgets": {"duplicate": {"critical": 0}, "undecodable": {"critical": 0}},
        "expectations": [
            {"expect_column_values_to_not_be_null": {"column": "payload.id"}},
            {"expect_column_values_to_be_null": {"column": "key", "severity": "warn"}},
            {"expect_column_mean_to_be_between": {"column": "payload.n", "max_value": 0}},
            {"expect_column_values_to_match_regex": {"column": "payload.nope", "regex": "^id"}},
        ],
    }
)
SPOILED = (
    "INSERT INTO {silver_records} SELECT * FROM {silver_records} WHERE partition = 1 AND offset = 2",
    "UPDATE {silver_records} SET load_seq = NULL WHERE partition = 0 AND offset = 1",
    "UPDATE {silver_watermarks} SET high_watermark = 9 WHERE partition = 0",
    "UPDATE {silver_loads} SET records = records + 1 WHERE load_seq = 1 AND partition = 0",
    "UPDATE {silver_loads} SET rules = replace(rules, '\"contiguous\": false', '\"contiguous\": true') WHERE load_seq = 2",
)  # each of the invariants is violated by one of these, but the last: it makes the streams of load 2 contiguous


@pytest.fixture(scope="module")
def spoiled(spark: SparkSession, histories: Histories, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The two loads, spoiled by hand and audited; then a load more."""
    run = histories.copy(two_loads, tmp_path_factory.mktemp("spoiled") / "lakehouse")
    names = ("silver_records", "silver_watermarks", "silver_loads")
    for statement in SPOILED:
        spark.sql(statement.format(**{name: run.table(name).sql for name in names}))
    gate.audit(spark, run, GATE)
    spark.sql(f"UPDATE {run.table('silver_watermarks').sql} SET high_watermark = 8 WHERE partition = 0")
    load_records(spark, run, [message(3, 4, partition=1)])
    spark.sql(f"UPDATE {run.table('silver_watermarks').sql} SET high_watermark = 9 WHERE partition = 0")
    return run


def shown(spark: SparkSession, run: Run, gate_settings: Gate, *, rows: int = 20) -> dict[str, Any]:
    found = failing_rows.describe_last_gate_run(spark, run, gate_settings, rows=rows)
    assert found is not None
    return found


def rows_behind(found: dict[str, Any]) -> dict[str, dict[str, list[tuple[object, ...]]]]:
    return {
        each["expectation"]: {kind["what"]: [tuple(row.values()) for row in kind["rows"]] for kind in each["behind"]}
        for each in found["expectations"]
        if each["behind"]
    }


def notes(found: dict[str, Any]) -> dict[str, str]:
    return {each["expectation"]: each["note"] for each in found["expectations"] if each["note"]}


def test_the_rows_streams_and_loads_behind_each_check_that_failed_are_shown(spark: SparkSession, spoiled: Run) -> None:
    found = shown(spark, spoiled, GATE, rows=3)

    assert (found["first_load_seq"], found["last_load_seq"], found["passed"], found["waits"]) == (1, 2, False, True)
    rows = rows_behind(found)
    assert len(rows.pop("expect_column_values_to_be_null")["records that it names"]) == 3
    in_silver, that_differ = "records of silver_records", "streams and loads that differ"
    of_silver = [("t", 0, None, None, 1, None), ("t", 0, None, 1, 3, 4), ("t", 1, None, 1, 4, 3)]
    assert rows == {
        "sequence_increases": {in_silver: [("t", 1, None, 1, 2, 0, 3, 0, 3)]},
        "stream_key_is_unique": {in_silver: [("t", 1, None, 1, 2, 0, 3, "in_order")] * 2},
        "required_columns_are_not_null": {in_silver: [("t", 0, None, None, 1, 0, 2, "in_order")]},
        "records_are_conserved": {that_differ: [("t", 0, None, 1, 5, 6)]},
        "silver_matches_ledger": {that_differ: of_silver},
        "watermark_matches_silver": {that_differ: [("t", 0, None, 2, [0, 8], [0, 8], [0, 9])]},
        "budget_duplicate": {
            "loads above the limit": [(1, 1, 0.0)],
            "rows of silver_rejects": [("t", 0, None, "duplicate", None, 3, 3, 2, 2, 1, 1, "discarded")],
        },
        "budget_undecodable": {"loads above the limit": [(2, 1, 0.0)], in_silver: [("t", 0, None, 6, 0, 8, 2)]},
        "budget_missing": {
            "loads above the limit": [(2, 2, 0.0)],
            "streams that stepped over sequences": [("t", 0, None, 2, 2)],
        },
        "expect_column_values_to_not_be_null": {"records that it names": [("t", 0, 6, None)]},
    }
    by_name = {each["expectation"]: each for each in found["expectations"]}
    assert "t/1 in load 1" in by_name["silver_matches_ledger"]["observed"]
    assert "t/0 in load 1" in by_name["records_are_conserved"]["observed"]
    named = by_name["expect_column_values_to_not_be_null"]
    assert list(named["behind"][0]["rows"][0]) == ["topic", "partition", "offset", "payload.id"]
    assert notes(found) == {"expect_column_values_to_match_regex": "It could not be evaluated; observed says why."}


def test_an_expectation_that_left_the_config_is_marked_and_a_decision_is_shown(spark: SparkSession, spoiled: Run) -> None:
    rejected = Decision(REJECTED, "a test", "ann")
    gate_decision.decide(spark, spoiled, settings_of(spoiled), rejected, is_dry_run=False)

    found = shown(spark, spoiled, Gate())

    assert notes(found)["expect_column_values_to_be_null"] == "gate.expectations does not name it any more."
    assert (found["waits"], found["decision"]["decision"], found["decision"]["reason"]) == (False, "rejected", "a test")
    assert len(rows_behind(found)["silver_matches_ledger"]["streams and loads that differ"]) == 3
