"""The wheel's entry points as a wheel task calls them: found by name, in a process of the platform's, parameters as flags."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from importlib import metadata
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.errors import GateFailedError
from lakehouse.table import Lakehouse
from tests.support.bronze import Record, put
from tests.support.small_config import write_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run

pytestmark = pytest.mark.spark

SCHEMA = "tidemark_tasks"


@pytest.fixture
def named(spark: SparkSession, tmp_path: Path, run: Run) -> Iterator[Run]:
    """A run over tables that a catalog names, with a volume beside them."""
    volume = tmp_path / "volume"
    volume.mkdir()
    spark.sql(f"CREATE DATABASE {SCHEMA} LOCATION '{tmp_path / 'tables'}'")
    yield replace(run, lakehouse=Lakehouse(catalog="spark_catalog", schema=SCHEMA, volume=str(volume)))
    spark.sql(f"DROP DATABASE {SCHEMA} CASCADE")


@pytest.fixture
def task(tmp_path: Path, named: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Runs an entry point as the platform does, which brings the session."""
    config = write_config(tmp_path, root="./lakehouse", lakehouse={}, gate={"budgets": {"late": {"critical": 0}}})
    place = {"catalog": "spark_catalog", "schema": SCHEMA, "volume": str(named.lakehouse.volume)}
    flags = [
        f"--config={config}",
        "--set=kafka.topics=[t]",
        *(f"--set=lakehouse.{key}={value}" for key, value in place.items()),
    ]
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "client.5.0")

    def call(name: str) -> None:
        monkeypatch.setattr(sys, "argv", ["python", *flags])
        (entry,) = [each for each in metadata.distribution("tidemark-lakehouse").entry_points if each.name == name]
        assert entry.load()() is None

    return call


def reports(run: Run) -> list[dict[str, Any]]:
    folder = run.lakehouse.local_folder("_reports")
    assert folder is not None
    return [json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))]


def test_the_tasks_of_the_jobs_return_and_the_reports_lie_on_the_volume(
    spark: SparkSession, named: Run, task: Callable[[str], None]
) -> None:
    put(spark, named, [Record.of(offset, sequence) for offset, sequence in enumerate([1, 2, 2, 4])])

    for name in ("load-silver", "audit-silver", "publish-gold", "maintain-tables"):
        task(f"tidemark-{name}")

    assert spark.read.table(named.table("gold_records").sql).count() == 3
    silver, gate, gold = reports(named)
    assert (silver["silver"]["accepted"], gate["gate"]["passed"], gold["gold"]["records"]) == (3, True, 3)


def test_a_gate_that_fails_fails_its_task_by_an_error_and_gold_refuses_too(
    spark: SparkSession, named: Run, task: Callable[[str], None]
) -> None:
    put(spark, named, [Record.of(offset, sequence) for offset, sequence in enumerate([1, 3, 2])])
    task("tidemark-load-silver")

    for name in ("tidemark-audit-silver", "tidemark-publish-gold"):
        with pytest.raises(GateFailedError):
            task(name)

    assert [report["exit_code"] for report in reports(named)[1:]] == [3, 3]
