"""Tables that a catalog names, and their views: what a stream lacks, and where its producer can go on."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.readers.lag import positions
from lakehouse.run.context import Run
from lakehouse.settings.pipeline import Settings
from lakehouse.table import Lakehouse
from pipelines import bronze_to_silver, medallion
from pipelines.job import Job
from pipelines.recover.rebuild import rebuild
from tests.support.bronze import Record, put
from tests.support.small_config import small_config

pytestmark = pytest.mark.spark

SENT = [Record.of(offset, sequence) for offset, sequence in enumerate([1, 2, 5, 6, 10, 3])]
OTHER = [replace(Record.of(offset, sequence), topic="u") for offset, sequence in enumerate([1, 3])]

OPEN = [(4, 4, 1), (7, 9, 3)]
LAST = [("t", 0, None, 0, 10), ("u", 0, None, 0, 3)]
RANGES = "SELECT first_sequence, last_sequence, sequences FROM {} WHERE topic = 't' ORDER BY first_sequence"
ACCEPTED = "SELECT topic, partition, producer, epoch, sequence FROM {} ORDER BY topic"
CONFIG = {
    "lakehouse": {"catalog": "spark_catalog", "schema": "tidemark_named", "volume": "/v"},
    "kafka": {"bootstrap_servers": "localhost:9092", "topics": ["t", "u"]},
    "policies": {"late": "accept", "contiguous": True},
}


@pytest.fixture
def run(spark: SparkSession, new_run: Callable[[], Run], tmp_path: Path) -> Iterator[Run]:
    """A run over tables that a catalog names."""
    spark.sql(f"CREATE DATABASE tidemark_named LOCATION '{tmp_path}'")
    yield replace(new_run(), lakehouse=Lakehouse(catalog="spark_catalog", schema="tidemark_named"))
    spark.sql("DROP DATABASE tidemark_named CASCADE")


def test_tables_that_a_catalog_names_have_views_and_a_rebuild_leaves_no_shadow(spark: SparkSession, run: Run) -> None:
    settings = Settings.model_validate(small_config("", **CONFIG), context={"folder": Path()})
    job = Job.on(spark, settings, run.report)
    assert medallion.partitions(job) == []
    put(spark, run, [*SENT, *OTHER])
    bronze_to_silver.run(spark, run, settings)

    def rows(query: str, view: str) -> list[tuple[object, ...]]:
        return [tuple(row) for row in spark.sql(query.format(run.table(view).sql)).collect()]

    assert (rows(RANGES, "silver_missing"), rows(ACCEPTED, "silver_last_accepted")) == (OPEN, LAST)
    assert positions(medallion.partitions(job)) == {("t", 0): (10, 5), ("u", 0): (3, 1)}

    done = rebuild(spark, run, settings, is_applied=True, reason="", by="ann")

    assert (done["changes"], done["records"], done["load_seq"]) == ([], 8, 3)
    assert rows(ACCEPTED, "silver_last_accepted") == LAST
    tables = {row["tableName"] for row in spark.sql("SHOW TABLES IN tidemark_named").collect()}
    assert {name for name in tables if name.startswith("_shadow")} == set()
