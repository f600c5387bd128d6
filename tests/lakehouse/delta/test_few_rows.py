"""A few rows of a table are read without Spark: those asked for, from the files that may hold them, and never too much."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from chispa import assert_df_equality
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.contracts.bronze import BRONZE
from lakehouse.delta import few_rows, tables
from lakehouse.table import BRONZE_RECORDS, SILVER_RECORDS, Lakehouse
from tests.support.examples import examples
from tests.support.small_tables import write_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

LONG = "a topic whose name is longer than the texts that the statistics of Delta keep"
PLACE = ("topic", "partition", "offset")

_topics = st.sampled_from(["a", "b", LONG])
_numbers = st.integers(0, 5)
_ends = st.tuples(_numbers, _numbers).map(sorted).map(tuple)
_boxes = st.lists(
    st.fixed_dictionaries({"topic": _topics.map(lambda topic: (topic, topic)), "partition": _ends, "offset": _ends}), max_size=4
)
_files = st.lists(st.lists(st.tuples(_topics, _numbers, _numbers), min_size=1, max_size=6), min_size=1, max_size=4)


@settings(max_examples=examples(10, 100), deadline=None)
@given(files=_files, boxes=_boxes)
def test_rows_in_boxes_and_outside_of_them_are_those_that_lie_there(
    files: list[list[tuple[str, int, int]]], boxes: list[few_rows.Box]
) -> None:
    with tempfile.TemporaryDirectory() as root:
        for rows in files:
            write_rows(Path(root), BRONZE, [dict(zip(PLACE, row, strict=True)) for row in rows])
        bronze = Lakehouse(root=root).table(BRONZE_RECORDS)

        inside = few_rows.within(bronze, PLACE, boxes)
        outside = few_rows.outside(bronze, PLACE, boxes, version=len(files) - 1)

    assert inside is not None
    assert outside is not None
    written = [row for rows in files for row in rows]
    is_in = [any(_lies_in(dict(zip(PLACE, row, strict=True)), box) for box in boxes) for row in written]
    assert sorted(_rows(inside)) == sorted(row for row, is_one in zip(written, is_in, strict=True) if is_one)
    assert sorted(_rows(outside)) == sorted(row for row, is_one in zip(written, is_in, strict=True) if not is_one)


def _lies_in(row: dict[str, object], box: few_rows.Box) -> bool:
    return all(low <= row[column] <= high for column, (low, high) in box.items())


def _rows(found: pa.Table) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in found.to_pylist()]


def test_null_lies_in_no_box(tmp_path: Path) -> None:
    for sequences in ([None, 7], [None], [5, 6]):
        write_rows(tmp_path, BRONZE, [{"topic": "a", "sequence": sequence} for sequence in sequences])
    bronze = Lakehouse(root=str(tmp_path)).table(BRONZE_RECORDS)

    within = few_rows.within(bronze, ("sequence",), [{"sequence": (6, 7)}])
    outside = few_rows.outside(bronze, ("sequence",), few_rows.but("sequence", 6, 7), version=2)

    assert within is not None
    assert outside is not None
    assert sorted(within["sequence"].to_pylist()) == [6, 7]
    assert sorted(outside["sequence"].to_pylist(), key=str) == [6, 7, None, None]


def test_files_that_are_gone_are_not_asked_for_where_no_row_of_theirs_is(tmp_path: Path) -> None:
    for offset in range(3):
        write_rows(tmp_path, BRONZE, [{"topic": "a", "partition": 0, "offset": offset}])
    bronze = Lakehouse(root=str(tmp_path)).table(BRONZE_RECORDS)
    decided = [{"topic": ("a", "a"), "partition": (0, 0), "offset": (0, 1)}]
    first = min((tmp_path / BRONZE_RECORDS).glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    first.unlink()

    outside = few_rows.outside(bronze, ("offset",), decided, version=2)

    assert outside is not None
    assert outside.to_pylist() == [{"offset": 2}]
    assert few_rows.within(bronze, ("offset",), decided) is None


def test_a_value_that_is_small_in_its_file_and_large_once_it_is_read_is_left_to_spark(tmp_path: Path) -> None:
    same = b"x" * 100_000
    write_rows(tmp_path, BRONZE, [{"topic": "a", "partition": 0, "offset": nth, "value": same} for nth in range(400)])
    bronze = Lakehouse(root=str(tmp_path)).table(BRONZE_RECORDS)

    assert sum(path.stat().st_size for path in (tmp_path / BRONZE_RECORDS).glob("*.parquet")) < 10 * len(same)
    assert few_rows.outside(bronze, ("value",), [], version=0) is None
    narrow = few_rows.outside(bronze, ("offset",), [], version=0)
    assert narrow is not None
    assert len(narrow) == 400


def test_more_than_ten_thousand_rows_are_left_to_spark(tmp_path: Path) -> None:
    for rows in (9_999, 1, 1):
        write_rows(tmp_path, BRONZE, [{"topic": "a", "partition": 0, "offset": nth} for nth in range(rows)])
    bronze = Lakehouse(root=str(tmp_path)).table(BRONZE_RECORDS)

    most = few_rows.outside(bronze, ("offset",), [], version=1)
    assert most is not None
    assert len(most) == 10_000
    assert few_rows.outside(bronze, ("offset",), [], version=2) is None


@pytest.mark.spark
def test_the_files_that_hold_rows_outside_of_boxes_are_the_table_to_a_query_without_delta(
    spark: SparkSession, tmp_path: Path
) -> None:
    at = datetime(2026, 11, 21, 9, 0, 0, 123456, tzinfo=UTC)
    read = {"value": b"\xff", "timestamp": at, "headers": [{"key": "k", "value": b"v"}]}
    rows = [{"topic": "a", "partition": 0, "offset": nth, **read} for nth in range(3)]
    for row in rows:
        write_rows(tmp_path / "written", BRONZE, [row])
    root = (tmp_path / "written").rename(tmp_path / "a=b c#d")
    bronze = Lakehouse(root=str(root)).table(BRONZE_RECORDS)
    decided = [{"topic": ("a", "a"), "partition": (0, 0), "offset": (0, 0)}]

    found = few_rows.files(spark, bronze, version=2, without=decided)

    assert found is not None
    whole = tables.read(spark, bronze, version=2)
    assert len(found.inputFiles()) == 2
    assert_df_equality(found, whole.where("offset > 0"), ignore_row_order=True, ignore_nullable=True)
    earlier = few_rows.files(spark, bronze, version=1, without=decided)
    assert earlier is not None
    assert earlier.count() == 1
    (root / BRONZE_RECORDS / Path(earlier.inputFiles()[0]).name).unlink()
    assert few_rows.files(spark, bronze, version=1, without=decided) is None


@pytest.mark.spark
def test_a_folder_that_is_a_pattern_to_spark_is_left_to_delta(spark: SparkSession, tmp_path: Path) -> None:
    write_rows(tmp_path / "a", BRONZE, [{"topic": "a", "partition": 0, "offset": 0}])
    root = (tmp_path / "a").rename(tmp_path / "[ab]")
    bronze = Lakehouse(root=str(root)).table(BRONZE_RECORDS)

    assert few_rows.files(spark, bronze, version=0, without=[]) is None


def test_a_table_that_is_not_there_or_in_no_folder_is_left_to_spark(tmp_path: Path) -> None:
    assert few_rows.within(Lakehouse(root=str(tmp_path)).table(SILVER_RECORDS), ("offset",), []) is None
    catalog = Lakehouse(catalog="spark_catalog", schema="lake")
    assert few_rows.within(catalog.table(SILVER_RECORDS), ("offset",), []) is None
