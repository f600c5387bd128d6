"""The peers that run in Spark, in one session that is opened with the first job."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from bench import generated
from bench.peers import ours, spark_batch, spark_stream
from bench.peers.job import GENERATE, INGEST, PREPARE, Answer, Job
from bench.peers.registry import COPIER
from bench.peers.spark_rows import bronze_of, create_result
from lakehouse.spark.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUNS: dict[str, Callable[[SparkSession, Job], Answer]] = {
    "copy": spark_batch.copy,
    "drop_duplicates": spark_batch.drop_duplicates,
    "row_number": spark_batch.row_number,
    "merge": spark_batch.merge,
    "within_watermark": spark_stream.within_watermark,
    "within_watermark_from_kafka": spark_stream.within_watermark_from_kafka,
    "copy_from_kafka": spark_stream.copy_from_kafka,
    "ours": ours.load_silver,
    "ours_from_kafka": ours.ingest_and_load,
}


def do(job: Job) -> Answer:
    """Do a job of a Spark peer."""
    spark = _session()
    if job.do == INGEST:
        return ours.fill_bronze(spark, job)
    if job.do == GENERATE:
        return Answer(version=generated.append_records(spark, bronze_of(job), job.records, job.after_records))
    if job.do == PREPARE:
        if job.peer.startswith("ours"):
            ours.prepare(spark, job)
        elif job.peer != COPIER:  # its result has Bronze's columns
            create_result(spark, job)
        return Answer()
    return RUNS[job.peer](spark, job)


@cache
def _session() -> SparkSession:
    return open_session("tidemark-bench-peer")
