"""A process that is killed in the middle of a load: the next run finishes what was claimed, and only that."""

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from lakehouse.run.context import Run
from tests.faults.kills import Durations, Point
from tests.faults.pool import Runner
from tests.faults.test_two_runs import bronze, load, marks, rejects, silver

pytestmark = [pytest.mark.everywhere, pytest.mark.fault]


def test_a_killed_load_is_finished_by_the_next_run(
    spark: SparkSession, new_run: Callable[[], Run], root: list[str], start_runner: Callable[..., Runner]
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
