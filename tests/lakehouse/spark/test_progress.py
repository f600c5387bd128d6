from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.spark import progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


class Told:
    """A report that keeps what it is told, and by which thread."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def event(self, name: str, **fields: object) -> None:
        self.events.append((name, fields))


def test_what_takes_long_is_told_task_by_task(spark: SparkSession) -> None:
    report = Told()
    with progress.told(spark, report, "silver", every_seconds=0.02):
        for _ in range(100):
            spark.range(0, 400_000, 1, 8).selectExpr("sum(crc32(cast(id AS STRING)))").collect()
            if report.events:
                break
    name, fields = report.events[0]
    assert name == "silver.working"
    assert 0 <= fields["tasks_done"] <= fields["tasks"] > 0


def test_nothing_is_told_where_spark_has_nothing_to_do_or_after_the_end(spark: SparkSession) -> None:
    report = Told()
    with progress.told(spark, report, "silver", every_seconds=0.01):
        threading.Event().wait(0.1)
    spark.range(0, 400_000, 1, 8).selectExpr("sum(crc32(cast(id AS STRING)))").collect()
    assert report.events == []
