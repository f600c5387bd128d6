"""A process that is killed in the middle of a load, or stopped and woken too late; and two processes at once."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse.extract.sources import Source
from lakehouse.run.context import Run
from silver.load import steps
from silver.rules import Rules
from silver.state import tables
from tests.conftest import Runs
from tests.faults.kills import Durations, Point
from tests.faults.pool import Runner
from tests.support.bronze import Record, put

pytestmark = [pytest.mark.everywhere, pytest.mark.fault]

_RULES = Rules(Source("header", "seq"))
_PATIENCE_SECONDS = 120


def bronze(spark: SparkSession, run: Run, first: int, sequences: list[int]) -> None:
    put(spark, run, [Record.of(first + nth, sequence) for nth, sequence in enumerate(sequences)])


def load(spark: SparkSession, run: Run) -> steps.Load | None:
    tables.create_tables(spark, run, _RULES)
    return steps.load_once(spark, run, _RULES)


def silver(spark: SparkSession, run: Run) -> list[tuple[int, int]]:
    return rows(spark, run, "silver_records", "offset", "sequence")


def rejects(spark: SparkSession, run: Run) -> list[tuple[int, int]]:
    return rows(spark, run, "silver_rejects", "first_offset", "records")


def marks(spark: SparkSession, run: Run) -> list[tuple[int, int]]:
    return rows(spark, run, "silver_watermarks", "high_watermark", "last_offset")


def rows(spark: SparkSession, run: Run, table: str, *columns: str) -> list[tuple[int, int]]:
    return sorted(map(tuple, spark.read.table(run.table(table).sql).select(*columns).collect()))


def wait_until_stopped(runner: Runner) -> None:
    until = time.monotonic() + _PATIENCE_SECONDS
    while "State:\tT" not in Path(f"/proc/{runner.process.pid}/status").read_text():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_of_two_runs_at_once_only_one_loads(spark: SparkSession, new_run: Runs, root: list[str], team: list[Runner]) -> None:
    run = new_run()
    is_locked = run.lakehouse.local_root is not None
    bronze(spark, run, 0, [1, 2, 2, 3])
    tables.create_tables(spark, run, _RULES)

    for runner in team:
        runner.go(stage="silver", settings=root, is_locked=is_locked)
    codes = sorted(runner.wait_for("done")["exit_code"] for runner in team)

    # Without the lock a second one may find the first one's claim, and carry it out with it: that is no failure.
    assert codes == [0, 4] if is_locked else set(codes) <= {0, 4}
    load(spark, new_run())
    assert (silver(spark, run), rejects(spark, run)) == ([(0, 1), (1, 2), (3, 3)], [(2, 1)])
    assert spark.read.table(run.table("silver_loads").sql).count() == 1


def test_a_run_that_wakes_late_changes_nothing(spark: SparkSession, new_run: Runs, root: list[str], team: list[Runner]) -> None:
    sleeper, other = team
    run = new_run()
    bronze(spark, run, 0, [1, 2, 2])
    sleeper.go(stage="silver", settings=root, stop_at="silver.claimed")
    wait_until_stopped(sleeper)
    bronze(spark, run, 3, [3, 3])
    if run.lakehouse.local_root is not None:
        other.go(stage="silver", settings=root)
        assert other.wait_for("done")["exit_code"] == 4
    other.go(stage="silver", settings=root, is_locked=False)
    done = other.wait_for("done")

    os.kill(sleeper.process.pid, signal.SIGCONT)
    woken = sleeper.wait_for("done")

    assert done["exit_code"] == 0, done
    assert (done["silver"]["loads"], done["silver"]["repeated"]) == ([1, 2], [1])
    assert woken["exit_code"] in (0, 4), woken
    assert load(spark, new_run()) is None
    assert silver(spark, run) == [(0, 1), (1, 2), (3, 3)]
    assert (rejects(spark, run), marks(spark, run)) == ([(2, 1), (4, 1)], [(3, 4)])


def test_a_killed_load_is_finished_by_the_next_run(
    spark: SparkSession, new_run: Runs, root: list[str], start_runner: Callable[..., Runner]
) -> None:
    runner, run = start_runner(), new_run()
    bronze(spark, run, 0, [1, 2, 2, 3])
    runner.get_ready()
    runner.go(stage="silver", crash_at="silver.appended", settings=root)
    assert Point("silver.appended").strike(runner, Durations()) == "at silver.appended"
    assert (silver(spark, run), marks(spark, run)) == ([(0, 1), (1, 2), (3, 3)], []), "the watermarks move last"
    bronze(spark, run, 4, [4])  # Bronze grows before the retry

    done = [load(spark, new_run()) for _ in range(2)]

    assert [each and (each.load_seq, each.is_repeat, each.records) for each in done] == [(1, True, 4), (2, False, 1)]
    assert silver(spark, run) == [(0, 1), (1, 2), (3, 3), (4, 4)]
    assert (rejects(spark, run), marks(spark, run)) == ([(2, 1)], [(4, 4)])
