"""A process that is killed in the middle of a load: the next one finishes what was claimed, and only that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakehouse.extract.sources import Source
from silver.load import steps
from silver.rules import Rules
from tests.faults.kills import Durations, Point
from tests.support.bronze import Record, put

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from tests.faults.pool import Runner

pytestmark = [pytest.mark.everywhere, pytest.mark.fault]

_RULES = Rules(Source("header", "seq"))


def test_killed_after_the_claim_after_silvers_commit_and_before_the_merge_nothing_is_lost_or_twice(
    spark: SparkSession, new_run: Callable[[], Run], root: list[str], mortals: Callable[[int], Iterator[Runner]]
) -> None:
    run = new_run()
    points = ["silver.claimed", "silver.appended", "silver.rejected"]
    put(spark, run, [Record.of(offset, sequence) for offset, sequence in enumerate([1, 2, 2, 3])])

    for number, (point, runner) in enumerate(zip(points, mortals(len(points)), strict=True), start=1):
        runner.go(stage="silver", crash_at=point, settings=root)
        assert Point(point).strike(runner, Durations()) == f"at {point}"
        marks = spark.read.table(run.table("silver_watermarks").sql).collect()
        assert marks == [], "the watermarks move last"
        put(spark, run, [Record.of(3 + number, 3 + number)])  # Bronze grows before every retry

    done = [steps.load_once(spark, new_run(), _RULES) for _ in range(2)]

    assert [each and (each.load_seq, each.is_repeat, each.records) for each in done] == [(1, True, 4), (2, False, 3)]
    silver = spark.read.table(run.table("silver_records").sql).orderBy("offset").collect()
    assert [(row["offset"], row["sequence"]) for row in silver] == [(0, 1), (1, 2), (3, 3), (4, 4), (5, 5), (6, 6)]
    rejects = spark.read.table(run.table("silver_rejects").sql).collect()
    assert [(row["first_offset"], row["records"], row["load_seq"]) for row in rejects] == [(2, 1, 1)]
    marks = spark.read.table(run.table("silver_watermarks").sql).collect()
    assert [(row["high_watermark"], row["last_offset"]) for row in marks] == [(6, 6)]
