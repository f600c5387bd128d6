"""The wheel's entry points as a wheel task calls them: found by name, in a process of the platform's, parameters as flags."""

import json
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse.run.context import Run
from lakehouse.table import Lakehouse
from tests.support.bronze import Record, put
from tests.support.small_config import write_config


def test_the_tasks_of_the_jobs_return_or_raise_and_their_reports_are_on_the_volume(
    spark: SparkSession, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    spark.sql(f"CREATE DATABASE tidemark_tasks LOCATION '{tmp_path / 'tables'}'")
    place = Lakehouse(catalog="spark_catalog", schema="tidemark_tasks", volume=str(volume))
    named = replace(run, lakehouse=place)
    config = write_config(tmp_path, root="./lakehouse", lakehouse={}, gate={"budgets": {"late": {"critical": 0}}})
    sets = ["kafka.topics=[t]", *(f"lakehouse.{key}={getattr(place, key)}" for key in ("catalog", "schema", "volume"))]
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "client.5.0")  # the platform brings the session

    def task(name: str) -> None:
        monkeypatch.setattr(sys, "argv", ["python", f"--config={config}", *(f"--set={each}" for each in sets)])
        entries = metadata.distribution("tidemark-lakehouse").entry_points
        (entry,) = [each for each in entries if each.name == f"tidemark-{name}"]
        assert entry.load()() is None

    put(spark, named, [Record.of(offset, sequence) for offset, sequence in enumerate([1, 2, 2, 4])])
    for name in ("maintain-tables", "load-silver", "audit-silver", "publish-gold"):
        task(name)
    assert spark.read.table(named.table("gold_records").sql).count() == 3

    files = sorted((volume / "_reports").glob("*.json"))
    silver, gate, gold = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    assert (silver["silver"]["accepted"], gate["gate"]["passed"], gold["gold"]["records"]) == (3, True, 3)
    spark.sql("DROP DATABASE tidemark_tasks CASCADE")
