"""The preview before a first run: decides a sample from Kafka by the code of a load, and writes nothing."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from bronze.kafka import sample as kafka_sample
from bronze.records import timestamp_columns
from lakehouse.contracts.bronze import BRONZE
from lakehouse.contracts.silver import REJECTS, silver_records
from lakehouse.delta import tables
from lakehouse.errors import BreakerOpenError
from lakehouse.spark import frames
from lakehouse.table import BRONZE_RECORDS, SILVER_LOADS, SILVER_WATERMARKS
from pipelines import bronze_to_silver
from silver.decide import decision
from silver.extract.schemas import with_schemas
from silver.load import breaker, key_columns, planner
from silver.model import streams_of
from silver.rules import Rules
from silver.state import ledger
from silver.state.streams import Streams
from silver.state.watermarks import Watermarks
from silver.suspects.known_records import KnownRecords

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from bronze.kafka.sample import Sampled
    from lakehouse.contracts.contract import Contract
    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Settings

MOST_RECORDS = 4_000
_FIRST = 1


def is_before_first_run(spark: SparkSession, run: Run) -> bool:
    """Whether no run has written a table yet."""
    root = run.lakehouse.local_root
    if root is not None and not root.is_dir():  # a look by Spark would make its warehouse
        return True
    return not any(tables.exists(spark, run.table(name)) for name in (BRONZE_RECORDS, SILVER_LOADS, SILVER_WATERMARKS))


def preview(spark: SparkSession, run: Run, settings: Settings) -> dict[str, object]:
    """Decide a sample of what a first load would read. Creates no table and no folder.

    Returns:
        The keys of `pipelines.bronze_to_silver.preview` with load_seq None, and `sample`: records decided; available, offsets
        in Kafka; partitions; starting_offsets; headers_unread, records left out because the client cannot return their
        headers; is_cut_short.

    Raises:
        SourceError: The topics cannot be read.
    """
    found = kafka_sample.require(settings.kafka, MOST_RECORDS, has_end=False)
    records = [record for record in found.records if record.headers is not None]
    start = settings.kafka.starting_offsets
    sample = {
        "records": len(records),
        "available": found.available,
        "partitions": len(found.partitions),
        "starting_offsets": start if isinstance(start, str) else "as given",
        "headers_unread": len(found.records) - len(records),
        "is_cut_short": found.is_cut_short,
    }
    try:
        decided = _decided(spark, run, settings, records) if records else {}
    except BreakerOpenError as opened:
        decided = {"breaker": [asdict(breaker.trip_of(opened))]}
    return {**bronze_to_silver.NOTHING, **decided, "other_topics": [], "sample": sample}


def _decided(spark: SparkSession, run: Run, settings: Settings, records: Sequence[Sampled]) -> dict[str, object]:
    rules, nothing = Rules.of(settings), Watermarks({})
    silver, rejects = _empty(spark, silver_records()), _empty(spark, REJECTS)
    known = KnownRecords(lambda: silver, lambda: rejects, nothing)
    streams = Streams(spark, run, nothing, bronze_to_silver.limits(settings))
    rows = frames.of_contract(spark, [_row(record) for record in records], BRONZE)
    rules = with_schemas(spark, run, rows, rules)
    chunks = key_columns.of_records(rows, rules, MOST_RECORDS, counted=len(records))

    def resolve(chunk: pa.Table) -> Watermarks:
        return streams.resolve(streams_of(chunk))

    found = planner.classify(spark, chunks, rows, rules, load_seq=_FIRST, resolve=resolve, known=lambda: known)
    loads = ledger.rows(ledger.stream_loads(decision.summary(found.segments), [], nothing), nothing, {}, rules)
    return {
        "records": len(records),
        "breaker": [asdict(trip) for trip in breaker.trips(_FIRST, loads, bronze_to_silver.shares(settings))],
        "kept_out": bronze_to_silver.samples(found.rejects),
        "streams": [{name: row[name] for name in bronze_to_silver.SHOWN} for row in loads],
    }


def _empty(spark: SparkSession, contract: Contract) -> DataFrame:
    return frames.of_contract(spark, [], contract)


def _row(record: Sampled) -> dict[str, object]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_type": record.timestamp_type,
        **timestamp_columns(record.timestamp_ms),
        "key": record.key,
        "value": record.value,
        "headers": [{"key": name, "value": value} for name, value in record.headers or ()] or None,
    }
