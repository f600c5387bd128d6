"""The floor of a small Silver load: its commits, bare. The rows are those of a plain copy, and nothing is decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.floor import commit_silver, partitions_of
from bench.peers.job import Answer
from bench.peers.spark_rows import new_rows
from lakehouse.contracts.silver import LOADS, WATERMARKS, silver_records
from lakehouse.delta import tables
from lakehouse.table import SILVER_RECORDS, Lakehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bench.peers.job import Job


def prepare(spark: SparkSession, job: Job) -> None:
    """Create the three tables."""
    for contract in (LOADS, silver_records(), WATERMARKS):
        tables.create(spark, _lakehouse(job).table(contract.name), contract)


def commit(spark: SparkSession, job: Job) -> Answer:
    """A claim, what Bronze gained, and the watermarks."""
    streams, load_seq = partitions_of(job.topic), job.after_version + 2
    commit_silver(spark, _lakehouse(job), streams, load_seq, new_rows(spark, job))
    return Answer(table=_lakehouse(job).table(SILVER_RECORDS).location)


def _lakehouse(job: Job) -> Lakehouse:
    return Lakehouse(root=job.work)
