"""Small tables read without Spark hold what Spark reads; what cannot be read so is left to Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.contracts.gate import RESULTS
from lakehouse.delta import local_files, small_tables, tables
from lakehouse.delta.errors import SPARK_ERRORS
from lakehouse.spark import frames

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from lakehouse.table import Table

_NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def _results(load_seq: int, *expectations: str) -> list[dict[str, Any]]:
    """Rows of a gate run that differs from the next one's by a microsecond."""
    shared = {
        "gate_run_id": f"g{load_seq}",
        "first_load_seq": load_seq,
        "evaluated_at": _NOON + timedelta(microseconds=load_seq),
    }
    return [{**dict.fromkeys(RESULTS.names), **shared, "expectation": name} for name in expectations]


@pytest.fixture
def table(spark: SparkSession, run: Run) -> Table:
    """Three commits of rows."""
    made = run.table(RESULTS.name)
    tables.create(spark, made, RESULTS)
    for load_seq in (1, 2, 3):
        tables.append(frames.of_contract(spark, _results(load_seq, "a", "b"), RESULTS), made, RESULTS)
    return made


def _sorted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["first_load_seq"], row["expectation"]))


def test_both_ways_read_the_same(spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all rows, of those from a number on, of an earlier version, and of the last ones."""
    asked: list[dict[str, Any]] = [{}, {"start": ("first_load_seq", 2)}, {"version": 2}, {"start": ("first_load_seq", 9)}]

    def found() -> list[object]:
        reads = [_sorted(small_tables.read(spark, table, RESULTS.names, **each)) for each in asked]
        last = _sorted(small_tables.last(spark, table, RESULTS.names, by="evaluated_at"))
        return [*reads, last, small_tables.highest(spark, table, "first_load_seq")]

    here = found()
    for name in ("rows", "last", "highest"):
        monkeypatch.setattr(local_files, name, lambda *_, **__: None)
    assert here == found()
    expected = [row for load_seq in (1, 2, 3) for row in _results(load_seq, "a", "b")]
    assert here == [expected, expected[2:], expected[:4], [], expected[4:], 3]


def test_an_empty_table_has_no_last_rows(spark: SparkSession, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor a highest number, with Spark or without."""
    table = run.table(RESULTS.name)
    assert small_tables.highest(spark, table, "first_load_seq") == 0
    tables.create(spark, table, RESULTS)
    for _ in range(2):
        assert small_tables.last(spark, table, ["evaluated_at"], by="evaluated_at") == []
        assert small_tables.highest(spark, table, "first_load_seq") == 0
        monkeypatch.setattr(local_files, "last", lambda *_, **__: None)
        monkeypatch.setattr(local_files, "highest", lambda *_, **__: None)


def test_a_damaged_file_is_named_by_spark(spark: SparkSession, table: Table) -> None:
    """A page that is not what its checksum says is no data, without Spark neither."""
    folder = table.local_folder
    assert folder is not None
    for file in folder.glob("*.parquet"):
        damaged = bytearray(file.read_bytes())
        damaged[len(damaged) // 8] ^= 0xFF
        file.write_bytes(damaged)
        _forget_checksum(file)
    assert local_files.rows(folder, RESULTS.names) is None
    with pytest.raises(SPARK_ERRORS, match="parquet"):
        small_tables.read(spark, table, RESULTS.names)


def test_rows_that_a_deletion_vector_takes_out_are_not_read(spark: SparkSession, table: Table) -> None:
    """The files still hold them, so such a table is left to Spark."""
    spark.sql(f"ALTER TABLE {table.sql} SET TBLPROPERTIES (delta.enableDeletionVectors = true)")
    tables.append(frames.of_contract(spark, _results(4, "a", "b", "c"), RESULTS), table, RESULTS)
    tables.delete(spark, table, "expectation = 'b'")

    rows = small_tables.read(spark, table, ["first_load_seq", "expectation"])

    assert {row["expectation"] for row in rows} == {"a", "c"}
    assert small_tables.highest(spark, table, "first_load_seq") == 4


def _forget_checksum(file: Path) -> None:
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def test_files_below_the_start_are_not_opened(table: Table) -> None:
    """The log says what is in them: a table's history costs nothing."""
    folder = table.local_folder
    assert folder is not None
    for file in folder.glob("*.parquet"):
        if local_files.highest(folder, "first_load_seq") and b"g3" not in file.read_bytes():
            file.unlink()
    rows = local_files.rows(folder, ["gate_run_id"], start=("first_load_seq", 3))
    assert rows is not None
    assert rows.to_pylist() == [{"gate_run_id": "g3"}] * 2
    assert local_files.rows(folder, ["gate_run_id"]) is None
