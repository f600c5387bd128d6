"""Records that Spark generates in Bronze: for histories that would take hours through a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from bench.topics import HEADER, PARTITIONS
from bronze.records import with_extracted
from lakehouse.contracts.bronze import BRONZE
from lakehouse.contracts.contract import ERASED_IN_BRONZE
from lakehouse.delta import tables
from lakehouse.extract.sources import Source, Sources
from lakehouse.table import BRONZE_RECORDS
from silver.load import steps
from silver.rules import Rules
from silver.state.tables import create_tables

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakehouse.run.context import Run
    from lakehouse.table import Table

TOPIC = "generated"
PRODUCER_HEADER = "producer"
RULES = Rules(Source("header", HEADER))
"""How generated records without a producer are read."""

NOISE = 6
"""Pieces of noise in a value of a history: 192 bytes."""


def fill_silver(spark: SparkSession, run: Run, records: int) -> None:
    """Create Bronze and Silver, and load a history: values of 192 bytes, equally many records in each partition."""
    create_tables(spark, run, RULES)
    append_records(spark, run.table(BRONZE_RECORDS), records, 0, noise=NOISE)
    steps.load_once(spark, run, RULES)


def append_records(spark: SparkSession, bronze: Table, records: int, after: int, *, noise: int = 1) -> int:
    """Append records to Bronze in one commit, equally many to each partition; return Bronze's version.

    Creates Bronze if it is missing. `after` is how many records it has already; a piece of noise has 32 bytes.
    """
    tables.create(spark, bronze, BRONZE)
    offset = F.floor(F.col("id") / PARTITIONS) + after // PARTITIONS
    numbered = spark.range(0, records, 1, PARTITIONS).select(
        (F.col("id") % PARTITIONS).cast("int").alias("partition"), offset.alias("offset"), (offset + 1).alias("seq")
    )
    tables.append(bronze_rows(numbered, TOPIC, noise=noise), bronze, BRONZE)
    return tables.version(spark, bronze)


def bronze_rows(rows: DataFrame, topic: str, *, noise: int = 1) -> DataFrame:
    """Bronze records of rows with partition, offset, seq and perhaps producer. A sequence has the same value each time."""
    pieces = [F.unhex(F.sha2(F.concat_ws("-", "partition", "seq", F.lit(nth)).cast("binary"), 256)) for nth in range(noise)]
    headers = {HEADER: "seq", **({PRODUCER_HEADER: "producer"} if "producer" in rows.columns else {})}
    columns = {
        "topic": F.lit(topic),
        "timestamp": F.current_timestamp(),
        "timestamp_type": F.lit(0),
        "key": F.lit(b"key"),
        "value": F.concat(*pieces),
        "headers": F.array(*(_header(name, column) for name, column in headers.items())),
        "ingested_at": F.current_timestamp(),
        "run_id": F.lit("bench"),
        "erased": F.lit(None).cast(ERASED_IN_BRONZE),
        "timestamp_ms": F.lit(None).cast("bigint"),
    }
    producer = Source("header", PRODUCER_HEADER) if "producer" in rows.columns else None
    return with_extracted(rows.withColumns(columns), Sources(Source("header", HEADER), producer))


def _header(name: str, column: str) -> Column:
    return F.struct(F.lit(name).alias("key"), F.col(column).cast("string").cast("binary").alias("value"))
