"""Rows on the driver become frames whole, and frames rows on the driver."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakehouse.spark import frames


@pytest.mark.parametrize("chunks", [[[1], [], [2]], [[], [1, 2]], [[1, 2], []], [[], [1], [], [], [2], []], [[], []]], ids=str)
def test_no_row_is_lost_behind_a_chunk_without_rows(spark: SparkSession, chunks: list[list[int]]) -> None:
    frame = frames.of_arrow(spark, pa.table({"offset": pa.chunked_array(chunks, pa.int64())}))

    assert frame.columns == ["offset"]
    assert [row["offset"] for row in frame.collect()] == [each for chunk in chunks for each in chunk]


def test_nothing_of_the_rows_that_are_read_one_by_one_stays_in_the_session(spark: SparkSession) -> None:
    rows = frames.of_tuples(spark, [(3,), (1,), (2,)], "number bigint").orderBy("number")
    tracked = spark._jsparkSession.sparkContext().dagScheduler().activeQueryToJobs()

    def ids() -> set[object]:
        return set(tracked.keySet())

    before = ids()
    assert [row["number"] for row in frames.one_by_one(rows)] == [1, 2, 3]

    assert ids() <= before
