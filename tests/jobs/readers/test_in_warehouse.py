"""Every reader says through a SQL warehouse what it says of the same tables without one."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import databricks
import pytest

from jobs.readers import database, in_spark, in_warehouse
from lakehouse.errors import TidemarkError, UsageError
from lakehouse.table import TABLE_NAMES, Lakehouse
from tests.support import every_reader
from tests.support.every_reader import told
from tests.support.warehouse import TOKEN, connector, warehouse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Settings

pytestmark = pytest.mark.spark

IN_CATALOG = Lakehouse(catalog="spark_catalog", schema="of_a_warehouse")
SCHEMA = IN_CATALOG.schema


@pytest.fixture(scope="module")
def known(
    spark: SparkSession, run_at: Callable[[Path], Run], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Lakehouse, Settings]]:
    """Tables in a folder, which a schema of the session's catalog names too."""
    lakehouse, settings = every_reader.made(spark, run_at(tmp_path_factory.mktemp("readers") / "lakehouse"))
    spark.sql(f"CREATE SCHEMA {SCHEMA}")
    for name in TABLE_NAMES:
        table = lakehouse.table(name)
        if Path(str(lakehouse.root), name).exists():
            spark.sql(f"CREATE TABLE {SCHEMA}.{name} USING delta LOCATION '{table.location}'")
    yield lakehouse, settings
    spark.sql(f"DROP SCHEMA {SCHEMA} CASCADE")


@pytest.fixture(autouse=True)
def host(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A warehouse, and an environment that names it."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(connector())])
    monkeypatch.setattr(databricks, "__path__", [*databricks.__path__, str(connector() / "databricks")])
    with warehouse(spark, tmp_path) as (address, authority):
        monkeypatch.setenv(in_warehouse.HOST, address)
        monkeypatch.setenv(in_warehouse.PATH, "/sql/1.0/warehouses/tests")
        monkeypatch.setenv(in_warehouse.TOKEN, TOKEN)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        yield address


def test_every_reader_says_the_same_through_a_warehouse(known: tuple[Lakehouse, Settings]) -> None:
    in_folder, settings = known
    assert told(IN_CATALOG, settings) == told(in_folder, settings)


def test_a_warehouse_is_asked_where_it_is_named_and_the_platform_brings_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    assert in_warehouse.is_configured(IN_CATALOG)
    assert not in_warehouse.is_configured(Lakehouse(root="hdfs://n/lake"))
    assert not in_warehouse.is_configured(Lakehouse(catalog="spark_catalog", schema="s", metastore="thrift://m:9083"))
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost")
    assert not in_warehouse.is_configured(IN_CATALOG)
    monkeypatch.delenv("SPARK_REMOTE")
    monkeypatch.delenv(in_warehouse.PATH)
    assert not in_warehouse.is_configured(IN_CATALOG)


def test_a_users_query_is_answered(known: tuple[Lakehouse, Settings]) -> None:
    with database.run_query(IN_CATALOG, "SELECT max(sequence) AS n, current_timezone() AS zone FROM silver_records") as answer:
        assert answer.columns == ["n", "zone"]
        assert list(answer.rows) == [(10, "UTC")]
    with database.run_query(IN_CATALOG, "SHOW TABLES") as answer:
        assert len(list(answer.rows)) > 5


@pytest.mark.parametrize(
    "query",
    [
        "",
        "SELEKT 1",
        "SELECT colour FROM silver_records",
        "SELECT * FROM nothing_there",
        "DROP TABLE silver_records",
        "SELECT * FROM text.`/etc/hostname`",
        "SELECT reflect('java.lang.System', 'getenv', 'HOME')",
        "SELECT * FROM silver_records) UNION ALL (SELECT 1",
    ],
)
def test_a_query_that_does_more_than_read_tables_is_refused(known: tuple[Lakehouse, Settings], query: str) -> None:
    with pytest.raises(UsageError), database.run_query(IN_CATALOG, query):
        pass


def test_a_query_that_fails_while_it_runs_is_said(known: tuple[Lakehouse, Settings]) -> None:
    with pytest.raises(TidemarkError, match="boom"), database.run_query(IN_CATALOG, "SELECT raise_error('boom')"):
        pass


def test_a_warehouse_that_cannot_be_asked_is_named_and_its_token_is_not(
    host: str, known: tuple[Lakehouse, Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        pytest.raises(TidemarkError, match=r"spark_catalog\.nowhere"),
        database.connect(Lakehouse(catalog="spark_catalog", schema="nowhere")),
    ):
        pass
    monkeypatch.setenv(in_warehouse.TOKEN, "hunter2")
    with pytest.raises(TidemarkError) as refused, database.connect(IN_CATALOG):
        pass
    assert host.partition(":")[0] in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_without_the_connector_a_session_is_asked(monkeypatch: pytest.MonkeyPatch, known: tuple[Lakehouse, Settings]) -> None:
    monkeypatch.setattr(databricks, "__path__", databricks.__path__[:1])
    for name in [each for each in sys.modules if each.startswith("databricks.sql")]:
        monkeypatch.delitem(sys.modules, name)
    assert not in_warehouse.is_configured(IN_CATALOG)
    assert os.environ[in_warehouse.HOST]
    with database.connect(IN_CATALOG) as found:
        assert isinstance(found, in_spark.Session)
