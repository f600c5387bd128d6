"""The columns of Bronze, from what Spark's Kafka source hands over."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from chispa import assert_df_equality

from bronze.records import bronze_records, timestamp_columns
from lakehouse.contracts.bronze import BRONZE
from lakehouse.contracts.contract import HEADERS
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
    unread = ("producer", "epoch", "sequence", "problem", "rules_fingerprint")
    assert_df_equality(records.drop("ingested_at", "erased", "timestamp_ms", *unread), expected, ignore_nullable=True)
    assert {tuple(row) for row in records.select(*unread).collect()} == {(None,) * 5}


def test_a_source_without_headers_is_refused(spark: SparkSession) -> None:
    consumed = spark.createDataFrame([], _CONSUMED).drop("headers")
    with pytest.raises(ContractError, match="headers is missing"):
        bronze_records(consumed, "r1")


def test_a_timestamp_outside_the_years_1_to_9999_and_kafkas_word_for_none_are_numbers(spark: SparkSession) -> None:
    first, last, gregorian = -62_135_596_800_000, 253_402_300_799_999, -12_219_292_800_000
    numbers = [0, -2, gregorian, gregorian - 1, first, last, -1, first - 1, last + 1, 9_223_372_036_854_775]
    two_days, ten_days = 2 * 86_400_000, 10 * 86_400_000
    # What Spark's source makes of them: it takes a Julian day for ours.
    read = {gregorian - 1: gregorian - 1 - ten_days, first: first + two_days, first - 1: first - 1 + two_days}
    times = "|".join(str(read.get(number, number)) for number in numbers)
    consumed = spark.sql(
        f"""
        SELECT CAST(NULL AS BINARY) AS key, CAST(NULL AS BINARY) AS value, 't' AS topic, 0 AS partition,
            CAST(nth AS BIGINT) AS offset, timestamp_millis(CAST(number AS BIGINT)) AS timestamp, 0 AS timestampType,
            CAST(NULL AS {HEADERS}) AS headers
        FROM (SELECT posexplode(split('{times}', '[|]')) AS (nth, number))
        """
    )
    records = bronze_records(consumed, "r1").selectExpr("offset", "unix_millis(timestamp) AS at", "timestamp_ms")
    expected = [(nth, number, None) if nth < 6 else (nth, None, number) for nth, number in enumerate(numbers)]
    assert_df_equality(
        records, spark.createDataFrame(expected, "offset bigint, at bigint, timestamp_ms bigint"), ignore_nullable=True
    )
    assert [timestamp_columns(number)["timestamp_ms"] for number in numbers] == [row[2] for row in expected]
