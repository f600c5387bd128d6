"""Every reader says through a Spark session what it says without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jobs.readers import database, in_spark
from lakehouse.errors import TidemarkError, UsageError
from lakehouse.table import Lakehouse
from tests.support import every_reader
from tests.support.every_reader import told

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Settings

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def known(
    spark: SparkSession, run_at: Callable[[Path], Run], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Lakehouse, Settings]:
    return every_reader.made(spark, run_at(tmp_path_factory.mktemp("readers") / "lakehouse"))


def test_every_reader_says_the_same_through_a_session(
    spark: SparkSession, known: tuple[Lakehouse, Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    without = told(*known)
    assert without["status"]["missing_count"] == 1
    assert without["held"][1] == 3

    monkeypatch.setattr(Lakehouse, "is_in_files", False)
    assert told(*known) == without
    assert spark.sql("SHOW TABLES").where("isTemporary").collect() == []


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) AS n FROM silver_records",
        "WITH a AS (SELECT 1 AS n) SELECT n + 9 AS n FROM a",
        "SELECT cast(sum(sequences) AS INT) AS n FROM silver_missing;",
    ],
)
def test_a_users_query_is_in_sparks_sql(
    spark: SparkSession, known: tuple[Lakehouse, Settings], monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    monkeypatch.setattr(Lakehouse, "is_in_files", False)
    with database.run_query(known[0], query) as answer:
        assert answer.columns == ["n"]
        [(number,)] = answer.rows
        assert number > 4
        assert answer.arrow().read_all().num_rows == 1


@pytest.mark.parametrize(
    "query",
    [
        "",
        "SELEKT 1",
        "SELECT colour FROM silver_records",
        "SELECT * FROM nothing_there",
        "DROP TABLE silver_records",
        "INSERT INTO silver_records SELECT * FROM silver_records",
        "SELECT * FROM silver_records) UNION ALL (SELECT 1",
        "EXPLAIN DELETE FROM silver_records",
        "DESCRIBE text.`/etc/hostname`",
        "SELECT * FROM text.`/etc/hostname`",
        "SELECT * FROM table_changes_by_path('{root}/silver_records', 0)",
        "SELECT reflect('java.lang.System', 'getenv', 'HOME')",
        "SELECT '${{env:HOME}}'",
        "SET spark.sql.ansi.enabled=false",
    ],
)
def test_a_query_that_does_more_than_read_tables_is_refused(
    spark: SparkSession, known: tuple[Lakehouse, Settings], query: str
) -> None:
    with pytest.raises(UsageError), in_spark.run_query(known[0], query.format(root=known[0].root)):
        pass
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"


@pytest.mark.parametrize("query", ["SHOW TABLES", "DESCRIBE silver_records", "EXPLAIN SELECT 1", "explain extended VALUES (1)"])
def test_a_query_may_ask_what_there_is(spark: SparkSession, known: tuple[Lakehouse, Settings], query: str) -> None:
    with in_spark.run_query(known[0], query) as answer:
        assert list(answer.rows)


def test_a_catalog_that_is_not_there_is_named(spark: SparkSession) -> None:
    with pytest.raises(TidemarkError, match=r"main\.tidemark"), in_spark.connect(Lakehouse(catalog="main", schema="tidemark")):
        pass


def test_a_query_that_fails_while_it_runs_is_an_error(spark: SparkSession, known: tuple[Lakehouse, Settings]) -> None:
    with pytest.raises(TidemarkError, match="boom"), in_spark.run_query(known[0], "SELECT raise_error('boom')"):
        pass
