"""Rows read without Spark are those that Spark reads, from the files that may hold them, and never too many."""

import os
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from chispa import assert_df_equality
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from lakehouse.contracts.bronze import BRONZE
from lakehouse.contracts.gate import RESULTS
from lakehouse.delta import maintenance, small_tables, tables
from lakehouse.delta.errors import SPARK_ERRORS
from lakehouse.run.context import Run
from lakehouse.spark import frames
from lakehouse.table import BRONZE_RECORDS, SILVER_RECORDS, Lakehouse, Table
from tests.support.examples import examples
from tests.support.small_tables import write_rows

LONG = "a topic whose name is longer than the texts that the statistics of Delta keep"
PLACE = ("topic", "partition", "offset")

_topics = st.sampled_from(["a", "b", LONG])
_numbers = st.integers(0, 5)
_ends = st.tuples(_numbers, _numbers).map(sorted).map(tuple)
_boxes = st.lists(
    st.fixed_dictionaries({"topic": _topics.map(lambda topic: (topic, topic)), "partition": _ends, "offset": _ends}), max_size=4
)
_files = st.lists(st.lists(st.tuples(_topics, _numbers, _numbers), min_size=1, max_size=6), min_size=1, max_size=4)


def few(*given: Any, **named: Any) -> pa.Table:
    found = small_tables.few(*given, **named)
    assert found is not None
    return found


@settings(max_examples=examples(10, 100))
@given(files=_files, boxes=_boxes)
def test_rows_are_found_in_boxes_and_outside(files: list[list[tuple[str, int, int]]], boxes: list["small_tables.Box"]) -> None:
    with tempfile.TemporaryDirectory() as root:
        for rows in files:
            write_rows(Path(root), BRONZE, [dict(zip(PLACE, row, strict=True)) for row in rows])
        bronze = Lakehouse(root=root).table(BRONZE_RECORDS)

        inside = few(bronze, PLACE, boxes)
        outside = few(bronze, PLACE, boxes, version=len(files) - 1, is_outside=True)

    written = [row for rows in files for row in rows]
    placed = [dict(zip(PLACE, row, strict=True)) for row in written]
    is_in = [any(all(low <= row[name] <= high for name, (low, high) in box.items()) for box in boxes) for row in placed]
    assert sorted(_rows(inside)) == sorted(row for row, is_one in zip(written, is_in, strict=True) if is_one)
    assert sorted(_rows(outside)) == sorted(row for row, is_one in zip(written, is_in, strict=True) if not is_one)


def _rows(found: pa.Table) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in found.to_pylist()]


def test_null_lies_in_no_box(tmp_path: Path) -> None:
    for sequences in ([None, 7], [None], [5, 6]):
        write_rows(tmp_path, BRONZE, [{"topic": "a", "sequence": sequence} for sequence in sequences])
    bronze = Lakehouse(root=str(tmp_path)).table(BRONZE_RECORDS)

    within = few(bronze, ("sequence",), [{"sequence": (6, 7)}])
    outside = few(bronze, ("sequence",), small_tables.boxes_outside("sequence", 6, 7), version=2, is_outside=True)

    assert sorted(within["sequence"].to_pylist()) == [6, 7]
    assert sorted(outside["sequence"].to_pylist(), key=str) == [6, 7, None, None]


def test_a_value_that_is_small_in_its_file_and_large_once_it_is_read_is_left_to_spark(tmp_path: Path) -> None:
    same = b"x" * 100_000
    write_rows(tmp_path, BRONZE, [{"topic": "a", "partition": 0, "offset": nth, "value": same} for nth in range(400)])
    bronze = Lakehouse(root=str(tmp_path)).table(BRONZE_RECORDS)

    assert sum(path.stat().st_size for path in (tmp_path / BRONZE_RECORDS).glob("*.parquet")) < 10 * len(same)
    assert small_tables.few(bronze, ("value",), [], version=0, is_outside=True) is None
    assert len(few(bronze, ("offset",), [], version=0, is_outside=True)) == 400


def test_more_than_ten_thousand_rows_are_left_to_spark(tmp_path: Path) -> None:
    for rows in (9_999, 1, 1):
        write_rows(tmp_path, BRONZE, [{"topic": "a", "partition": 0, "offset": nth} for nth in range(rows)])
    bronze = Lakehouse(root=str(tmp_path)).table(BRONZE_RECORDS)

    assert len(few(bronze, ("offset",), [], version=1, is_outside=True)) == 10_000
    assert small_tables.few(bronze, ("offset",), [], version=2, is_outside=True) is None


def test_files_that_hold_rows_outside_of_boxes_are_the_table_without_delta(spark: SparkSession, tmp_path: Path) -> None:
    at = datetime(2026, 11, 21, 9, 0, 0, 123456, tzinfo=UTC)
    read = {"value": b"\xff", "timestamp": at, "headers": [{"key": "k", "value": b"v"}]}
    rows = [{"topic": "a", "partition": 0, "offset": nth, **read} for nth in range(3)]
    for row in rows:
        write_rows(tmp_path / "written", BRONZE, [row])
    root = (tmp_path / "written").rename(tmp_path / "a=b c#d")
    bronze = Lakehouse(root=str(root)).table(BRONZE_RECORDS)
    decided = [{"topic": ("a", "a"), "partition": (0, 0), "offset": (0, 0)}]

    found = small_tables.files(spark, bronze, version=2, without=decided)

    assert found is not None
    whole = tables.read(spark, bronze, version=2)
    assert len(found.inputFiles()) == 2
    assert_df_equality(found, whole.where("offset > 0"), ignore_row_order=True, ignore_nullable=True)
    earlier = small_tables.files(spark, bronze, version=1, without=decided)
    assert earlier is not None
    assert earlier.count() == 1
    (root / BRONZE_RECORDS / Path(earlier.inputFiles()[0]).name).unlink()
    assert small_tables.files(spark, bronze, version=1, without=decided) is None


def test_a_folder_that_is_a_pattern_to_spark_is_left_to_delta(spark: SparkSession, tmp_path: Path) -> None:
    write_rows(tmp_path / "a", BRONZE, [{"topic": "a", "partition": 0, "offset": 0}])
    root = (tmp_path / "a").rename(tmp_path / "[ab]")
    bronze = Lakehouse(root=str(root)).table(BRONZE_RECORDS)

    assert small_tables.files(spark, bronze, version=0, without=[]) is None


def test_a_table_that_is_not_there_or_in_no_folder_is_left_to_spark(tmp_path: Path) -> None:
    assert small_tables.few(Lakehouse(root=str(tmp_path)).table(SILVER_RECORDS), ("offset",), []) is None
    catalog = Lakehouse(catalog="spark_catalog", schema="lake")
    assert small_tables.few(catalog.table(SILVER_RECORDS), ("offset",), []) is None


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
    monkeypatch.setattr(Table, "local_folder", None)
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
        monkeypatch.setattr(Table, "local_folder", None)


def test_files_below_the_start_are_not_opened_and_damage_is_named(spark: SparkSession, table: Table, folder: Path) -> None:
    """The log says what is in them: a table's history costs nothing. A page that is not what its checksum says is no data."""
    for file in folder.glob("*.parquet"):
        if b"g3" not in file.read_bytes():
            file.unlink()
    rows = few(table, ["gate_run_id"], [{"first_load_seq": (3, None)}])
    assert rows.to_pylist() == [{"gate_run_id": "g3"}] * 2
    assert small_tables.few(table, ["gate_run_id"], [], is_outside=True) is None

    [file] = folder.glob("*.parquet")
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 8] ^= 0xFF
    file.write_bytes(damaged)
    file.with_name(f".{file.name}.crc").unlink()
    assert small_tables.few(table, RESULTS.names, [{"first_load_seq": (3, None)}]) is None
    with pytest.raises(SPARK_ERRORS, match="parquet"):
        small_tables.read(spark, table, RESULTS.names, start=("first_load_seq", 3))


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
        patched.setattr(Table, "local_folder", None)
        by_spark = looked()

    assert looked() == by_spark
    assert by_spark[1:] == (2, unneeded)
    maintenance.vacuum(spark, table)
    assert looked()[1:] == (2, 0)
