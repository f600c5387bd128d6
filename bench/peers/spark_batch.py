"""Batch idioms of Spark and Delta: a plain copy, `dropDuplicates`, the first row of a window, and an insert-only MERGE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from bench.peers.job import Answer
from bench.peers.spark_rows import IDENTITY, new_rows, result_of
from lakehouse.contracts.silver import silver_records
from lakehouse.delta import tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from bench.peers.job import Job

_NEW = "bench_new_rows"


def copy(spark: SparkSession, job: Job) -> Answer:
    """The floor: the same rows by the same writer, nothing decided."""
    return _append(new_rows(spark, job), job)


def drop_duplicates(spark: SparkSession, job: Job) -> Answer:
    """Any row of each record: the first one out of the shuffle."""
    return _append(new_rows(spark, job).dropDuplicates(IDENTITY), job)


def row_number(spark: SparkSession, job: Job) -> Answer:
    """The row of a record that has the lowest offset."""
    first = Window.partitionBy(*IDENTITY).orderBy("offset")
    numbered = new_rows(spark, job).withColumn("nth", F.row_number().over(first))
    return _append(numbered.where(F.col("nth") == 1), job)


def merge(spark: SparkSession, job: Job) -> Answer:
    """Insert what the table does not have yet; copies within the new rows are dropped first, or MERGE would insert them all."""
    new_rows(spark, job).select(silver_records().names).dropDuplicates(IDENTITY).createOrReplaceTempView(_NEW)
    same = " AND ".join(f"kept.{name} = new.{name}" for name in IDENTITY)
    spark.sql(f"MERGE INTO {result_of(job).sql} AS kept USING {_NEW} AS new ON {same} WHEN NOT MATCHED THEN INSERT *")
    return Answer(table=str(job.table))


def _append(rows: DataFrame, job: Job) -> Answer:
    tables.append(rows, result_of(job), silver_records())
    return Answer(table=str(job.table))
