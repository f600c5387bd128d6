"""A load takes at most so many records, cut between commits of Bronze, and a run goes on until nothing is left."""

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.delta import tables
from lakehouse.run.context import Run
from pipelines import bronze_to_silver
from tests.conftest import Runs
from tests.support.bronze import Record, put
from tests.support.small_config import settings_of

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("created_tables")]


def records(first: int, count: int, topic: str = "t") -> list[Record]:
    return [replace(Record.of(offset, offset), topic=topic) for offset in range(first, first + count)]


def loads(spark: SparkSession, run: Run) -> list[tuple[int, int, int]]:
    rows = spark.read.table(run.table("silver_loads").sql).orderBy("load_seq").collect()
    return [(row["load_seq"], row["records"], row["bronze_to_version"]) for row in rows]


def test_a_run_makes_loads_of_whole_commits(spark: SparkSession, new_run: Runs) -> None:
    run = new_run()
    first = 0
    for count in (4, 4, 9, 4):
        put(spark, run, records(first, count))
        first += count
    spark.sql(f"OPTIMIZE {run.table('bronze_records').sql}")

    done = bronze_to_silver.run(spark, run, settings_of(run, silver={"max_records_per_load": 8}))

    assert [size for _, size, _ in loads(spark, run)] == [8, 9, 4]  # two commits have exactly as many, one has more
    assert (done["records"], done["accepted"], done["loads"]) == (21, 21, [1, 2, 3])
    assert loads(spark, run)[-1][2] == tables.version(spark, run.table("bronze_records"))
    assert bronze_to_silver.run(spark, new_run(), settings_of(run))["loads"] == []


def test_a_plan_shows_the_first_of_the_loads_and_commits_of_other_topics_stop_none(spark: SparkSession, new_run: Runs) -> None:
    run = new_run()
    for nth in range(3):
        put(spark, run, records(6 * nth, 6, topic="u"))
    put(spark, run, records(0, 4))
    put(spark, run, records(4, 5))
    settings = settings_of(run, silver={"max_records_per_load": 6})

    shown: Any = bronze_to_silver.preview(spark, run, settings)
    done = bronze_to_silver.run(spark, run, settings)

    assert shown["records"] == loads(spark, run)[0][1]
    assert sum(size for _, size, _ in loads(spark, run)) == done["accepted"] == 9
