"""Structured Streaming: a bare copy of a topic, and `dropDuplicatesWithinWatermark` on RocksDB, what most would write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.peers.job import Answer
from bench.peers.spark_rows import IDENTITY, bronze_of, sequenced
from bronze.records import bronze_records
from lakehouse.contracts.silver import silver_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from bench.peers.job import Job

_STATE = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
_DELAY = "1 hour"
"""How long a copy may come after its record. All of a benchmark's records are younger: none is dropped for its age."""


def within_watermark(spark: SparkSession, job: Job) -> Answer:
    """From Bronze: each record once within an hour of event time."""
    return _deduplicate(spark.readStream.format("delta").load(bronze_of(job).location), job)


def within_watermark_from_kafka(spark: SparkSession, job: Job) -> Answer:
    """The same, straight from the topic."""
    return _deduplicate(bronze_records(_consumed(spark, job), "bench"), job)


def copy_from_kafka(spark: SparkSession, job: Job) -> Answer:
    """A topic as a table, nothing decided; committed records only."""
    return _stream(bronze_records(_consumed(spark, job), "bench"), job)


def _deduplicate(records: DataFrame, job: Job) -> Answer:
    for name, value in _STATE.items():
        records.sparkSession.conf.set(name, value)
    once = sequenced(records).withWatermark("timestamp", _DELAY).dropDuplicatesWithinWatermark(IDENTITY)
    return _stream(once.select(silver_records().names), job)


def _consumed(spark: SparkSession, job: Job) -> DataFrame:
    options = {
        "kafka.bootstrap.servers": job.servers,
        "subscribe": job.topic,
        "startingOffsets": "earliest",
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
    }
    return spark.readStream.format("kafka").options(**options).load()


def _stream(rows: DataFrame, job: Job) -> Answer:
    """Take in all there is, and end."""
    writer = rows.writeStream.format("delta").outputMode("append").option("checkpointLocation", str(job.state))
    writer.trigger(availableNow=True).start(str(job.table)).awaitTermination()
    return Answer(table=str(job.table))
