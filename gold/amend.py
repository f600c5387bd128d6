"""Gold's tables without a key that was erased."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse import delta, frames
from lakehouse.crash import crash_point
from lakehouse.table import GOLD_LATEST, GOLD_LATEST_BY_STREAM, GOLD_RECORDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.run import Run

_ASKED = "tidemark_amended"


def remove_key(spark: SparkSession, run: Run, *, topic: str, key_sha256: str, before_load_seq: int) -> None:
    """Remove a key's records of the loads before one: a MERGE per table, none where there is nothing to remove.

    Args:
        spark: The session.
        run: The run.
        topic: Kafka topic.
        key_sha256: SHA-256 of the key, hexadecimal.
        before_load_seq: The load that erased it; what came later is another matter.
    """
    asked = frames.of_tuples(spark, [(topic, key_sha256)], "topic string, key_sha256 string")
    asked.createOrReplaceTempView(_ASKED)
    is_meant = (
        f"record.topic = asked.topic AND sha2(record.key, 256) = asked.key_sha256 AND record.load_seq < {before_load_seq}"
    )
    try:
        for name in (GOLD_LATEST_BY_STREAM, GOLD_LATEST, GOLD_RECORDS):
            table = run.table(name)
            found = f"SELECT 1 FROM {table.sql} AS record JOIN {_ASKED} AS asked ON {is_meant} LIMIT 1"  # noqa: S608 -- names of ours, a number
            if delta.exists(spark, table) and spark.sql(found).collect():
                delta.merge(
                    spark,
                    f"MERGE INTO {table.sql} AS record USING {_ASKED} AS asked ON {is_meant} WHEN MATCHED THEN DELETE",
                    table,
                )
                run.report.event("gold.erased", table=name, load_seq=before_load_seq)
            crash_point(f"erase.{name}")
    finally:
        spark.catalog.dropTempView(_ASKED)
