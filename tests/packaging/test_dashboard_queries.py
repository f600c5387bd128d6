"""Dashboard, alert and consumer of the Databricks bundle, over tables that a pipeline made and a catalog names."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from lakehouse.errors import GateFailedError
from lakehouse.run.context import Run
from lakehouse.table import Lakehouse
from tests.support.bronze import Record
from tests.support.bundle import ROOT, columns_used, dataset_queries, of_kind
from tests.support.small_config import settings_of
from tests.support.stages import loaded, published

SCHEMA = "tidemark_dashboard"
HOSTILE = "<script>alert(1)</script>"
CONFIG: dict[str, Any] = {
    "producer": {"header": "producer"},
    "policies": {"contiguous": True, "max_quarantined_share": 1},
    "gate": {"budgets": {"late": {"critical": 0}}},
}
FIRST = [Record.of(offset, sequence, producer="p") for offset, sequence in enumerate([1, 2, 2, 5])]
SECOND = [Record.of(offset, sequence, producer=HOSTILE) for offset, sequence in ((4, 1), (5, 3), (6, 2))]


@pytest.fixture(scope="module")
def dashboard_run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, run_at: object) -> Iterator[Run]:
    """Load 1: 1 2 5 and a resent 2, published. Load 2: a producer's 1 3, and a late 2 that fails the gate."""
    folder = tmp_path_factory.mktemp("dashboard")
    spark.sql(f"CREATE DATABASE {SCHEMA} LOCATION '{folder / 'tables'}'")
    assert callable(run_at)
    run = replace(run_at(folder), lakehouse=Lakehouse(catalog="spark_catalog", schema=SCHEMA, volume=str(folder / "volume")))
    settings = settings_of(run, **CONFIG)
    loaded(spark, run, settings, FIRST)
    published(spark, run, settings)
    loaded(spark, run, settings, SECOND)
    with pytest.raises(GateFailedError):
        published(spark, run, settings)
    spark.sql(f"USE {SCHEMA}")  # what dataset_catalog and dataset_schema do
    yield run
    spark.sql("USE default")
    spark.sql(f"DROP DATABASE {SCHEMA} CASCADE")


def answer(spark: SparkSession, name: str) -> list[Row]:
    return spark.sql(dataset_queries()[name]).collect()


def test_every_dataset_answers_with_the_columns_that_its_widgets_name(spark: SparkSession, dashboard_run: Run) -> None:
    answers = {name: spark.sql(query) for name, query in dataset_queries().items()}
    assert columns_used() == {name: set(found.columns) for name, found in answers.items()}
    assert [name for name, found in answers.items() if found.isEmpty()] == []


def test_the_gate_says_what_failed_and_what_waits_and_the_alert_sees_it(spark: SparkSession, dashboard_run: Run) -> None:
    (verdict,) = answer(spark, "gate_verdict")
    (fresh,) = answer(spark, "freshness")

    assert (verdict["verdict"], verdict["loads"], verdict["critical_unmet"]) == ("FAILED", "2 to 2", 1)
    assert fresh["waiting_loads"] == 1
    assert 0 <= fresh["minutes_since_load"] <= fresh["minutes_since_published"] < 60  # as slow as the machine was
    unmet = {(row["severity"], row["expectation"], row["observed"]) for row in answer(spark, "gate_unmet")}
    assert ("critical", "budget_late", "1") in unmet
    assert {row["result"] for row in answer(spark, "gate_runs")} == {"met", "warning", "critical, not met"}
    alert = of_kind("alerts")["gate"]
    query = alert["query_text"].replace("${var.catalog}", "spark_catalog")
    query = query.replace("${resources.schemas.lakehouse.name}", SCHEMA)
    assert [row.asDict() for row in spark.sql(query).collect()] == [{alert["evaluation"]["source"]["name"]: 1}]
    assert spark.sql(query.replace("= (", "= 'none' AND gate_run_id = (")).collect()[0][0] == 0


def test_streams_show_classes_jumps_and_what_is_missing(spark: SparkSession, dashboard_run: Run) -> None:
    classes = {(row["load_seq"], row["class"]): row["records"] for row in answer(spark, "records_by_class")}
    order = {row["load_seq"]: (row["jumps_forward"], row["jumps_backward"], row["missing"]) for row in answer(spark, "order")}
    streams = {row["producer"]: (row["records"], row["duplicate"], row["late"]) for row in answer(spark, "streams")}

    assert classes == {(1, "accepted"): 3, (1, "duplicate"): 1, (2, "accepted"): 2, (2, "late"): 1}
    assert order == {1: (1, 0, 2), 2: (1, 1, 1)}
    assert (streams["p"], streams[HOSTILE]) == ((4, 1, 0), (3, 0, 1))
    worst = {(row["stream"], row["class"]): row["records"] for row in answer(spark, "resent_and_late")}
    assert (worst["t/0/p", "duplicate"], worst[f"t/0/{HOSTILE}", "late"]) == (1, 1)
    ranges = [(row["producer"], row["first_sequence"], row["last_sequence"]) for row in answer(spark, "missing_ranges")]
    assert sorted(ranges) == [(HOSTILE, 2, 2), ("p", 3, 4)]
    assert [(row["class"], row["records"], row["oldest_load"]) for row in answer(spark, "quarantine")] == [("late", 1, 2)]


def test_the_consumer_takes_each_published_load_once(spark: SparkSession, dashboard_run: Run) -> None:
    (task,) = of_kind("jobs")["consumer"]["tasks"]
    text = (ROOT / "resources" / task["sql_task"]["file"]["path"]).read_text(encoding="utf-8")
    statements = [part for part in text.split(";") if part.strip()]

    for _ in range(2):
        for statement in statements:
            # As text: Delta's parser hands parameters on to no IDENTIFIER. The platform's own does.
            spark.sql(statement.replace(":lakehouse", f"'spark_catalog.{SCHEMA}'"))

    found = spark.read.table(dashboard_run.table("published_by_topic").sql).collect()
    assert [tuple(row) for row in found] == [(1, "t", 3)]
    assert task["sql_task"]["parameters"].keys() == {"lakehouse"}
    assert Path(task["sql_task"]["file"]["path"]).parts[0] == "files"
