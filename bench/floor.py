"""The floor of a small run: what it commits, bare. Nothing is decided, audited or looked up, and a crash would leave a mess."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from bench.loads import Silent, as_silver
from bench.peers import spark_stream
from bench.peers.job import RUN, Job
from bench.topics import PARTITIONS
from gold import rows as models
from lakehouse.contracts.gate import RESULTS
from lakehouse.contracts.gold import STREAM_HEALTH, gold_latest, gold_records
from lakehouse.contracts.silver import LOADS, STREAM, WATERMARKS, silver_records
from lakehouse.delta import tables
from lakehouse.run.context import Run
from lakehouse.spark import frames
from lakehouse.spark.session import open_session
from lakehouse.table import GOLD_RECORDS, SILVER_RECORDS, Lakehouse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.contract import Contract

_TABLES = "tables"
"""Where the copies are, in the floor's folder."""

_EXPECTATIONS = 9
"""Rows that a gate run adds."""

_NEW = "bench_new_rows"


def copy_tables(root: Path, job: Job) -> None:
    """Begin with copies of a pipeline's tables, which rest: logs and histories are as long as there."""
    shutil.copytree(root, Path(job.work) / _TABLES)


def commit_bare(spark: SparkSession, job: Job, first_offset: int) -> int:
    """Commit once to each of the eight tables to which a run over a few records commits once, by plain means.

    Bronze is a bare Structured Streaming copy. Silver and Gold get its new rows, the others as many rows as a run gives them.

    Args:
        spark: The session.
        job: The broker, the topic and the floor's folder.
        first_offset: The first new offset of each partition; also the load's number.

    Returns:
        The rows that Gold has gained.
    """
    run = Run("bench", Lakehouse(root=str(Path(job.work) / _TABLES)), Silent())
    spark_stream.copy_from_kafka(spark, job)
    new = spark.read.format("delta").load(str(job.table)).where(F.col("offset") >= first_offset)
    streams = [{"topic": job.topic, "partition": nth, "load_seq": first_offset} for nth in range(PARTITIONS)]

    _append(run, frames.of_contract(spark, streams, LOADS), LOADS)
    _append(run, as_silver(new).withColumn("load_seq", F.lit(first_offset).cast("bigint")), silver_records())
    _merge(spark, run, frames.of_contract(spark, streams, WATERMARKS), WATERMARKS, STREAM)
    _append(run, frames.of_contract(spark, [{"gate_run_id": "bare"}] * _EXPECTATIONS, RESULTS), RESULTS)
    published = models.published(_of_load(spark, run, SILVER_RECORDS, first_offset), "bare")
    _append(run, published, gold_records())
    _merge(spark, run, models.latest(published), gold_latest(), ("topic", "key"))
    _append(run, frames.of_contract(spark, streams, STREAM_HEALTH), STREAM_HEALTH)
    return _of_load(spark, run, GOLD_RECORDS, first_offset).count()


def _append(run: Run, rows: DataFrame, contract: Contract) -> None:
    tables.append(rows, run.table(contract.name), contract)


def _merge(spark: SparkSession, run: Run, rows: DataFrame, contract: Contract, same: Sequence[str]) -> None:
    contract.select(rows).createOrReplaceTempView(_NEW)
    on = " AND ".join(f"old.{name} <=> new.{name}" for name in same)
    spark.sql(
        f"MERGE INTO {run.table(contract.name).sql} AS old USING {_NEW} AS new ON {on} "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    ).collect()


def _of_load(spark: SparkSession, run: Run, name: str, load_seq: int) -> DataFrame:
    return spark.read.table(run.table(name).sql).where(F.col("load_seq") == load_seq)


if __name__ == "__main__":
    servers, topic, folder, first = sys.argv[1:]
    print(commit_bare(open_session("tidemark-bench"), Job(RUN, servers=servers, topic=topic, work=folder), int(first)))
