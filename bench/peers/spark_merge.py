"""Delta's insert-only MERGE on the record's identity: what most lakehouses run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.peers.job import Answer
from bench.peers.spark_rows import IDENTITY, new_rows, result_of
from lakehouse.contracts.silver import silver_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bench.peers.job import Job

_NEW = "bench_new_rows"


def merge(spark: SparkSession, job: Job) -> Answer:
    """Insert what the table does not have yet; copies within the new rows are dropped first, or MERGE would insert them all."""
    new_rows(spark, job).select(silver_records().names).dropDuplicates(IDENTITY).createOrReplaceTempView(_NEW)
    same = " AND ".join(f"kept.{name} = new.{name}" for name in IDENTITY)
    spark.sql(f"MERGE INTO {result_of(job).sql} AS kept USING {_NEW} AS new ON {same} WHEN NOT MATCHED THEN INSERT *")
    return Answer(table=str(job.table))
