"""Two and three processes over one root at once: one of them stopped in the middle and woken, too late."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakehouse.extract.sources import Source
from pipelines.recover import restore
from silver.load import steps
from silver.rules import Rules
from silver.state import tables
from tests.support.bronze import Record, put
from tests.support.small_config import settings_of
from tests.support.stages import loaded, require_sound

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from tests.faults.pool import Runner

pytestmark = [pytest.mark.everywhere, pytest.mark.fault]

_RULES = Rules(Source("header", "seq"))
_PATIENCE_SECONDS = 120
_NO_LOCK = "only a local root has a lock"


def bronze(spark: SparkSession, run: Run, first: int, sequences: list[int]) -> None:
    put(spark, run, [Record.of(first + nth, sequence) for nth, sequence in enumerate(sequences)])


def silver(spark: SparkSession, run: Run) -> list[tuple[int, int]]:
    rows = spark.read.table(run.table("silver_records").sql).orderBy("offset").collect()
    return [(row["offset"], row["sequence"]) for row in rows]


def exit_codes(runners: list[Runner]) -> list[int]:
    return sorted(runner.wait_for("done")["exit_code"] for runner in runners)


def wait_until_stopped(runner: Runner) -> None:
    """Until the process stands still."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while "State:\tT" not in Path(f"/proc/{runner.process.pid}/status").read_text():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize("is_locked", [True, False], ids=["locked", "unlocked"])
def test_of_three_runs_at_once_one_loads_and_the_others_leave(
    spark: SparkSession, new_run: Callable[[], Run], root: list[str], team: list[Runner], is_locked: bool
) -> None:
    run = new_run()
    if is_locked and run.lakehouse.local_root is None:
        pytest.skip(_NO_LOCK)
    bronze(spark, run, 0, [1, 2, 2, 3])
    tables.create_tables(spark, run, _RULES)

    for runner in team:
        runner.go(stage="silver", settings=root, is_locked=is_locked)
    codes = exit_codes(team)

    # Without the lock a second one may find the first one's claim, and carry it out with it: that is no failure.
    assert codes == [0, 4, 4] if is_locked else set(codes) <= {0, 4}
    steps.load_once(spark, new_run(), _RULES)
    assert silver(spark, run) == [(0, 1), (1, 2), (3, 3)]
    assert spark.read.table(run.table("silver_rejects").sql).count() == 1
    assert spark.read.table(run.table("silver_loads").sql).count() == 1


@pytest.mark.parametrize("point", ["silver.claimed", "silver.rejected"])
def test_a_run_that_sleeps_before_a_commit_changes_nothing_when_it_wakes_after_others_have_gone_on(
    spark: SparkSession, new_run: Callable[[], Run], root: list[str], team: list[Runner], point: str
) -> None:
    sleeper, other, _ = team
    run = new_run()
    bronze(spark, run, 0, [1, 2, 2])
    sleeper.go(stage="silver", settings=root, stop_at=point, is_locked=False)
    wait_until_stopped(sleeper)
    bronze(spark, run, 3, [3, 3])
    other.go(stage="silver", settings=root, is_locked=False)
    done = other.wait_for("done")

    os.kill(sleeper.process.pid, signal.SIGCONT)
    woken = sleeper.wait_for("done")

    assert done["exit_code"] == 0, done
    assert (done["silver"]["loads"], done["silver"]["repeated"]) == ([1, 2], [1])
    assert woken["exit_code"] in (0, 4), woken
    assert steps.load_once(spark, new_run(), _RULES) is None
    assert silver(spark, run) == [(0, 1), (1, 2), (3, 3)]
    rejects = spark.read.table(run.table("silver_rejects").sql).orderBy("first_offset").collect()
    assert [(row["first_offset"], row["records"]) for row in rejects] == [(2, 1), (4, 1)]
    marks = spark.read.table(run.table("silver_watermarks").sql).collect()
    assert [(row["high_watermark"], row["last_offset"], row["load_seq"]) for row in marks] == [(3, 4, 2)]


@pytest.mark.parametrize("point", ["silver.claimed", "silver.appended"])
def test_a_run_that_sleeps_through_a_restore_adds_nothing_when_it_wakes(
    spark: SparkSession, new_run: Callable[[], Run], root: list[str], team: list[Runner], point: str
) -> None:
    sleeper, other, _ = team
    run = new_run()
    settings = settings_of(run)
    loaded(spark, run, settings, [Record.of(0, 1)])
    bronze(spark, run, 1, [2, 2])
    sleeper.go(stage="silver", settings=root, stop_at=point, is_locked=False)
    wait_until_stopped(sleeper)
    restore.restore(spark, new_run(), settings, 1, reason="a test", by="ann", is_dry_run=False)

    os.kill(sleeper.process.pid, signal.SIGCONT)
    woken = sleeper.wait_for("done")
    assert woken["exit_code"] == 4, woken
    assert silver(spark, run) == [(0, 1)]
    assert spark.read.table(run.table("silver_rejects").sql).count() == 0

    other.go(stage="silver", settings=root, is_locked=False)
    done = other.wait_for("done")
    assert (done["exit_code"], done["silver"]["loads"]) == (0, [4]), done
    assert silver(spark, run) == [(0, 1), (1, 2)]
    require_sound(spark, run, is_deep=True)


def test_a_run_that_sleeps_keeps_the_lock_and_finishes_when_it_wakes(
    spark: SparkSession, new_run: Callable[[], Run], root: list[str], team: list[Runner]
) -> None:
    sleeper, other, _ = team
    run = new_run()
    if run.lakehouse.local_root is None:
        pytest.skip(_NO_LOCK)
    bronze(spark, run, 0, [1, 2])
    sleeper.go(stage="silver", settings=root, stop_at="silver.claimed")
    wait_until_stopped(sleeper)

    other.go(stage="silver", settings=root)
    refused = other.wait_for("done")
    os.kill(sleeper.process.pid, signal.SIGCONT)

    assert (refused["exit_code"], sleeper.wait_for("done")["exit_code"]) == (4, 0)
    assert silver(spark, run) == [(0, 1), (1, 2)]
