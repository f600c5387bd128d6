"""Commits of a Delta table in a store that meet a rival's, put in just before."""

import contextlib
from collections.abc import Callable

from pyspark.sql import SparkSession

from lakehouse.delta.errors import SPARK_ERRORS
from tests.support.object_store import Interference, Request


def append(spark: SparkSession, table: str, number: int) -> None:
    spark.range(number, number + 1).toDF("n").coalesce(1).write.format("delta").mode("append").save(table)


def merge(spark: SparkSession, table: str, number: int) -> None:
    spark.sql(f"MERGE INTO delta.`{table}` AS t USING (SELECT {number} AS n) AS s ON t.n = s.n WHEN NOT MATCHED THEN INSERT *")


def numbers(spark: SparkSession, table: str) -> list[int]:
    return sorted(row["n"] for row in spark.read.format("delta").load(table).collect())


def acknowledged(
    spark: SparkSession,
    table: str,
    interference: Interference,
    commit: Callable[[SparkSession, str, int], None],
    rival: Callable[[Request], None],
    *,
    times: int,
    is_commit: Callable[[Request], bool] = lambda request: request.is_commit,
) -> list[int]:
    """Commit the numbers from 1, each time with a rival's commit just before; those that were acknowledged. 0 comes without."""
    ours, is_armed = [], False

    def before(request: Request) -> None:
        nonlocal is_armed
        if is_armed and is_commit(request):
            is_armed = False
            rival(request)

    append(spark, table, 0)
    interference.before = before
    for number in range(1, times + 1):
        is_armed = True
        with contextlib.suppress(*SPARK_ERRORS):  # a conflict: not acknowledged, the caller tries again
            commit(spark, table, number)
            ours.append(number)
    interference.before = lambda _: None
    return ours
