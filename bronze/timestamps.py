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
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
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
    from pyspark.sql import DataFrame, SparkSession

    from bronze.kafka.source import Offsets, Ranges
    from bronze.progress.checkpoint import BronzePosition
    from lakehouse.extract.sources import Sources
    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Kafka

_CHUNK_RECORDS = 10_000
_CHUNK_BYTES = 32 * 1024 * 1024
_POLL_SECONDS = 1.0
_SHOWN = 20
_SILENCE_SECONDS = 60

Partition = tuple[str, int]


@dataclass(frozen=True)
class RangeAppender:
    """Appends offset ranges to `bronze_records`, with Spark or with librdkafka."""

    spark: SparkSession
    run: Run
    kafka: Kafka
    sources: Sources | None
    stored_as: Mapping[str, str]

    def append(self, ranges: Ranges) -> None:
        """Append ranges, read by Spark, in one commit."""
        if ranges:
            consumed = self.spark.read.format("kafka").options(**range_options(self.kafka, ranges)).load()
            self._commit(bronze_records(consumed, self.run.run_id, self.stored_as, self.sources))

    def append_chunks(self, place: Partition, start: int, end: int) -> int:
        """Append a range, read by librdkafka, up to a chunk without odd timestamps; return the next offset."""
        with closing(consumer(self.kafka)) as reader:
            reader.assign([TopicPartition(*place, start)])
            has_odd = True
            while has_odd and start < end:
                rows, start, has_odd = _read_chunk(reader, start, end)
                if rows:
                    of_run = {"run_id": self.run.run_id, "ingested_at": datetime.now(UTC)}
                    named = {"topic": self.stored_as.get(place[0], place[0]), "partition": place[1]}
                    records = frames.of_contract(self.spark, [{**row, **named, **of_run} for row in rows], BRONZE)
                    self._commit(with_extracted(records, self.sources))
        return start

    def _commit(self, rows: DataFrame) -> None:
        tables.append(rows, self.run.table(BRONZE_RECORDS), BRONZE)
        crash_point("bronze.carried_on")


def available(spark: SparkSession, kafka: Kafka, planned: Offsets) -> Ranges:
    """Return the offset ranges that Kafka holds now, for the partitions of a batch. Raises as `bounds`."""
    found = {name: bounds(kafka, name, map(int, partitions), spark) for name, partitions in planned.items()}
    return {(name, partition): span for name, each in found.items() for partition, span in each.items()}


def append_planned(appender: RangeAppender, position: BronzePosition, met: Place) -> BronzePosition:
    """Append the last planned batch, which failed on `met`, and start a new checkpoint; return Bronze's new position.

    Raises:
        LookError: The brokers cannot be read from this machine.
        PySparkException, Py4JJavaError: Spark cannot read or write for another reason.
    """
    spark, run = appender.spark, appender.run
    planned = position.checkpoint.planned or {}
    starts = start_offsets.next_offsets(spark, run, appender.kafka, position, planned)
    left: dict[Partition, tuple[int, int]] = {}
    for name, partitions in planned.items():
        for partition, end in partitions.items():
            if starts[name][partition] < end:
                left[name, int(partition)] = starts[name][partition], end
    places = fill(appender, left, met)
    shown = [f"{each.topic}-{each.partition}@{each.offset}" for each in places[:_SHOWN]]
    run.report.event("bronze.timestamps_met", places=shown)
    begun = next(iter(position.topics.values()))
    write_begun(spark, run, [replace(begun, checkpoint=position.checkpoint.number + 1)])
    crash_point("bronze.begun_anew")
    return read_position(spark, run)


def fill(appender: RangeAppender, ranges: Ranges, met: Place | None = None) -> list[Place]:
    """Append everything in the ranges; return the records that Spark failed on. `met`, if in the ranges, is the first.

    Raises as `append_planned`.
    """
    places: list[Place] = []
    start, end = ranges.get((met.topic, met.partition), (0, 0)) if met is not None else (0, 0)
    waiting, known = [ranges], met if met is not None and start <= met.offset < end else None
    while waiting:
        spans = waiting.pop()
        place, known = known or _append(appender, spans), None
        if place is not None:
            partition = (place.topic, place.partition)
            start, end = spans[partition]
            appender.append({partition: (start, place.offset)} if start < place.offset else {})
            following = appender.append_chunks(partition, place.offset, end)
            waiting.append({each: span for each, span in spans.items() if each != partition})
            waiting.append({partition: (following, end)} if following < end else {})
            places.append(place)
    return places


def _append(appender: RangeAppender, ranges: Ranges) -> Place | None:
    """Append ranges with Spark; or append nothing, and return the record that Spark failed on."""
    try:
        appender.append(ranges)
    except SPARK_ERRORS as error:
        if (place := malformed_timestamp(error)) is None:
            raise
        return place
    return None


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
