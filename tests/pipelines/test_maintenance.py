"""Maintenance over real tables: what it puts together and removes, and that the pipeline goes on as before, beside it too."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

from lakehouse.contracts.silver import LOADS
from lakehouse.delta import maintenance, tables
from lakehouse.delta.log_files import read_log
from lakehouse.run.context import Run
from lakehouse.run.lock import locked
from lakehouse.settings.pipeline import Settings
from lakehouse.sidecar_files import Files
from lakehouse.table import BRONZE_TOPICS, GATE_DECISIONS, GOLD_LATEST_BY_STREAM, GOLD_REJECTS, TABLE_NAMES
from pipelines import medallion, silver_to_gold
from pipelines.job import Job
from silver.load import steps
from silver.rules import Rules
from tests.support.bronze import Record, put
from tests.support.cleaned import clean
from tests.support.small_config import settings_of
from tests.support.stages import loaded, published, require_sound, stopped_at
from tidemark.readers import files as query

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("created_tables")]

WRITTEN = [name for name in TABLE_NAMES if name not in (BRONZE_TOPICS, GATE_DECISIONS, GOLD_LATEST_BY_STREAM, GOLD_REJECTS)]
"""All but what only a broker, a person, a key in several streams or an expectation fills."""


def maintained(spark: SparkSession, run: Run, settings: Settings, *, is_dry_run: bool = False) -> dict[str, dict[str, Any]]:
    done: Any = medallion.maintain(Job.on(spark, settings, run.report), is_dry_run=is_dry_run)
    return {row["table"]: row for row in done["tables"]}


def test_small_files_become_few_and_old_ones_go(spark: SparkSession, new_run: Callable[[], Run], tmp_path: Path) -> None:
    run, file = new_run(), tmp_path / "by_partition.sql"
    root = run.lakehouse.local_root
    assert root is not None
    file.write_text("SELECT partition, count(*) AS records FROM gold_records GROUP BY partition", encoding="utf-8")
    model = {"models": [{"name": "by_partition", "sql": str(file)}]}
    shortest = {"retain_hours": 0, "log_retain_days": 1, "allow_short_retention": True}
    settings = settings_of(run, gold=model, maintenance=shortest)
    for sent in ([Record.of(0, 0)], [Record.of(1, 1), Record.of(2, 1)]):
        loaded(spark, new_run(), settings, sent)
        published(spark, new_run(), settings)
    files = len(read_log(Files(str(root / "silver_records"))).files or {})  # the folder may have empty ones too

    done = maintained(spark, run, settings)
    looked = maintained(spark, run, settings, is_dry_run=True)

    empty = [done.pop(GOLD_LATEST_BY_STREAM)["files_after"], looked.pop(GOLD_LATEST_BY_STREAM)["small_files"]]
    assert empty == [0, 0]
    assert (done["silver_records"]["files_before"], files > 1) == (files, True)
    assert {row["files_after"] for row in done.values()} == {1}
    assert {len(list((root / name).glob("*.parquet"))) for name in (*WRITTEN, "by_partition")} == {1}
    assert {(row["small_files"], row["removed_files"], str(row["properties"])) for row in looked.values()} == {(1, 0, "{}")}
    assert silver_to_gold.run_gold(spark, new_run(), settings)["models"] == ()  # an OPTIMIZE makes no model anew
    clean(spark, run)
    claims = run.table("silver_loads")
    claimed_before = tables.Transaction(run.app_id(claims.name), 1)  # known though its log is gone
    tables.append(spark.read.table(claims.sql), claims, LOADS, transaction=claimed_before)
    assert spark.read.table(claims.sql).count() == 2
    more = loaded(spark, new_run(), settings, [Record.of(3, 9), Record.of(4, 1), Record.of(5, 2.5)])
    assert [more.counts[name] for name in ("accepted", "duplicate", "invalid")] == [1, 1, 1]
    published(spark, new_run(), settings)
    require_sound(spark, run, is_deep=True)
    with query.connect(run.lakehouse) as opened:
        for name in WRITTEN:
            expected = spark.read.table(run.table(name).sql).count()
            assert opened.rows(f"SELECT count(*) AS n FROM {name}") == [{"n": expected}]
            table = DeltaTable(f"{run.lakehouse.root}/{name}")
            counted = QueryBuilder().register("t", table).execute("SELECT count(*) AS n FROM t").read_all()
            assert counted["n"].to_pylist() == [expected]


def test_settings_that_a_platform_does_not_let_a_session_have_are_left_out(spark: SparkSession) -> None:
    fixed, own = "spark.sql.warehouse.dir", "spark.databricks.delta.optimize.minFileSize"
    before = spark.conf.get(fixed)

    with maintenance._configured(spark, {fixed: "/elsewhere", own: "1"}):
        assert (spark.conf.get(fixed), spark.conf.get(own)) == (before, "1")

    assert (spark.conf.get(fixed), spark.conf.get(own, None)) == (before, None)


def test_the_version_of_an_open_claim_is_left_and_it_is_finished(spark: SparkSession, new_run: Callable[[], Run]) -> None:
    run = new_run()
    settings = settings_of(run, maintenance={"retain_hours": 168})
    loaded(spark, run, settings, [Record.of(0, 1)])

    with stopped_at(steps, "append_silver"):
        loaded(spark, new_run(), settings, [Record.of(1, 2), Record.of(2, 1)])
    put(spark, run, [Record.of(3, 3)])

    done = maintained(spark, run, settings)
    finished = steps.load_once(spark, new_run(), Rules.of(settings))
    following = steps.load_once(spark, new_run(), Rules.of(settings))

    assert "claimed load is unfinished" in str(done["bronze_records"]["skipped"])
    assert done["silver_records"]["skipped"] == []
    assert finished is not None
    assert following is not None
    assert (finished.load_seq, finished.is_repeat, finished.counts["accepted"], finished.counts["duplicate"]) == (2, True, 1, 1)
    assert (following.load_seq, following.counts["accepted"]) == (3, 1)
    require_sound(spark, run, is_deep=True)


def test_maintenance_runs_beside_loads(spark: SparkSession, new_run: Callable[[], Run]) -> None:
    run = new_run()
    settings = settings_of(run)
    loaded(spark, run, settings, [Record.of(0, 0)])

    def loads() -> None:
        for at in (1, 2):
            with locked(run.lakehouse, wait_seconds=60):  # as a run of Bronze has it
                put(spark, new_run(), [Record.of(at, at)])
            medallion.run(Job.on(spark, settings, run.report), stage="silver")

    with ThreadPoolExecutor() as pool:
        concurrent = pool.submit(loads)
        maintained(spark, run, settings)
        concurrent.result()

    kept = spark.read.table(run.table("silver_records").sql).orderBy("offset").collect()
    assert [row["load_seq"] for row in kept] == [1, 2, 3]
    require_sound(spark, run)
