"""Spark, DuckDB's Delta extension and delta-rs read the scenario alike: its tables, its views, the queries of the page."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

from lakehouse.contracts import views
from lakehouse.contracts.bronze import BRONZE
from lakehouse.contracts.silver import WATERMARKS
from lakehouse.errors import TidemarkError, UsageError
from lakehouse.table import TABLE_NAMES, Lakehouse
from tests.docs.command_lines import ROOT
from tests.scenario.lakehouse import ORDERS, Scenario
from tests.support.small_tables import write_rows
from tidemark.readers import database, in_spark

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.e2e]

PAGE = (ROOT / "docs" / "queries.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"^```sql\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def location(scenario: Scenario, name: str) -> str:
    return str(scenario.root / name)


@pytest.fixture(scope="module")
def named(spark: SparkSession, scenario: Scenario) -> Iterator[Scenario]:
    """The scenario, with tables and views that Spark knows by their names."""
    for name in TABLE_NAMES:
        spark.read.format("delta").load(location(scenario, name)).createOrReplaceTempView(name)
    for name, query in views.queries().items():
        spark.sql(query).createOrReplaceTempView(name)
    yield scenario
    for name in (*TABLE_NAMES, *views.READ_BY):
        spark.catalog.dropTempView(name)


def by_duckdb(lakehouse: Lakehouse, query: str) -> pa.Table:
    with database.run_query(lakehouse, query) as found:
        return found.arrow().read_all()


def only(lakehouse: Lakehouse, query: str) -> tuple[Any, ...]:
    [row] = by_duckdb(lakehouse, query).to_pylist()
    return tuple(row.values())


def in_any_order(table: pa.Table) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in table.to_pylist())


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_every_table_has_rows_and_reads_alike(name: str, spark: SparkSession, scenario: Scenario) -> None:
    table = DeltaTable(location(scenario, name))
    by_delta_rs = pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all())
    expected = in_any_order(spark.read.format("delta").load(location(scenario, name)).toArrow())

    assert expected
    assert in_any_order(by_duckdb(scenario.lakehouse, f"FROM {name}")) == expected
    assert in_any_order(by_delta_rs) == expected


@pytest.mark.parametrize("name", views.READ_BY)
def test_every_view_has_rows_and_reads_alike(name: str, spark: SparkSession, named: Scenario) -> None:
    found = by_duckdb(named.lakehouse, f"FROM {name}")
    assert in_any_order(found) == in_any_order(spark.table(name).toArrow())
    assert found.num_rows


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: re.sub(r"\s+", " ", query)[:60])
def test_every_query_of_the_page_has_rows_and_reads_alike(query: str, spark: SparkSession, named: Scenario) -> None:
    if " AS key" in query:  # DuckDB writes bytes that are no plain ASCII otherwise, as the page says
        asked = f"SELECT * FROM ({query.replace('LIMIT 20', '')}) WHERE topic = '{ORDERS}'"
        assert in_any_order(by_duckdb(named.lakehouse, asked)) == in_any_order(spark.sql(asked).toArrow()) != []
        return
    found = by_duckdb(named.lakehouse, query).to_pylist()
    assert found == spark.sql(query).toArrow().to_pylist()
    assert found


def test_the_page_names_every_view_with_its_columns_and_types(spark: SparkSession, named: Scenario) -> None:
    found: dict[str, dict[str, str]] = {}
    view = ""
    for name, column, kind in re.findall(r"^\| (?:`(\w+)`)? ?\| `(\w+)` \| (\w+) \|", PAGE, re.MULTILINE):
        view = name or view
        found.setdefault(view, {})[column] = kind
    assert found == {name: dict(spark.table(name).dtypes) for name in views.READ_BY}


def test_the_views_count_what_the_tables_hold(scenario: Scenario) -> None:
    lakehouse, stream = scenario.lakehouse, f"topic = '{ORDERS}' AND producer = 'shop'"
    columns = "records, accepted, duplicate, late, invalid, jump, fenced, loads, epoch, high_watermark, last_offset"
    assert only(lakehouse, f"SELECT {columns} FROM watermark_status WHERE {stream}") == (15, 9, 2, 1, 1, 1, 1, 5, 2, 12, 22)
    shares = f"SELECT records, duplicate, late, late_share FROM duplicates_by_partition WHERE topic = '{ORDERS}'"
    assert only(lakehouse, shares) == (27, 2, 7, 7 / 27)
    waits = f"SELECT count(*), min(kept_out_at) = max(kept_out_at) FROM quarantine_open WHERE load_seq = 1 AND {stream}"
    assert only(lakehouse, waits) == (2, True)
    assert only(lakehouse, "SELECT count(DISTINCT gate_run_id), count(DISTINCT gate_passed) FROM gate_history") == (3, 2)
    assert only(lakehouse, f"SELECT bronze_offset, decided_offset, offsets FROM lag WHERE topic = '{ORDERS}'") == (26, 26, 0)


def test_lag_counts_what_bronze_has_and_silver_has_not_decided(tmp_path: Path) -> None:
    place = {"topic": "t", "partition": 0}
    write_rows(tmp_path, BRONZE, [{**place, "offset": offset} for offset in (5, 6, 7, 9)])
    write_rows(tmp_path, BRONZE, [{**place, "partition": 1, "offset": 40}])
    write_rows(tmp_path, WATERMARKS, [{**place, "last_offset": offset, "producer": str(offset)} for offset in (5, 6)])
    query = "SELECT partition, bronze_offset, decided_offset, offsets FROM lag ORDER BY 1"
    found = by_duckdb(Lakehouse(root=str(tmp_path)), query).to_pylist()
    assert [tuple(row.values()) for row in found] == [(0, 9, 6, 3), (1, 40, None, 1)]


def test_in_a_session_a_users_query_is_in_sparks_sql(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lakehouse, "is_in_files", False)
    query = "WITH a AS (SELECT sum(sequences) AS n FROM silver_missing) SELECT cast(n + 5 AS INT) AS n FROM a;"
    with database.run_query(scenario.lakehouse, query) as answer:
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
        "INSERT INTO silver_records SELECT * FROM silver_records",
        "SELECT * FROM silver_records) UNION ALL (SELECT 1",
        "EXPLAIN DELETE FROM silver_records",
        "DESCRIBE text.`/etc/hostname`",
        "SET spark.sql.ansi.enabled=false",
    ],
)
def test_in_a_session_a_query_that_does_more_than_read_is_refused(query: str, spark: SparkSession, scenario: Scenario) -> None:
    with pytest.raises(UsageError), in_spark.run_query(scenario.lakehouse, query):
        pass
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"


@pytest.mark.parametrize("query", ["SHOW TABLES", "DESCRIBE silver_records", "EXPLAIN SELECT 1", "explain extended VALUES (1)"])
def test_through_a_session_a_query_may_ask_what_there_is(query: str, spark: SparkSession, scenario: Scenario) -> None:
    with in_spark.run_query(scenario.lakehouse, query) as answer:
        assert list(answer.rows)


def test_through_a_session_what_is_not_there_or_fails_is_an_error(spark: SparkSession, scenario: Scenario) -> None:
    with pytest.raises(TidemarkError, match=r"main\.tidemark"), in_spark.connect(Lakehouse(catalog="main", schema="tidemark")):
        pass
    with pytest.raises(TidemarkError, match="boom"), in_spark.run_query(scenario.lakehouse, "SELECT raise_error('boom')"):
        pass
