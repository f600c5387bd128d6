"""Readers of a catalog's tables, through a Spark session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jobs.readers import database
from jobs.readers.status import status
from lakehouse.errors import TidemarkError, UsageError
from lakehouse.table import TABLE_NAMES, Lakehouse
from tests.support.watched import write_tables

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

IN_CATALOG = Lakehouse(catalog="spark_catalog", schema="of_readers")


@pytest.fixture(scope="module")
def in_folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakehouse]:
    """Tables in a folder, which the schema names too."""
    folder: Path = tmp_path_factory.mktemp("readers") / "lakehouse"
    write_tables(folder)
    spark.sql(f"CREATE SCHEMA {IN_CATALOG.schema}")
    for name in (each for each in TABLE_NAMES if (folder / each).exists()):
        spark.sql(f"CREATE TABLE {IN_CATALOG.schema}.{name} USING delta LOCATION '{folder / name}'")
    yield Lakehouse(root=str(folder))
    spark.sql(f"DROP SCHEMA {IN_CATALOG.schema} CASCADE")


def test_status_says_the_same_and_leaves_the_current_schema(spark: SparkSession, in_folder: Lakehouse) -> None:
    before = spark.catalog.currentDatabase()
    assert status("tests", IN_CATALOG) == {**status("tests", in_folder), "lakehouse": IN_CATALOG.name}
    assert spark.catalog.currentDatabase() == before


def test_a_users_query_is_answered(in_folder: Lakehouse) -> None:
    with database.run_query(IN_CATALOG, "SELECT max(load_seq) AS n, current_timezone() AS zone FROM silver_loads") as answer:
        assert answer.columns == ["n", "zone"]
        assert list(answer.rows) == [(2, "UTC")]
    with database.run_query(IN_CATALOG, "SHOW TABLES") as answer:
        assert "silver_loads" in [row[1] for row in answer.rows]


@pytest.mark.parametrize(
    "query", ["SELECT * FROM nothing_there", "DROP TABLE silver_loads", "SELECT * FROM text.`/etc/hostname`"]
)
def test_a_query_that_does_more_than_read_tables_is_refused(in_folder: Lakehouse, query: str) -> None:
    with pytest.raises(UsageError), database.run_query(IN_CATALOG, query):
        pass


def test_a_schema_that_is_not_there_is_named(spark: SparkSession) -> None:
    nowhere = Lakehouse(catalog="spark_catalog", schema="nowhere")
    with pytest.raises(TidemarkError, match=r"spark_catalog\.nowhere"), database.connect(nowhere):
        pass
