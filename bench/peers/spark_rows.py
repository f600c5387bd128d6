"""What the Spark peers share: Bronze's rows with their sequence and the columns of Silver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from bench.loads import as_silver
from bench.topics import HEADER
from lakehouse.contracts.silver import silver_records
from lakehouse.delta import tables
from lakehouse.table import BRONZE_RECORDS, Lakehouse, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from bench.peers.job import Job

IDENTITY = ["topic", "partition", "sequence"]
"""What makes two records the same one."""


def bronze_of(job: Job) -> Table:
    """The table that the job reads."""
    return Lakehouse(root=job.root).table(BRONZE_RECORDS)


def result_of(job: Job) -> Table:
    """The table that the job writes."""
    return Table("result", str(job.table), is_path=True)


def new_rows(spark: SparkSession, job: Job) -> DataFrame:
    """Bronze's rows that no former job has read, with the columns of Silver."""
    bronze = bronze_of(job)
    if job.after_version < 0:
        return sequenced(tables.read(spark, bronze, version=tables.version(spark, bronze)))
    changes = spark.read.option("readChangeFeed", "true").option("startingVersion", job.after_version + 1)
    return sequenced(changes.table(bronze.sql))


def sequenced(records: DataFrame) -> DataFrame:
    """Kafka records with the columns of Silver, the sequence of their header among them."""
    value = F.filter("headers", lambda header: header["key"] == HEADER)[0]["value"]
    return as_silver(records).withColumn("sequence", value.cast("string").cast("bigint"))


def create_result(spark: SparkSession, job: Job) -> None:
    """Create the table that the job writes, with the columns of Silver."""
    tables.create(spark, result_of(job), silver_records())
