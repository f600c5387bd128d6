"""Kafka to `bronze_records`: a Structured Streaming query that reads everything available, and ends.

1. Create the tables, or check their columns and their owner (`lakehouse.protocol.bronze_owner`).
2. Check by Kafka's topic ids that no topic was recreated (`bronze.progress.topic_breaks`). Write to `bronze_topics`
   where each partition of a new topic starts, and which partitions a known topic got.
3. If the checkpoint is gone or does not match the table, take the starting offsets from the tables
   (`bronze.progress.checkpoint`, `bronze.progress.start_offsets`).
4. For each micro-batch Spark writes its offset range to the checkpoint, then appends it under the query's id and the batch's
   number. Delta accepts each number once. After a crash the same range is repeated under the same number.
5. Record in `bronze_topics` that all records from before the producers knew a topic's new partitions are read.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pyspark.sql.utils import is_remote

from bronze import timestamps
from bronze.kafka.errors import failure, malformed_timestamp
from bronze.kafka.metadata import LookError, describe_topics
from bronze.kafka.source import Ingest, reader_options, require_reachable
from bronze.progress import topic_breaks, topic_registry
from bronze.progress.checkpoint import choose, read_position
from bronze.progress.start_offsets import require_table, starting_point, starts
from bronze.progress.topic_registry import Topic, write_begun, write_grown
from bronze.records import bronze_records
from lakehouse.contracts.bronze import BRONZE
from lakehouse.delta import tables
from lakehouse.delta.errors import SPARK_ERRORS, unsupported
from lakehouse.errors import BatchCorruptError, OffsetsExpiredError, SourceError, TopicRecreatedError
from lakehouse.protocol import bronze_owner
from lakehouse.run.crash_points import crash_point
from lakehouse.spark import storage_errors
from lakehouse.table import BRONZE_RECORDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from bronze.kafka.metadata import Seen
    from bronze.progress.checkpoint import BronzePosition
    from lakehouse.errors import TidemarkError
    from lakehouse.extract.sources import Sources
    from lakehouse.run.context import Report, Run
    from lakehouse.settings.pipeline import Kafka

_POLL_SECONDS = 0.5
_SENDERS_LEARN = timedelta(minutes=10)
"""How long a producer may not know of new partitions: twice the default of Kafka's metadata.max.age.ms."""


@dataclass(frozen=True)
class Ingested:
    """One run of Bronze: micro-batches with records, Delta versions before and after, skipped topics with the reason."""

    records: int
    batches: int
    from_version: int
    to_version: int
    skipped: list[dict[str, str]]
    seconds: float


def ingest(spark: SparkSession, run: Run, kafka: Kafka, sources: Sources | None = None) -> Ingested:
    """Append every record that is available in Kafka, and not yet in Bronze, to `bronze_records`.

    Commits to `bronze_topics` if a topic is new, and one version per micro-batch of at most `max_offsets_per_trigger` records.
    Without `sources`, Silver reads producer, epoch and sequence. If the settings skip unreadable topics, their errors are not
    raised, but stored in the result and in `bronze_topics`.

    Raises:
        TopicRecreatedError: A topic was deleted and recreated.
        OffsetsExpiredError: Kafka no longer has the next records; the error names the lost offsets.
        BatchCorruptError: A batch of a topic cannot be decoded; the error names its offsets.
        SourceError: Kafka refuses, cannot be reached, or lacks a topic. Earlier commits stay, and the next run continues there.
        StorageError: A disk is full or denies access: tables, checkpoint or Spark's own files.
        AnotherWriterError: Another run ingests into the same Bronze at the same time.
        ContractError: The table exists with other columns.
        TableStateError: The table belongs to another pipeline, or it is new and its checkpoint has read records.
    """
    started = time.monotonic()
    if not is_remote():  # over Spark Connect the server must reach Kafka, not this machine
        require_reachable(kafka.bootstrap_servers)
    bronze = run.table(BRONZE_RECORDS)
    bronze_owner.create_bronze(spark, run)
    crash_point("bronze.created")
    standing, job = read_position(spark, run), Ingest(spark, run, kafka, sources)
    records, batches, skipped = _read_readable(job, standing, _seen(job))
    ingested = Ingested(
        records=records,
        batches=batches,
        from_version=standing.version,
        to_version=tables.version(spark, bronze),
        skipped=[{"topic": name, "reason": error.reason} for name, error in skipped.items()],
        seconds=round(time.monotonic() - started, 3),
    )
    run.report.event("bronze.ingested", **vars(ingested))
    crash_point("bronze.ingested")
    return ingested


def require_readable_topics(spark: SparkSession, run: Run, kafka: Kafka) -> None:
    """Raise the errors that `ingest` would raise before or at its first read. Commits nothing."""
    if not is_remote():
        require_reachable(kafka.bootstrap_servers)
    tables.require_columns(spark, run.table(BRONZE_RECORDS), BRONZE)
    standing, job = read_position(spark, run, is_dry_run=True), Ingest(spark, run, kafka)
    require_table(job, standing)
    topic_breaks.require_record(job)
    if seen := _seen(job):
        topics = {**standing.topics, **_new_topics(job, standing, seen)}
        standing = choose(spark, run, standing.version, standing.streamed, topics)
        with contextlib.suppress(LookError):
            topic_breaks.require_unbroken(job, standing)
    topic_breaks.require_decoded(job, standing)


def _read_readable(job: Ingest, standing: BronzePosition, seen: Mapping[str, Seen]) -> tuple[int, int, dict[str, SourceError]]:
    """Append the available records; return the number of records and of micro-batches, and the errors of skipped topics."""
    spark, run = job.spark, job.run
    before, started_at, is_skipping = standing.version, datetime.now(UTC), job.kafka.on_unreadable_topic == "skip"
    skipped = topic_breaks.find_unreadable(job, standing, seen) if is_skipping else {}
    batches: dict[int, int] | None = {}
    has_failed = False
    while names := [name for name in job.kafka.topics if name not in skipped]:
        rest = job.of_topics(*names)
        of_rest = {name: seen[name] for name in names if name in seen}
        try:
            standing = _with_new_topics(rest, standing, of_rest, is_another_list=has_failed)
            run.report.event("bronze.started", from_version=standing.version)
            crash_point("bronze.started")
            batches = _read_available(rest, standing)
            _note_growths(rest, standing, of_rest, started_at)
            break
        except SourceError as error:
            named = topic_breaks.errors_by_topic(rest, error) if is_skipping else {}
            if not named:
                raise
            skipped |= named
        has_failed, standing = True, read_position(spark, run)
    if has_failed or batches is None:
        version, appended, _ = tables.appended(spark, run.table(BRONZE_RECORDS), after_version=before)
        counted = appended or 0, version - before
    else:
        counted = sum(batches.values()), sum(1 for records in batches.values() if records)
    for name, why in skipped.items():
        run.report.event("bronze.topic_failed", topic=name, why=why.what, observed=why.observed, next=why.next_step)
    if skipped:
        topic_registry.write_skipped(spark, run, standing.topics, skipped)
    return *counted, skipped


def _read_available(job: Ingest, standing: BronzePosition) -> dict[int, int] | None:
    """Append everything that is available; return the records of each micro-batch, or None if others were appended as well.

    `bronze.timestamps` appends a batch with a record whose timestamp Spark cannot hold. A producer may send such records
    without end, so reading then stops at the offsets that were available when the first one was read.
    """
    ends = None
    while True:
        try:
            batches = _stream(job, standing)
        except SPARK_ERRORS as error:
            met, place = error, None if is_remote() else malformed_timestamp(error)
        else:
            return None if ends else batches
        if place is None:
            # Not `from met`: Kafka's errors may repeat its configuration, and a printed traceback would show it.
            raise _translate_error(job, standing, met) from None
        try:
            standing = read_position(job.spark, job.run)
            planned = standing.checkpoint.planned or {}
            ends = ends or timestamps.available(job, standing)
            standing = timestamps.append_planned(job, standing, place)
        except LookError as error:
            job.run.report.event("bronze.timestamps_not_read", why=str(error))
            raise _translate_error(job, standing, met) from None
        except SPARK_ERRORS as error:
            raise _translate_error(job, standing, error) from None
        if all(planned[name][partition] >= end for (name, partition), (_, end) in ends.items()):
            return None


def _stream(job: Ingest, standing: BronzePosition) -> dict[int, int]:
    """Run the streaming query; return the number of records of each micro-batch."""
    start, bronze = starting_point(job, standing), job.run.table(BRONZE_RECORDS)
    consumed = job.spark.readStream.format("kafka").options(**reader_options(job.kafka, start or "earliest")).load()
    records = bronze_records(consumed, job.run.run_id, standing.renamed, job.sources)
    writer = records.writeStream.format("delta").outputMode("append").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", standing.checkpoint.folder)
    return _follow(writer.start(bronze.location) if bronze.is_path else writer.toTable(bronze.sql), job.run.report)


def _translate_error(job: Ingest, standing: BronzePosition, error: Exception) -> TidemarkError:
    if refused := storage_errors.failure(error, job.run.lakehouse) or unsupported(error, job.run.table(BRONZE_RECORDS)):
        return refused
    translated = failure(error, job.kafka, standing.checkpoint.folder)
    if isinstance(translated, OffsetsExpiredError | TopicRecreatedError | BatchCorruptError):
        return topic_breaks.with_offsets(job, read_position(job.spark, job.run), translated)
    return translated


def _note_growths(job: Ingest, standing: BronzePosition, seen: Mapping[str, Seen], started_at: datetime) -> None:
    """Commit for which topics all records from before the producers knew the added partitions are read."""
    after = _seen(job) if seen else {}
    if not after or after != seen:  # the partitions came during the read, or only the checkpoint knows them
        standing = _with_new_topics(job, read_position(job.spark, job.run), after)
    grown = [(topic, topic.growth) for name, topic in standing.topics.items() if name in job.kafka.topics and topic.growth]
    before = started_at - _SENDERS_LEARN
    write_grown(job.spark, job.run, [topic for topic, growth in grown if not growth.is_read and growth.noticed_at <= before])


def _with_new_topics(
    job: Ingest, standing: BronzePosition, seen: Mapping[str, Seen], *, is_another_list: bool = False
) -> BronzePosition:
    """Check that no topic was recreated; commit new topics, their partitions, starts and ids.

    A new topic needs a new checkpoint: with the old one Spark would require the topic from offset 0. If a topic left
    kafka.topics, the others need one too: with the old one Spark would require its partitions.
    """
    noted = _new_topics(job, standing, seen, is_another_list=is_another_list)
    if not noted:
        return standing
    write_begun(job.spark, job.run, noted.values())
    crash_point("bronze.topics_noted")
    after = read_position(job.spark, job.run)
    return _with_new_topics(job, after, seen) if any(each.starts is None for each in standing.topics.values()) else after


def _new_topics(
    job: Ingest, standing: BronzePosition, seen: Mapping[str, Seen], *, is_another_list: bool = False
) -> dict[str, Topic]:
    """Return the topics that need a new row in `bronze_topics`. The checkpoint may show that the list of topics changed."""
    kafka, checkpoint = job.kafka, standing.checkpoint
    topic_breaks.require_same_topic_id(standing.topics, seen, where=kafka.bootstrap_servers)
    try:
        started = starts(job, standing, seen)
    except SPARK_ERRORS as error:
        raise _translate_error(job, standing, error) from None
    noted: dict[str, Topic] = {}
    is_another_list |= checkpoint.planned is not None and checkpoint.planned.keys() != set(kafka.topics)
    for name in kafka.topics:
        topic_id = seen[name].topic_id if name in seen else None
        known = standing.topics.get(name)
        topic = replace(known, skipped=None) if known else Topic(name, 1, topic_id, checkpoint.number, {})
        number = checkpoint.number + 1 if is_another_list else topic.checkpoint
        topic = replace(topic, checkpoint=number, topic_id=topic.topic_id or topic_id)
        partitions = {*(checkpoint.planned or {}).get(name, ())}
        if name in seen and not (partitions and known and known.starts is None):  # of 0.2: those after its last run are added
            partitions |= {*seen[name].partitions}
        topic = replace(topic, starts=started.get(name, topic.starts)).with_partitions(partitions)
        if topic != known:
            noted[name] = topic
    return noted


def _seen(job: Ingest) -> dict[str, Seen]:
    """Ask the brokers to describe the topics; empty if they cannot be asked from here."""
    if is_remote():
        return {}
    try:
        seen = describe_topics(job.kafka, job.kafka.topics, job.spark)
    except LookError as error:
        seen, why = {}, str(error)
    else:
        why = "" if all(each.topic_id for each in seen.values()) else "the brokers have no topic ids"
    if why:  # Spark then detects a recreated topic only while it has fewer records than were read of the old one
        job.run.report.event("bronze.topic_ids_unknown", why=why)
    return seen


def _follow(query: StreamingQuery, report: Report) -> dict[int, int]:
    """Wait for the query's end and report progress; return the number of records of each micro-batch."""
    batches: dict[int, int] = {}
    try:
        is_over = False
        while not is_over:
            is_over = bool(query.awaitTermination(_POLL_SECONDS))  # type: ignore[arg-type] # seconds may be a fraction, see its body
            if _take_up(query, batches):
                report.event("bronze.progress", records=sum(batches.values()), batches=len(batches))
    finally:
        query.stop()  # after Ctrl-C the query would continue in the background
    return batches


def _take_up(query: StreamingQuery, batches: dict[int, int]) -> bool:
    """Add the micro-batches that ended since the last poll; return whether any had records."""
    last = query.lastProgress
    if last is None or last["batchId"] in batches:
        return False
    # Spark keeps the last hundred, more than can end between two polls, including triggers that found nothing in Kafka.
    ended = [each for each in query.recentProgress if "addBatch" in each["durationMs"] and each["batchId"] not in batches]
    # The rows of the only source: over Spark Connect the total stays empty.
    found = {each["batchId"]: int(each["sources"][0]["numInputRows"]) for each in ended}
    batches.update(found)
    return any(found.values())
