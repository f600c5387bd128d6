"""The floor of a small run: what it commits, bare. Nothing is decided, audited or looked up, and a crash would leave a mess."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import functions as F

from bench.loads import as_silver
from bench.peers import spark_stream
from bench.peers.job import RUN, Job
from bench.sitting import require
from bench.topics import PARTITIONS
from gold import rows as models
from lakehouse.contracts.gate import RESULTS
from lakehouse.contracts.gold import STREAM_HEALTH, of_records
from lakehouse.contracts.silver import LOADS, STREAM, WATERMARKS, silver_records
from lakehouse.delta import tables
from lakehouse.spark import frames
from lakehouse.spark.session import open_session
from lakehouse.table import GOLD_LATEST, GOLD_RECORDS, SILVER_RECORDS, Lakehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.contract import Contract

_TABLES = "tables"  # where the copies are, in the floor's folder
_EXPECTATIONS = 9  # rows that a gate run adds
_NEW = "bench_new_rows"


def copy_tables(root: Path, job: Job) -> None:
    """Begin with copies of a pipeline's tables, which rest: logs and histories are as long as there."""
    shutil.copytree(root, Path(job.work) / _TABLES)


def commit_bare(spark: SparkSession, job: Job, first_offset: int) -> None:
    """Commit once to each of the eight tables to which a run over a few records commits once, by plain means.

    Bronze is a bare Structured Streaming copy. Silver and Gold get its new rows, the others as many rows as a run gives them.
    `first_offset` is the first new one of each partition, and the load's number.
    """
    lakehouse = lakehouse_of(job)
    rows = _taken_in(spark, job, first_offset)
    streams = streams_of(job.topic, [None])
    commit_silver(spark, lakehouse, streams, first_offset, rows)

    results = frames.of_contract(spark, [{"gate_run_id": "bare"}] * _EXPECTATIONS, RESULTS)
    tables.append(results, lakehouse.table(RESULTS.name), RESULTS)
    published = _publish(spark, lakehouse, first_offset)
    _merge(spark, lakehouse, models.among_streams(models.by_stream(published)), of_records(name=GOLD_LATEST), ("topic", "key"))
    health = _by_stream(spark, streams, first_offset, STREAM_HEALTH)
    tables.append(health, lakehouse.table(STREAM_HEALTH.name), STREAM_HEALTH)


def copy_thrice(spark: SparkSession, job: Job, first_offset: int) -> None:
    """Copy a topic's new records to a table, on to one as Silver's, and on to one as Gold's. Offset 0 makes the tables."""
    lakehouse = lakehouse_of(job)
    if not first_offset:
        tables.create(spark, lakehouse.table(SILVER_RECORDS), silver_records())
        tables.create(spark, lakehouse.table(GOLD_RECORDS), of_records())
    rows = _taken_in(spark, job, first_offset)
    tables.append(rows, lakehouse.table(SILVER_RECORDS), silver_records())
    _publish(spark, lakehouse, first_offset)


def require_gained(job: Job, load_seq: int, expected: int) -> None:
    """Raise a `WrongResultError` unless Gold has gained so many rows; costs the session nothing."""
    gold = DeltaTable(lakehouse_of(job).table(GOLD_RECORDS).location)
    gained = gold.to_pyarrow_table(columns=["load_seq"], filters=[("load_seq", ">=", load_seq)])
    require("rows that the bare Gold gained", observed=gained.num_rows, expected=expected)


def commit_silver(spark: SparkSession, lakehouse: Lakehouse, streams: pa.Table, load_seq: int, rows: DataFrame) -> None:
    """Commit as a Silver load does: a row of the ledger for each stream, the records, and a MERGE of as many watermarks."""
    tables.append(_by_stream(spark, streams, load_seq, LOADS), lakehouse.table(LOADS.name), LOADS)
    tables.append(rows, lakehouse.table(SILVER_RECORDS), silver_records())
    _merge(spark, lakehouse, _by_stream(spark, streams, load_seq, WATERMARKS), WATERMARKS, STREAM)


def streams_of(topic: str, producers: Sequence[str | None]) -> pa.Table:
    """The streams of some producers (None for no producer), each in every partition of a topic."""
    places = [(partition, name) for partition in range(PARTITIONS) for name in producers]
    partitions, names = zip(*places, strict=True)
    return pa.table({"topic": [topic] * len(places), "partition": partitions, "producer": pa.array(names, pa.string())})


def lakehouse_of(job: Job) -> Lakehouse:
    """Where the floor's Silver and Gold are; its Bronze is the job's own table."""
    return Lakehouse(root=str(Path(job.work) / _TABLES))


def _taken_in(spark: SparkSession, job: Job, first_offset: int) -> DataFrame:
    """The topic's new records, copied to the job's table and read from there, with the columns of Silver."""
    spark_stream.copy_from_kafka(spark, job)
    new = spark.read.format("delta").load(str(job.table)).where(F.col("offset") >= first_offset)
    return as_silver(new).withColumn("load_seq", F.lit(first_offset).cast("bigint"))


def _publish(spark: SparkSession, lakehouse: Lakehouse, load_seq: int) -> DataFrame:
    """Append a load's rows of Silver to Gold; those rows."""
    silver = spark.read.table(lakehouse.table(SILVER_RECORDS).sql).where(F.col("load_seq") == load_seq)
    rows = models.published(silver, "bare")
    tables.append(rows, lakehouse.table(GOLD_RECORDS), of_records())
    return rows


def _by_stream(spark: SparkSession, streams: pa.Table, load_seq: int, contract: Contract) -> DataFrame:
    """A row for each stream, null in every column that would say more."""
    known = {**{name: streams[name] for name in STREAM}, "load_seq": pa.repeat(load_seq, len(streams))}
    columns = {
        column.name: known[column.name].cast(column.type) if column.name in known else pa.nulls(len(streams), column.type)
        for column in frames.arrow_schema(contract)
    }
    return frames.of_arrow(spark, pa.table(columns)).coalesce(1)


def _merge(spark: SparkSession, lakehouse: Lakehouse, rows: DataFrame, contract: Contract, same: Sequence[str]) -> None:
    contract.select(rows).createOrReplaceTempView(_NEW)
    on = " AND ".join(f"old.{name} <=> new.{name}" for name in same)
    spark.sql(
        f"MERGE INTO {lakehouse.table(contract.name).sql} AS old USING {_NEW} AS new ON {on} "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    ).collect()


if __name__ == "__main__":
    servers, topic, folder, first = sys.argv[1:]
    commit_bare(open_session("tidemark-bench"), Job(RUN, servers=servers, topic=topic, work=folder), int(first))
