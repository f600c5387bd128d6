from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from lakehouse.spark import progress
from tests.conftest import Events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_what_takes_long_is_told_task_by_task(spark: SparkSession) -> None:
    report = Events()
    with progress.told(spark, report, "silver", every_seconds=0.02):
        for _ in range(100):
            spark.range(0, 400_000, 1, 8).selectExpr("sum(crc32(cast(id AS STRING)))").collect()
            if report.seen:
                break
    name, fields = report.seen[0]
    assert name == "silver.working"
    assert 0 <= int(str(fields["tasks_done"])) <= int(str(fields["tasks"])) > 0


def test_nothing_is_told_where_spark_has_nothing_to_do_or_after_the_end(spark: SparkSession) -> None:
    report = Events()
    with progress.told(spark, report, "silver", every_seconds=0.01):
        threading.Event().wait(0.1)
    spark.range(0, 400_000, 1, 8).selectExpr("sum(crc32(cast(id AS STRING)))").collect()
    assert report.seen == []
