"""What small tables and their files are, looked up without Spark, is what Spark says; what cannot be read so is left to it."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.contracts.gate import RESULTS
from lakehouse.delta import local_files, maintenance, small_tables, tables
from lakehouse.delta.errors import SPARK_ERRORS
from lakehouse.run.context import Run
from lakehouse.spark import frames
from lakehouse.table import Table

_NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
_LONG_AGO = 1_700_000_000


def _results(load_seq: int, *expectations: str) -> list[dict[str, Any]]:
    """Rows of a gate run that differs from the next one's by a microsecond."""
    at = _NOON + timedelta(microseconds=load_seq)
    shared = {"gate_run_id": f"g{load_seq}", "first_load_seq": load_seq, "evaluated_at": at}
    return [{**dict.fromkeys(RESULTS.names), **shared, "expectation": name} for name in expectations]


def _append(spark: SparkSession, table: Table, load_seq: int, *expectations: str) -> None:
    tables.append(frames.of_contract(spark, _results(load_seq, *expectations), RESULTS).coalesce(1), table, RESULTS)


@pytest.fixture
def table(spark: SparkSession, run: Run) -> Table:
    made = run.table(RESULTS.name)
    tables.create(spark, made, RESULTS)
    for load_seq in (1, 2, 3):
        _append(spark, made, load_seq, "a", "b")
    return made


@pytest.fixture
def folder(table: Table) -> Path:
    assert table.local_folder is not None
    return table.local_folder


def _sorted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["first_load_seq"], row["expectation"]))


def test_both_ways_read_the_same(spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
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
    table = run.table(RESULTS.name)
    assert small_tables.highest(spark, table, "first_load_seq") == 0
    tables.create(spark, table, RESULTS)
    for _ in range(2):
        assert small_tables.last(spark, table, ["evaluated_at"], by="evaluated_at") == []
        assert small_tables.highest(spark, table, "first_load_seq") == 0
        for name in ("last", "highest"):
            monkeypatch.setattr(local_files, name, lambda *_, **__: None)


def test_files_below_the_start_are_not_opened_and_damage_is_named(spark: SparkSession, table: Table, folder: Path) -> None:
    """The log says what is in them: a table's history costs nothing. A page that is not what its checksum says is no data."""
    start = ("first_load_seq", 3)
    for file in folder.glob("*.parquet"):
        if b"g3" not in file.read_bytes():
            file.unlink()
    rows = local_files.rows(folder, ["gate_run_id"], start=start)
    assert rows is not None
    assert rows.to_pylist() == [{"gate_run_id": "g3"}] * 2
    assert local_files.rows(folder, ["gate_run_id"]) is None

    [file] = folder.glob("*.parquet")
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 8] ^= 0xFF
    file.write_bytes(damaged)
    file.with_name(f".{file.name}.crc").unlink()
    assert local_files.rows(folder, RESULTS.names, start=start) is None
    with pytest.raises(SPARK_ERRORS, match="parquet"):
        small_tables.read(spark, table, RESULTS.names, start=start)


def test_rows_that_a_deletion_vector_takes_out_are_not_read(spark: SparkSession, table: Table) -> None:
    """The files still hold them, so such a table is left to Spark."""
    spark.sql(f"ALTER TABLE {table.sql} SET TBLPROPERTIES (delta.enableDeletionVectors = true)")
    _append(spark, table, 4, "a", "b", "c")
    tables.delete(spark, table, "expectation = 'b'")

    rows = small_tables.read(spark, table, ["first_load_seq", "expectation"])

    assert {row["expectation"] for row in rows} == {"a", "c"}
    assert small_tables.highest(spark, table, "first_load_seq") == 4


@pytest.mark.parametrize(("retention", "unneeded"), [("168 hours", 1), ("0 hours", 5)])
def test_what_maintenance_would_do_is_the_same_both_ways(
    spark: SparkSession, table: Table, folder: Path, retention: str, unneeded: int, *, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three files, then in one, and one more; an old file that no version ever had, and a new one."""
    maintenance.compact(spark, table, file_mib=1)
    _append(spark, table, 4, "a")
    for name in ("part-left.snappy.parquet", "part-being-written.snappy.parquet"):
        (folder / name).write_bytes(b"of a writer that died")
    os.utime(folder / "part-left.snappy.parquet", (_LONG_AGO, _LONG_AGO))
    tables.set_properties(spark, table, {"delta.deletedFileRetentionDuration": f"interval {retention}"})

    def looked() -> tuple[object, ...]:
        found = maintenance.small_files(spark, table, file_mib=1), maintenance.unneeded_files(spark, table)
        return (maintenance.state(spark, table), *found)

    with monkeypatch.context() as patched:
        for name in ("described", "sizes", "unneeded"):
            patched.setattr(local_files, name, lambda *_: None)
        by_spark = looked()

    assert looked() == by_spark
    assert by_spark[1:] == (2, unneeded)
    maintenance.vacuum(spark, table)
    assert looked()[1:] == (2, 0)
