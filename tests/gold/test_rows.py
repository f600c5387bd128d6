"""What Gold's tables hold, over literal rows."""

from datetime import UTC, datetime

from chispa import assert_df_equality
from pyspark.sql import SparkSession

from gold import rows as models
from lakehouse.contracts.gold import STREAM_HEALTH
from lakehouse.contracts.silver import CLASSES, LOADS
from lakehouse.spark import frames
from tests.support.silver_rows import claim

_AT = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)


def test_the_latest_record_of_a_key_is_its_streams_highest_or_the_last_by_time(spark: SparkSession) -> None:
    schema = """topic string, partition int, producer string, epoch bigint, sequence bigint, key binary, timestamp timestamp,
        offset bigint, value binary"""
    at = [_AT.replace(minute=minute) for minute in range(10)]
    latest = [
        ("t", 0, None, 0, 5, b"a", at[2], 4, b"latest"),
        ("t", 0, None, 0, 2, b"b", None, 1, None),
        ("u", 0, None, 0, 1, b"a", at[1], 1, b"another topic"),
        ("t", 0, None, 1, 1, b"e", at[3], 6, b"greater epoch"),
        ("t", 1, "q", 0, 1, b"p", at[2], 0, b"the other producer, later"),
        ("t", 0, "q", 0, 1, b"o", at[2], 8, b"at the same time, at a greater offset"),
        ("t", 1, None, 0, 3, b"m", at[4], 2, b"the other partition's last is later than this one's last"),
    ]
    older = [
        ("t", 0, None, 0, 3, b"a", at[9], 9, b"late: it arrived after what follows it"),
        ("t", 0, None, 0, 1, b"b", at[1], 0, b"older"),
        ("t", 0, None, 0, 9, b"e", at[3], 5, b"lower epoch"),
        ("t", 1, "p", 0, 7, b"p", at[1], 3, b"one producer"),
        ("t", 0, None, 0, 6, None, at[5], 5, b"no key"),
        ("t", 0, "p", 0, 9, b"o", at[2], 7, b"at the same time, at a lower offset"),
        ("t", 0, None, 0, 1, b"m", at[5], 1, b"the latest by time, and not the last of its stream"),
        ("t", 0, None, 0, 2, b"m", at[3], 2, b"a clock was set back"),
    ]
    records, expected = (spark.createDataFrame(rows, schema) for rows in (older + latest, latest))

    found = models.among_streams(models.by_stream(records))
    assert_df_equality(found, expected, ignore_row_order=True, transforms=[])
    streams = models.shared(records).orderBy("key").collect()
    assert [bytes(row["key"]) for row in streams] == [b"m", b"o", b"p"]


def test_stream_health_has_each_stream_of_the_ledger_also_without_a_kept_record(spark: SparkSession) -> None:
    numbers = {**dict.fromkeys(CLASSES, 0), "records": 3, "high_watermark_after": 7}
    claims = [claim(4, **numbers | {"producer": producer, "accepted": kept}) for producer, kept in ((None, 2), ("a", 0))]
    silver = spark.createDataFrame(
        [("t", 0, None, 4, _AT, b"v", None), ("t", 0, None, 4, None, None, None)],
        "topic string, partition int, producer string, load_seq bigint, timestamp timestamp, value binary, payload string",
    )

    health = models.stream_health(frames.of_contract(spark, claims, LOADS), silver, "g1")

    assert sorted(health.columns) == sorted(STREAM_HEALTH.names)
    columns = ("producer", "records", "accepted", "undecodable", "high_watermark", "newest_record_at", "gate_run_id")
    rows = [tuple(row.values()) for row in health.select(*columns).toArrow().to_pylist()]
    assert sorted(rows, key=str) == [("a", 3, 0, 0, 7, None, "g1"), (None, 3, 2, 1, 7, _AT, "g1")]
