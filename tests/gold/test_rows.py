"""What `gold_stream_health` holds, over literal rows."""

from datetime import UTC, datetime

from pyspark.sql import SparkSession

from gold import rows as models
from lakehouse.contracts.gold import STREAM_HEALTH
from lakehouse.contracts.silver import CLASSES, LOADS
from lakehouse.spark import frames
from tests.support.silver_rows import claim

_AT = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)


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
