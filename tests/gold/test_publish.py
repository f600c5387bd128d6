"""Publishing over real tables: exactly once, whatever stops it and however often it is done."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from expectations import gate
from gold.publish import publish
from gold.sql_models import refresh_models
from lakehouse.contracts.gate import GateRun
from lakehouse.delta import tables
from lakehouse.errors import GateFailedError, ModelError
from lakehouse.run.context import Run
from lakehouse.settings.gate import Gate
from lakehouse.settings.gold import Gold, GoldModel
from tests.support.prepared import Histories, copy_of
from tests.support.silver import two_loads

pytestmark = pytest.mark.everywhere


def passed(spark: SparkSession, run: Run) -> None:
    two_loads(spark, run)
    assert gate.audit(spark, run, Gate()) is not None


audited = copy_of(passed)


@pytest.fixture
def gate_run(spark: SparkSession, histories: Histories) -> GateRun:
    found = gate.last_gate_run(spark, histories.original(passed))
    assert found is not None
    return found


def table(spark: SparkSession, run: Run, name: str) -> DataFrame:
    return spark.read.table(run.table(name).sql)


def assert_gold_holds_silver(spark: SparkSession, run: Run) -> None:
    """gold_records is Silver, row for row, nothing was erased; and the other tables hold what follows of the two loads."""
    gold, silver = (table(spark, run, name).drop("gate_run_id", "erased") for name in ("gold_records", "silver_records"))
    assert gold.dtypes == silver.dtypes
    assert sorted(map(str, gold.collect())) == sorted(map(str, silver.collect()))
    latest = table(spark, run, "gold_latest").selectExpr("CAST(key AS STRING) AS key", "sequence").collect()
    assert sorted(map(tuple, latest)) == [("k1", 5), ("k2", 2), ("k3", 3), ("k4", 4), ("k8", 8)]
    columns = ("load_seq", "partition", "records", "accepted", "duplicate", "missing", "undecodable", "high_watermark")
    health = table(spark, run, "gold_stream_health").select(*columns).collect()
    assert sorted(map(tuple, health)) == [(1, 0, 5, 4, 1, 0, 0, 4), (1, 1, 3, 3, 0, 0, 0, 3), (2, 0, 2, 2, 0, 2, 1, 8)]


def commit(spark: SparkSession, run: Run, name: str) -> dict[str, str]:
    history = spark.sql(f"DESCRIBE HISTORY {run.table(name).sql} LIMIT 1").collect()[0]
    return {**history["operationParameters"], "metadata": history["userMetadata"]}


def model(folder: Path, name: str, text: str) -> GoldModel:
    file = folder / f"{name}.sql"
    file.write_text(text, encoding="utf-8")
    return GoldModel(name=name, sql=file)


def test_what_passed_is_published_once_however_late_or_often_or_by_two_publishers(
    spark: SparkSession, audited: Run, gate_run: GateRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = publish(spark, audited, gate_run, Gold())

    assert (done.first_load_seq, done.last_load_seq, done.records, done.models) == (1, 2, 9, ())
    assert_gold_holds_silver(spark, audited)
    assert commit(spark, audited, "gold_records")["mode"] == "Append"
    named = {"gate_run_id": gate_run.gate_run_id, "silver_version": gate_run.silver_version}
    for name in ("gold_records", "gold_stream_health"):
        assert json.loads(commit(spark, audited, name)["metadata"]) == named
    assert gate.audit(spark, audited, Gate()) is None
    assert gate.last_gate_run(spark, audited) is None

    publish(spark, audited, gate_run, Gold())
    publish(spark, audited, replace(gate_run, last_load_seq=1), Gold())

    assert_gold_holds_silver(spark, audited)
    assert commit(spark, audited, "gold_records")["mode"] == "Append"  # what it holds is not written again

    monkeypatch.setattr("gold.publish.small_tables.highest", lambda *_: 0)  # what a rival read before the first one wrote
    publish(spark, audited, replace(gate_run, gate_run_id="another"), Gold())

    assert_gold_holds_silver(spark, audited)
    assert {row["gate_run_id"] for row in table(spark, audited, "gold_records").collect()} == {"another"}


def test_a_gate_run_that_failed_publishes_nothing_and_models_wait(
    spark: SparkSession, histories: Histories, gate_run: GateRun, tmp_path: Path
) -> None:
    run = histories.original(passed)
    with pytest.raises(GateFailedError):
        publish(spark, run, replace(gate_run, failed=("sequence_increases",)), Gold())
    assert refresh_models(spark, run, Gold(models=(model(tmp_path, "keys", "SELECT 1 AS one"),))) == ()

    assert not tables.exists(spark, run.table("gold_records"))


def test_a_broken_model_leaves_gold_and_others(spark: SparkSession, audited: Run, gate_run: GateRun, tmp_path: Path) -> None:
    by_topic = model(tmp_path, "by_topic", "SELECT topic, count(*) AS n, max(load_seq) AS upto FROM gold_records GROUP BY 1;\n")
    broken = model(tmp_path, "broken", "SELECT nonsense FROM gold_latest -- no such column")
    writes = model(tmp_path, "writes", f"DROP TABLE {audited.table('gold_records').sql}")

    spark.range(1).createOrReplaceTempView("gold_latest")  # a caller's own

    with pytest.raises(ModelError, match="2 of 3 models failed") as failed:
        publish(spark, audited, gate_run, Gold(models=(broken, by_topic, writes)))

    assert spark.table("gold_latest").columns == ["id"]
    spark.catalog.dropTempView("gold_latest")

    assert failed.value.exit_code == 1
    assert "nonsense" in str(failed.value)
    assert_gold_holds_silver(spark, audited)
    assert [tuple(row) for row in table(spark, audited, "by_topic").collect()] == [("t", 9, 2)]
    assert gate.audit(spark, audited, Gate()) is None

    broken.sql.write_text("SELECT count(*) AS keys FROM gold_latest", encoding="utf-8")
    assert refresh_models(spark, audited, Gold(models=(broken, by_topic))) == ("broken",)
    assert [tuple(row) for row in table(spark, audited, "broken").collect()] == [(5,)]

    broken.sql.write_text("SELECT TIMESTAMP_NTZ'2026-11-26 09:30:00' AS local", encoding="utf-8")  # needs a table feature
    assert refresh_models(spark, audited, Gold(models=(broken, by_topic))) == ("broken",)
    assert [str(row["local"]) for row in table(spark, audited, "broken").collect()] == ["2026-11-26 09:30:00"]
