"""Gold's tables without a key that was erased."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

from lakehouse import delta, frames
from lakehouse.crash import crash_point
from lakehouse.table import GOLD_LATEST, GOLD_LATEST_BY_STREAM, GOLD_RECORDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.run import Run

_ASKED = "tidemark_amended"


@dataclass(frozen=True)
class ErasedKey:
    """A key that a load erased.

    Attributes:
        topic: Kafka topic.
        key_sha256: SHA-256 of the salt and the key, hexadecimal.
        salt: The salt, hexadecimal; it may be empty.
        is_of_all_incarnations: Whether the topic is meant each time that it was created.
        before_load_seq: The load that erased it; what came later is another matter.
    """

    topic: str
    key_sha256: str
    salt: str
    is_of_all_incarnations: bool
    before_load_seq: int


def remove_key(spark: SparkSession, run: Run, key: ErasedKey) -> None:
    """Remove a key's records of the loads before the one that erased it: a MERGE per table, none where there is none."""
    columns = "topic string, key_sha256 string, salt string, is_of_all_incarnations boolean, before_load_seq bigint"
    asked = frames.of_tuples(spark, [astuple(key)], columns)
    asked.createOrReplaceTempView(_ASKED)
    is_of_topic = (
        "(record.topic = asked.topic OR (asked.is_of_all_incarnations AND startswith(record.topic, concat(asked.topic, '@'))))"
    )
    is_meant = (
        f"{is_of_topic} AND sha2(concat(unhex(asked.salt), record.key), 256) = asked.key_sha256 "
        "AND record.load_seq < asked.before_load_seq"
    )
    try:
        for name in (GOLD_LATEST_BY_STREAM, GOLD_LATEST, GOLD_RECORDS):
            table = run.table(name)
            found = f"SELECT 1 FROM {table.sql} AS record JOIN {_ASKED} AS asked ON {is_meant} LIMIT 1"  # noqa: S608 -- names of ours
            if delta.exists(spark, table) and spark.sql(found).collect():
                delta.merge(
                    spark,
                    f"MERGE INTO {table.sql} AS record USING {_ASKED} AS asked ON {is_meant} WHEN MATCHED THEN DELETE",
                    table,
                )
                run.report.event("gold.erased", table=name, load_seq=key.before_load_seq)
            crash_point(f"erase.{name}")
    finally:
        spark.catalog.dropTempView(_ASKED)
