"""Bronze tables for tests: records as a test writes them, put where Kafka's would be."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from typing import Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze.records import bronze_records, with_extracted
from lakehouse.contracts.bronze import BRONZE
from lakehouse.delta import tables
from lakehouse.extract.sources import Source, Sources
from lakehouse.run.context import Run
from lakehouse.spark import frames

_AT = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Record:
    """A Kafka record of topic `t`."""

    offset: int
    value: bytes | None = b""
    key: bytes | None = b"k"
    headers: tuple[tuple[str, bytes | None], ...] | None = None
    partition: int = 0
    topic: str = "t"
    timestamp: datetime | None = _AT

    @classmethod
    def of(cls, offset: int, sequence: object, *, partition: int = 0, producer: object = None, epoch: object = None) -> Self:
        """A record whose headers hold sequence, producer and epoch; those that are None are left out."""
        named = (("seq", sequence), ("producer", producer), ("epoch", epoch))
        headers = tuple((name, str(value).encode()) for name, value in named if value is not None)
        return cls(offset, f"v{sequence}".encode(), headers=headers, partition=partition)


SEQ = Sources(Source("header", "seq"))


def put(spark: SparkSession, run: Run, records: Iterable[Record], sources: Sources | None = SEQ) -> None:
    """Append records in one commit, as a micro-batch of Bronze does; by default by the sources of the smallest config."""
    put_read(spark, run, [(records, sources)])


def put_read(spark: SparkSession, run: Run, parts: Iterable[tuple[Iterable[Record], Sources | None]]) -> None:
    """Append records in one commit, each part read by its sources, or not at all."""
    table = run.table(BRONZE.name)
    tables.create(spark, table, BRONZE)
    read = [with_extracted(frame(spark, records, run.run_id), sources) for records, sources in parts]
    tables.append(reduce(DataFrame.unionByName, read), table, BRONZE)


def frame(spark: SparkSession, records: Iterable[Record], run_id: str = "r1") -> DataFrame:
    rows = [
        {
            **vars(record),
            "headers": record.headers and [{"key": key, "value": value} for key, value in record.headers],
            "timestamp_type": 0,
            "ingested_at": _AT,
            "run_id": run_id,
        }
        for record in records
    ]
    return frames.of_contract(spark, rows, BRONZE)


def put_spans(spark: SparkSession, run: Run, spans: Mapping[int, Iterable[tuple[int, int]]]) -> None:
    """Append records whose value is a number: for each partition some spans of numbers, one after another."""
    table = run.table(BRONZE.name)
    tables.create(spark, table, BRONZE)
    rows = []
    for partition, read in spans.items():
        offset = 0
        for first, last in read:
            rows.append((partition, offset, first, last))
            offset += last - first + 1
    spanned = frames.of_tuples(spark, rows, "partition int, first_offset bigint, first bigint, last bigint")
    numbered = spanned.repartition(2).select("*", F.posexplode(F.sequence("first", "last")).alias("nth", "number"))
    consumed = numbered.select(
        *(F.lit("t").alias("topic"), F.lit(_AT).alias("timestamp"), F.lit(0).alias("timestampType"), "partition"),
        *((F.col("first_offset") + F.col("nth")).alias("offset"), F.expr("CAST(CAST(number AS STRING) AS BINARY) AS value")),
        *(F.lit(None).cast(BRONZE.type_of(name)).alias(name) for name in ("key", "headers")),
    )
    tables.append(bronze_records(consumed, run.run_id, sources=Sources(Source("value"))), table, BRONZE)
