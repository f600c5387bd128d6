"""Everybody reads the same: Spark, DuckDB's Delta extension and delta-rs, over tables that the pipeline made."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from jobs.readers.database import run_query
from lakehouse.contracts import views
from lakehouse.contracts.bronze import TOPICS
from lakehouse.contracts.gate import DECISIONS, RELEASED
from lakehouse.contracts.gold import REJECTS
from lakehouse.table import TABLE_NAMES
from pipelines.operate import requests
from silver.state.request import Request, Wanted
from tests.support.bronze import Record
from tests.support.small_config import settings_of
from tests.support.small_tables import write_rows
from tests.support.stages import loaded, published

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run

pytestmark = pytest.mark.spark

PAGE = (Path(__file__).parents[3] / "docs" / "queries.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"^```sql\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)

CONFIG: dict[str, Any] = {
    "producer": {"header": "producer"},
    "policies": {"max_jump": 50, "topics": {"t": {"contiguous": True}}},
    "value": {"format": "json", "schema": "id STRING"},
}


def sent(start: int, sequences: Sequence[object], producer: str | None, *, topic: str, again: bytes = b"") -> list[Record]:
    """Records at offsets in a row, with the producer in a header and an id in the value."""
    return [
        Record(
            offset,
            value=b'{"id": "%s%s"}' % (str(sequence).encode(), again),
            key=b"ABC"[offset % 3 : offset % 3 + 1],
            headers=(("seq", str(sequence).encode()), *((("producer", producer.encode()),) if producer else ())),
            topic=topic,
        )
        for offset, sequence in enumerate(sequences, start)
    ]


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, run_at: Callable[[Path], Run]) -> Run:
    """Three loads, one of them by hand, of two topics: every class but replay and fenced, audited and published."""
    run = run_at(tmp_path_factory.mktemp("readers"))
    settings = settings_of(run, topics=("t", "u"), **CONFIG)
    first = [*sent(0, [1, 2, 3, 7, 2, 3, 5, 900, "x"], "ann", topic="t"), *sent(9, [1], None, topic="t")]
    loaded(spark, run, settings, [*first, *sent(0, [1, 2, 4], "böb", topic="u")])
    loaded(spark, run, settings, [*sent(10, [8, 9], "ann", topic="t"), *sent(3, [5, 4], "böb", topic="u", again=b"!")])
    late = Request("release", "asked the sender", "ann", wanted=Wanted(topic="t", offset=6))
    requests.carry_out(spark, run, settings, late, is_dry_run=False)
    published(spark, run, settings)
    latest = spark.read.table(run.table("gold_latest").sql)  # as if another stream had its keys, too
    latest.write.format("delta").mode("append").save(run.table("gold_latest_by_stream").location)
    begun = {"topic": "t", "incarnation": 1, "stored_as": "t", "cause": "begun", "known_since": datetime.now(UTC)}
    decision = {
        "gate_run_id": "of-another-time",
        "decision": RELEASED,
        "first_load_seq": 1,
        "last_load_seq": 1,
        "reason": "seen",
    }
    aside = {"topic": "t", "partition": 0, "offset": 0, "load_seq": 1, "reason": "unmet", "gate_run_id": "g", "state": "held"}
    for contract, row in ((TOPICS, begun), (DECISIONS, decision), (REJECTS, aside)):
        write_rows(Path(str(run.lakehouse.root)), contract, [row])
    return run


@pytest.fixture(scope="module")
def named(spark: SparkSession, made: Run) -> Iterator[Run]:
    """The same, with tables and views known to Spark by their names."""
    for name in TABLE_NAMES:
        spark.read.table(made.table(name).sql).createOrReplaceTempView(name)
    for name, query in views.queries("spark").items():
        spark.sql(query).createOrReplaceTempView(name)
    yield made
    for name in (*TABLE_NAMES, *views.READ_BY):
        spark.catalog.dropTempView(name)


def by_duckdb(run: Run, query: str) -> pa.Table:
    with run_query(run.lakehouse, query) as found:
        return found.arrow().read_all()


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    return list(table.to_pylist())


def in_any_order(table: pa.Table) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows_of(table))


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_every_table_reads_alike(name: str, spark: SparkSession, made: Run) -> None:
    location = made.table(name).location
    by_delta_rs = QueryBuilder().register("t", DeltaTable(location)).execute("SELECT * FROM t").read_all()
    expected = in_any_order(spark.read.table(made.table(name).sql).toArrow())

    assert expected
    assert in_any_order(by_duckdb(made, f"FROM {name}")) == expected
    assert in_any_order(pa.table(by_delta_rs)) == expected


@pytest.mark.parametrize("name", views.READ_BY)
def test_every_view_has_rows_and_reads_alike(name: str, spark: SparkSession, named: Run) -> None:
    found = by_duckdb(named, f"FROM {name}")
    assert in_any_order(found) == in_any_order(spark.table(name).toArrow())
    assert found.num_rows


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: re.sub(r"\s+", " ", query)[:60])
def test_every_query_of_the_page_has_rows_and_answers_alike(query: str, spark: SparkSession, named: Run) -> None:
    found = rows_of(by_duckdb(named, query))
    assert found == rows_of(spark.sql(query).toArrow())
    assert found


def test_the_page_names_every_view_with_its_columns_and_types(spark: SparkSession, named: Run) -> None:
    told: dict[str, dict[str, str]] = {}
    view = ""
    for name, column, kind in re.findall(r"^\| (?:`(\w+)`)? ?\| `(\w+)` \| (\w+) \|", PAGE, re.MULTILINE):
        view = name or view
        told.setdefault(view, {})[column] = kind
    assert told == {name: dict(spark.table(name).dtypes) for name in views.READ_BY}


def test_the_views_count_what_the_tables_hold(named: Run) -> None:
    def only(query: str) -> tuple[Any, ...]:
        with run_query(named.lakehouse, query) as found:
            [row] = list(found.rows)
        return row

    stream = "topic = 't' AND producer = 'ann'"
    columns = "records, accepted, duplicate, late, invalid, jump, loads, high_watermark, last_offset"
    assert only(f"SELECT {columns} FROM watermark_status WHERE {stream}") == (11, 6, 2, 1, 1, 1, 3, 9, 11)
    assert only("SELECT records, duplicate, late, duplicate_share FROM duplicates_by_partition WHERE topic = 't'") == (
        12,
        2,
        1,
        2 / 12,
    )
    assert only("SELECT count(*), min(kept_out_at) = max(kept_out_at) FROM quarantine_open WHERE load_seq = 1") == (3, True)
    assert only("SELECT count(DISTINCT gate_passed), bool_and(gate_passed) FROM gate_history") == (1, True)
    assert only("SELECT bronze_offset, decided_offset, offsets FROM lag WHERE topic = 'u'") == (4, 4, 0)


def test_lag_counts_what_bronze_has_and_silver_has_not_decided(made: Run, tmp_path: Path) -> None:
    from lakehouse.contracts.bronze import BRONZE
    from lakehouse.contracts.silver import WATERMARKS
    from lakehouse.table import Lakehouse

    place = {"topic": "t", "partition": 0}
    write_rows(tmp_path, BRONZE, [{**place, "offset": offset} for offset in (5, 6, 7, 9)])
    write_rows(tmp_path, BRONZE, [{**place, "partition": 1, "offset": 40}])
    write_rows(tmp_path, WATERMARKS, [{**place, "last_offset": offset, "producer": str(offset)} for offset in (5, 6)])
    with run_query(
        Lakehouse(root=str(tmp_path)), "SELECT partition, bronze_offset, decided_offset, offsets FROM lag ORDER BY 1"
    ) as found:
        assert list(found.rows) == [(0, 9, 6, 3), (1, 40, None, 1)]
