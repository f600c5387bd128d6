"""SIGKILL exactly before and after the link that makes a Delta commit."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse.run.context import Run
from tests.faults.kills import Commit, Durations
from tests.faults.pool import Runner
from tests.faults.test_two_runs import bronze, load, rejects, silver
from tests.support import strace

pytestmark = [pytest.mark.spark, pytest.mark.fault]


@pytest.mark.skipif(not strace.IS_INSTALLED, reason="strace is not installed, and nothing else stops at a system call")
def test_killed_right_before_and_after_each_commit_of_a_load_nothing_is_lost_or_twice(
    spark: SparkSession, new_run: Callable[[], Run], tmp_path: Path, root: list[str], start_runner: Callable[..., Runner]
) -> None:
    kills = [Commit("silver_loads", is_after=False), Commit("silver_records", is_after=True)]
    kills.append(Commit("silver_watermarks", is_after=False))
    run = new_run()
    bronze(spark, run, 0, [1, 2, 2])
    load(spark, run)  # makes the tables
    for nth, kill in enumerate(kills, start=1):
        runner = start_runner()
        bronze(spark, run, 3 * nth, [2 * nth + 1, 2 * nth + 2, 2 * nth + 2])
        runner.get_ready()
        kill.prepare(runner, tmp_path / "lakehouse")
        runner.go(stage="silver", settings=root)
        assert kill.strike(runner, Durations()) is not None
    while load(spark, new_run()) is not None:
        pass

    assert silver(spark, run) == [(3 * nth + place, 2 * nth + 1 + place) for nth in range(4) for place in range(2)]
    assert rejects(spark, run) == [(3 * nth + 2, 1) for nth in range(4)]
