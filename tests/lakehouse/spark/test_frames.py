"""Rows on the driver become frames whole, and frames rows on the driver."""

from unittest.mock import patch

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakehouse.spark import frames


@pytest.mark.parametrize("chunks", [[[1], [], [2]], [[], [1, 2]], [[1, 2], []], [[], [1], [], [], [2], []], [[], []]], ids=str)
def test_no_row_is_lost_behind_a_chunk_without_rows(spark: SparkSession, chunks: list[list[int]]) -> None:
    table = pa.table({"offset": pa.chunked_array(chunks, pa.int64())})
    with patch.object(frames, "_AT_ONCE", 1):
        for frame in (frames.of_arrow(spark, table), frames.of_many(spark, table)):
            assert frame.columns == ["offset"]
            assert [row["offset"] for row in frame.collect()] == [each for chunk in chunks for each in chunk]
