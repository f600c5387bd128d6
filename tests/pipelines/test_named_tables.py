"""Tables that a catalog names, and the views beside them: what a stream lacks, and where its producer can go on.

The same views in DuckDB: `test_load.py` and `test_status.py`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jobs.readers.lag import positions
from lakehouse.extract.sources import Source
from lakehouse.settings.pipeline import Settings
from lakehouse.table import Lakehouse
from pipelines import medallion
from pipelines.job import Job
from pipelines.recover.rebuild import rebuild
from silver.load import steps
from silver.rules import Policy, Rules
from silver.state.tables import create_tables
from tests.support.bronze import Record, put
from tests.support.small_config import small_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run

pytestmark = pytest.mark.spark

RULES = Rules(Source("header", "seq"), topics=(("t", Policy(late="accept", contiguous=True)),))
SENT = [Record.of(offset, sequence) for offset, sequence in enumerate([1, 2, 5, 6, 10, 3])]
OTHER = [replace(Record.of(offset, sequence), topic="u") for offset, sequence in enumerate([1, 3])]

OPEN = [(4, 4, 1), (7, 9, 3)]
LAST = [("t", 0, None, 0, 10), ("u", 0, None, 0, 3)]
RANGES = "SELECT first_sequence, last_sequence, sequences FROM {} ORDER BY first_sequence"
ACCEPTED = "SELECT topic, partition, producer, epoch, sequence FROM {} ORDER BY topic"
VIEWS = [(RANGES, "silver_missing"), (ACCEPTED, "silver_last_accepted")]


PLACE = {"catalog": "spark_catalog", "schema": "tidemark_named", "volume": "/v"}


@pytest.fixture(scope="module")
def named(
    spark: SparkSession, run_at: Callable[[Path], Run], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Run, Job]]:
    """A run and a job over tables that a catalog names, with records in Silver."""
    folder = tmp_path_factory.mktemp("named")
    spark.sql(f"CREATE DATABASE tidemark_named LOCATION '{folder}'")
    run = replace(run_at(folder), lakehouse=Lakehouse(catalog="spark_catalog", schema="tidemark_named"))
    settings = Settings.model_validate(small_config("", lakehouse=PLACE), context={"folder": Path()})
    job = Job.on(spark, settings, run.report)
    assert medallion.partitions(job) == []
    put(spark, run, [*SENT, *OTHER])
    create_tables(spark, run, RULES)
    steps.load_once(spark, run, RULES)
    yield run, job
    spark.sql("DROP DATABASE tidemark_named CASCADE")


def test_tables_that_a_catalog_names_have_their_views_and_watermarks(spark: SparkSession, named: tuple[Run, Job]) -> None:
    run, job = named
    found = [spark.sql(query.format(run.table(view).sql)).collect() for query, view in VIEWS]
    assert [[tuple(row) for row in each] for each in found] == [OPEN, LAST]
    assert positions(medallion.partitions(job)) == {("t", 0): (10, 5), ("u", 0): (3, 1)}


def test_a_rebuild_leaves_no_shadow_in_the_schema(spark: SparkSession, named: tuple[Run, Job]) -> None:
    run, _ = named
    kafka = {"bootstrap_servers": "localhost:9092", "topics": ["t", "u"]}
    config = small_config("", kafka=kafka, lakehouse=PLACE, policies={"late": "accept", "contiguous": True})
    settings = Settings.model_validate(config, context={"folder": Path()})

    tried, done = (rebuild(spark, run, settings, is_applied=each, reason="", by="ann") for each in (False, True))

    assert (tried["changes"], done["changes"], done["records"], done["load_seq"]) == ([], [], 8, 3)
    found = spark.sql(ACCEPTED.format(run.table("silver_last_accepted").sql)).collect()
    assert [tuple(row) for row in found] == LAST
    tables = {row["tableName"] for row in spark.sql("SHOW TABLES IN tidemark_named").collect()}
    assert {name for name in tables if name.startswith("_shadow")} == set()
