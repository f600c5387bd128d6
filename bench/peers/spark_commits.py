"""The floor of a small Silver load: its commits, bare. The rows are those of a plain copy, and nothing is decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.floor import commit_silver, partitions_of
from bench.peers.job import Answer
from bench.peers.spark_rows import create_result, new_rows, result_of
from lakehouse.contracts.silver import LOADS, WATERMARKS
from lakehouse.delta import tables
from lakehouse.table import Lakehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bench.peers.job import Job


def prepare(spark: SparkSession, job: Job) -> None:
    """Create the three tables."""
    create_result(spark, job)
    for contract in (LOADS, WATERMARKS):
        tables.create(spark, _lakehouse(job).table(contract.name), contract)


def commit(spark: SparkSession, job: Job) -> Answer:
    """A claim, what Bronze gained, and the watermarks."""
    streams, load_seq = partitions_of(job.topic), job.after_version + 2
    commit_silver(spark, _lakehouse(job), streams, load_seq, new_rows(spark, job), result_of(job))
    return Answer(table=str(job.table))


def _lakehouse(job: Job) -> Lakehouse:
    return Lakehouse(root=job.work)
