"""SIGKILL exactly before and after the link that makes a Delta commit, and at each step of the gate and of Gold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakehouse.extract.sources import Source
from pipelines import medallion
from pipelines.job import Job
from silver.load import steps
from silver.rules import Rules
from silver.state import tables
from tests.faults.kills import Commit, Durations, Point
from tests.support import strace
from tests.support.bronze import Record, put
from tests.support.small_config import settings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from tests.faults.pool import Runner

pytestmark = [pytest.mark.spark, pytest.mark.fault]

_RULES = Rules(Source("header", "seq"))


def offsets(spark: SparkSession, run: Run, name: str) -> list[int]:
    rows = spark.read.table(run.table(name).sql).orderBy("offset").collect()
    return [row["offset"] for row in rows]


@pytest.mark.skipif(not strace.IS_INSTALLED, reason="strace is not installed, and nothing else stops at a system call")
def test_killed_right_before_and_after_each_commit_of_a_load_nothing_is_lost_or_twice(
    spark: SparkSession, new_run: Callable[[], Run], tmp_path: Path, root: list[str], mortals: Callable[[int], Iterator[Runner]]
) -> None:
    kills = [Commit("silver_loads", is_after=False), Commit("silver_records", is_after=True)]
    kills.append(Commit("silver_watermarks", is_after=False))
    run = new_run()
    tables.create_tables(spark, run, _RULES)
    for nth, (kill, runner) in enumerate(zip(kills, mortals(len(kills)), strict=True)):
        put(spark, run, [Record.of(3 * nth + place, 2 * nth + sequence) for place, sequence in enumerate([1, 2, 2])])
        kill.prepare(runner, tmp_path / "lakehouse")
        runner.go(stage="silver", settings=root)
        assert kill.strike(runner, Durations()) is not None
    while steps.load_once(spark, new_run(), _RULES) is not None:
        pass

    assert offsets(spark, run, "silver_records") == [offset for offset in range(3 * len(kills)) if offset % 3 < 2]
    rejects = spark.read.table(run.table("silver_rejects").sql).select("first_offset", "records").collect()
    assert sorted(map(tuple, rejects)) == [(3 * nth + 2, 1) for nth in range(len(kills))]


@pytest.mark.everywhere
def test_killed_at_each_step_of_the_gate_and_of_gold_every_record_is_published_once(
    spark: SparkSession, new_run: Callable[[], Run], tmp_path: Path, root: list[str], mortals: Callable[[int], Iterator[Runner]]
) -> None:
    points = ["gate.audited", "gate.recorded", "gold.records", "gold.latest", "gold.published", "gold.model_made"]
    query = tmp_path / "by_key.sql"
    query.write_text("SELECT key, count(*) AS records FROM gold_records GROUP BY key", encoding="utf-8")
    models = {"models": [{"name": "by_key", "sql": str(query)}]}
    run = new_run()
    settings = settings_of(run, gold=models)
    tables.create_tables(spark, run, _RULES)
    for nth, (point, runner) in enumerate(zip(points, mortals(len(points)), strict=True)):
        if nth % 2 == 0:  # with and without new input since the one that died before
            put(spark, run, [Record.of(nth, nth), Record.of(nth + 1, nth + 1)])
            steps.load_once(spark, new_run(), _RULES)
        stage = point.partition(".")[0]
        if stage == "gold":
            medallion.run(Job.on(spark, settings, run.report), "gate")
        runner.go(stage=stage, crash_at=point, settings=[*root, f"gold={models}"])
        assert Point(point).strike(runner, Durations()) == f"at {point}"
    for stage in ("gate", "gold"):
        medallion.run(Job.on(spark, settings, run.report), stage)

    assert offsets(spark, run, "gold_records") == offsets(spark, run, "silver_records") == list(range(len(points)))
    assert offsets(spark, run, "gold_latest") == [len(points) - 1]
    health = spark.read.table(run.table("gold_stream_health").sql).orderBy("load_seq").collect()
    assert [(row["load_seq"], row["records"]) for row in health] == [(1, 2), (2, 2), (3, 2)]
    assert [row["records"] for row in spark.read.table(run.table("by_key").sql).collect()] == [len(points)]
    results = spark.read.table(run.table("gate_results").sql).groupBy("gate_run_id").count().collect()
    assert len({row["count"] for row in results}) == 1, "a gate run is recorded whole or not at all"
