"""Readers of a catalog's tables, through a Spark session."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse.errors import TidemarkError, UsageError
from lakehouse.table import TABLE_NAMES, Lakehouse
from tests.support.watched import write_tables
from tidemark.readers import database
from tidemark.readers.status import status

IN_CATALOG = Lakehouse(catalog="spark_catalog", schema="of_readers")


def test_readers_answer_over_a_schema_and_leave_the_current_one(spark: SparkSession, tmp_path: Path) -> None:
    write_tables(tmp_path)
    spark.sql(f"CREATE SCHEMA {IN_CATALOG.schema}")
    for name in (each for each in TABLE_NAMES if (tmp_path / each).exists()):
        spark.sql(f"CREATE TABLE {IN_CATALOG.schema}.{name} USING delta LOCATION '{tmp_path / name}'")
    before = spark.catalog.currentDatabase()

    assert status("tests", IN_CATALOG) == {**status("tests", Lakehouse(root=str(tmp_path))), "lakehouse": IN_CATALOG.name}
    with database.run_query(IN_CATALOG, "SELECT max(load_seq) AS n, current_timezone() AS zone FROM silver_loads") as answer:
        assert (answer.columns, list(answer.rows)) == (["n", "zone"], [(2, "UTC")])
    with database.run_query(IN_CATALOG, "SHOW TABLES") as answer:
        assert "silver_loads" in [row[1] for row in answer.rows]
    for query in ("SELECT * FROM nothing_there", "DROP TABLE silver_loads", "SELECT * FROM text.`/etc/hostname`"):
        with pytest.raises(UsageError), database.run_query(IN_CATALOG, query):
            pass
    assert spark.catalog.currentDatabase() == before

    spark.sql(f"DROP SCHEMA {IN_CATALOG.schema} CASCADE")
    with pytest.raises(TidemarkError, match=r"spark_catalog\.of_readers"), database.connect(IN_CATALOG):
        pass
