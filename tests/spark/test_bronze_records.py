"""The columns of Bronze, from what Spark's Kafka source hands over."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from chispa import assert_df_equality

from bronze.records import bronze_records
from lakehouse.contracts.bronze import BRONZE
from lakehouse.contracts.model import HEADERS
from lakehouse.errors import ContractError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_CONSUMED = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    f"headers {HEADERS}"
)
_AT = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)


def test_every_column_of_the_source_is_kept_as_it_is(spark: SparkSession) -> None:
    consumed = spark.createDataFrame(
        [
            (b"k", b"\xff\x00", "t", 3, 7, _AT, 0, [("seq", b"1"), ("seq", None)]),
            (None, None, "t", 3, 8, _AT, 1, None),
            (b"", b"", "t", 0, 2**62, _AT, 0, []),
        ],
        _CONSUMED,
    )
    expected = spark.createDataFrame(
        [
            ("t", 3, 7, _AT, 0, b"k", b"\xff\x00", [("seq", b"1"), ("seq", None)], "r1"),
            ("t", 3, 8, _AT, 1, None, None, None, "r1"),
            ("t", 0, 2**62, _AT, 0, b"", b"", [], "r1"),
        ],
        "topic string, partition int, offset bigint, timestamp timestamp, timestamp_type int, key binary, value binary, "
        f"headers {HEADERS}, run_id string",
    )
    records = bronze_records(consumed, "r1")
    assert records.columns == BRONZE.names
    assert_df_equality(records.drop("ingested_at", "erased"), expected, ignore_nullable=True)


def test_a_source_without_headers_is_refused(spark: SparkSession) -> None:
    consumed = spark.createDataFrame([], _CONSUMED).drop("headers")
    with pytest.raises(ContractError, match="headers is missing"):
        bronze_records(consumed, "r1")
