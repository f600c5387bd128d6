"""Reads past records whose timestamp Spark cannot hold: its Kafka source fails on them in every run, with any options.

The source turns milliseconds into microseconds, so it raises from 2^63 / 1000 on. Such a batch is appended here:

1. Its offset ranges start after what Bronze holds, and end where the checkpoint planned.
2. Spark reads them in one commit. If it meets such a record in a partition, it reads that partition up to the record.
3. From the record on, librdkafka reads on this machine, one bounded chunk per commit, until a chunk has no such record.
4. Spark reads the rest, again from step 2.
5. `bronze_topics` records the next checkpoint, which starts after what Bronze holds.

After a crash the next run fails on the same batch and continues after the whole commits. Two concurrent runs may both append
a record; Silver accepts it once.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from confluent_kafka import TopicPartition

from bronze.kafka.consumer import END_OF_PARTITION, TIMESTAMP_TYPES, HeadersUnreadableError, consumer, headers_of
from bronze.kafka.errors import Place, malformed_timestamp
from bronze.kafka.metadata import LookError, bounds
from bronze.kafka.source import range_options
from bronze.progress import start_offsets
from bronze.progress.checkpoint import read_position
from bronze.progress.topic_registry import write_begun
from bronze.records import bronze_records, timestamp_columns, with_extracted
from lakehouse.contracts.bronze import BRONZE
from lakehouse.delta import tables
from lakehouse.delta.errors import SPARK_ERRORS
from lakehouse.run.crash_points import crash_point
from lakehouse.spark import frames
from lakehouse.table import BRONZE_RECORDS

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message
    from pyspark.sql import DataFrame

    from bronze.kafka.source import Ingest, Ranges
    from bronze.progress.checkpoint import BronzePosition

_CHUNK_RECORDS = 10_000
_CHUNK_BYTES = 32 * 1024 * 1024
_POLL_SECONDS = 1.0
_SHOWN = 20
_SILENCE_SECONDS = 60

Partition = tuple[str, int]


def available(job: Ingest, position: BronzePosition) -> Ranges:
    """Return the offset ranges that Kafka holds now, for the partitions of the last planned batch. Raises as `bounds`."""
    planned = position.checkpoint.planned or {}
    found = {name: bounds(job.kafka, name, partitions, job.spark) for name, partitions in planned.items()}
    return {(name, partition): span for name, each in found.items() for partition, span in each.items()}


def append_planned(job: Ingest, position: BronzePosition, met: Place) -> BronzePosition:
    """Append the last planned batch, which failed on `met`, and start a new checkpoint; return Bronze's new position.

    Raises:
        LookError: The brokers cannot be read from this machine.
        PySparkException, Py4JJavaError: Spark cannot read or write for another reason.
    """
    planned = position.checkpoint.planned or {}
    starts = start_offsets.next_offsets(job, position, planned)
    left: dict[Partition, tuple[int, int]] = {}
    for name, partitions in planned.items():
        for partition, end in partitions.items():
            if starts[name][partition] < end:
                left[name, partition] = starts[name][partition], end
    places = fill(job, position, left, met)
    shown = [f"{each.topic}-{each.partition}@{each.offset}" for each in places[:_SHOWN]]
    job.run.report.event("bronze.timestamps_met", places=shown)
    begun = next(iter(position.topics.values()))
    write_begun(job.spark, job.run, [replace(begun, checkpoint=position.checkpoint.number + 1)])
    crash_point("bronze.begun_anew")
    return read_position(job.spark, job.run)


def fill(job: Ingest, position: BronzePosition, ranges: Ranges, met: Place | None = None) -> list[Place]:
    """Append everything in the ranges; return the records that Spark failed on. `met`, if in the ranges, is the first.

    Raises as `append_planned`.
    """
    places: list[Place] = []
    start, end = ranges.get((met.topic, met.partition), (0, 0)) if met is not None else (0, 0)
    waiting, known = [ranges], met if met is not None and start <= met.offset < end else None
    while waiting:
        spans = waiting.pop()
        place, known = known or _append_or_meet(job, position, spans), None
        if place is not None:
            partition = (place.topic, place.partition)
            start, end = spans[partition]
            _append(job, position, {partition: (start, place.offset)} if start < place.offset else {})
            following = _append_chunks(job, position, partition, (place.offset, end))
            waiting.append({each: span for each, span in spans.items() if each != partition})
            waiting.append({partition: (following, end)} if following < end else {})
            places.append(place)
    return places


def _append_or_meet(job: Ingest, position: BronzePosition, ranges: Ranges) -> Place | None:
    """Append ranges with Spark; or append nothing, and return the record that Spark failed on."""
    try:
        _append(job, position, ranges)
    except SPARK_ERRORS as error:
        if (place := malformed_timestamp(error)) is None:
            raise
        return place
    return None


def _append(job: Ingest, position: BronzePosition, ranges: Ranges) -> None:
    """Append ranges, read by Spark, in one commit."""
    if ranges:
        consumed = job.spark.read.format("kafka").options(**range_options(job.kafka, ranges)).load()
        _commit(job, bronze_records(consumed, job.run.run_id, position.renamed, job.sources))


def _append_chunks(job: Ingest, position: BronzePosition, place: Partition, span: tuple[int, int]) -> int:
    """Append a range, read by librdkafka, up to a chunk without odd timestamps; return the next offset."""
    start, end = span
    with closing(consumer(job.kafka)) as reader:
        reader.assign([TopicPartition(*place, start)])
        has_odd = True
        while has_odd and start < end:
            rows, start, has_odd = _read_chunk(reader, start, end)
            if rows:
                of_run = {"run_id": job.run.run_id, "ingested_at": datetime.now(UTC)}
                named = {"topic": position.renamed.get(place[0], place[0]), "partition": place[1]}
                records = frames.of_contract(job.spark, [{**row, **named, **of_run} for row in rows], BRONZE)
                _commit(job, with_extracted(records, job.sources))
    return start


def _commit(job: Ingest, rows: DataFrame) -> None:
    tables.append(rows, job.run.table(BRONZE_RECORDS), BRONZE)
    crash_point("bronze.carried_on")


def _read_chunk(reader: Consumer, start: int, end: int) -> tuple[list[dict[str, object]], int, bool]:
    """Read at most a chunk's number of records or bytes, from the reader's position up to an end.

    Returns the rows of `bronze_records`, the offset after them, and whether any timestamp is no time.
    """
    rows: list[dict[str, object]] = []
    size, has_odd, heard = 0, False, time.monotonic()
    while len(rows) < _CHUNK_RECORDS and size < _CHUNK_BYTES:
        message = reader.poll(_POLL_SECONDS)
        if message is None:
            if time.monotonic() - heard > _SILENCE_SECONDS:
                raise LookError("no answer")
            continue
        heard, error, offset = time.monotonic(), message.error(), message.offset()
        if error is not None and error.code() != END_OF_PARTITION:
            raise LookError(error.name())
        if error is not None or offset is None or offset >= end:
            return rows, end, has_odd
        row = _row(message)
        if row is None:
            return rows, offset, False
        rows.append(row)
        size += len(message)
        start, has_odd = offset + 1, has_odd or row["timestamp"] is None
    return rows, start, has_odd


def _row(message: Message) -> dict[str, object] | None:
    """Return a record's row, without headers if a name is not UTF-8; None if Spark, which puts U+FFFD there, can read it."""
    kind, milliseconds = message.timestamp()
    named = timestamp_columns(milliseconds)
    headers: list[tuple[str, bytes | None]] = []
    try:
        headers = headers_of(message)
    except HeadersUnreadableError:
        if named["timestamp"] is not None:
            return None
    return {
        "offset": message.offset(),
        "timestamp_type": TIMESTAMP_TYPES.get(kind),
        **named,
        "key": message.key(),
        "value": message.value(),
        "headers": [{"key": name, "value": value} for name, value in headers] if headers else None,
    }
