"""Rows on the driver become frames whole, and frames rows on the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakehouse.spark import frames

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("chunks", [[[1], [], [2]], [[], [1, 2]], [[1, 2], []], [[], [1], [], [], [2], []], [[], []]], ids=str)
def test_no_row_is_lost_behind_a_chunk_without_rows(spark: SparkSession, chunks: list[list[int]]) -> None:
    frame = frames.of_arrow(spark, pa.table({"offset": pa.chunked_array(chunks, pa.int64())}))

    assert frame.columns == ["offset"]
    assert [row["offset"] for row in frame.collect()] == [each for chunk in chunks for each in chunk]
