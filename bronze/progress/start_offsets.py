"""Where a new checkpoint starts each partition: after its highest offset in Bronze, or where reading it started.

A start is decided once, before the partition is read, and kept in `bronze_topics`; the settings count only before that. A
table without its checkpoint is enough. A checkpoint without its table would skip the table's lost records: it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark.sql import functions as F
from pyspark.sql.utils import is_remote

from bronze.kafka import metadata
from bronze.kafka.errors import UNLIKE_PARTITIONS, another_reader, refusal
from bronze.kafka.metadata import EARLIEST, LATEST, LookError, describe_topics, named_offset
from bronze.kafka.source import reader_options
from bronze.progress import checkpoint as checkpoints
from bronze.progress.topic_registry import Topic
from lakehouse.delta import tables
from lakehouse.errors import TableStateError
from lakehouse.table import BRONZE_RECORDS

if TYPE_CHECKING:
    from bronze.kafka.metadata import Seen
    from bronze.kafka.source import Ingest, Offsets
    from bronze.progress.checkpoint import BronzePosition


def starts(job: Ingest, position: BronzePosition, seen: Mapping[str, Seen]) -> Offsets:
    """Return where reading each partition starts, for topics that were never read, or whose start `bronze_topics` lacks.

    If the settings say the latest offset, an earlier start in the table wins. Without a record in Bronze, a partition of a
    topic with rows of 0.2 continues at the checkpoint; without one the topic is left out. `seen` is empty if the brokers
    cannot be asked from here. Commits nothing.

    Raises:
        SourceError: The settings do not name the partitions that a topic has.
        PySparkException, Py4JJavaError: Spark cannot read the topics.
    """
    known, is_unread = position.topics, position.is_new and not position.checkpoint.is_begun
    new = [name for name in job.kafka.topics if name not in known or (is_unread and not known[name].is_resumed)]
    old = [known[name] for name in job.kafka.topics if name not in new and known[name].starts is None]
    found = _by_settings(job.of_topics(*new), position, seen) if new else {}
    return found | (_by_checkpoint(job, position, old) if old else {})


def _by_settings(job: Ingest, position: BronzePosition, seen: Mapping[str, Seen]) -> Offsets:
    found = _decided(job, seen)
    for name, offsets in found.items():
        before = (position.topics[name].starts if name in position.topics else None) or {}
        latest = [each for each in offsets if named_offset(job.kafka.start_of(name), each) == LATEST]
        offsets |= {each: min(offsets[each], before.get(each, offsets[each])) for each in latest}
    return found


def _by_checkpoint(job: Ingest, position: BronzePosition, topics: Iterable[Topic]) -> Offsets:
    """Leave out partitions that have records in Bronze: a checkpoint's end there would skip records that a RESTORE removes."""
    reached = checkpoints.reached(job.spark, job.run, position)
    own = [topic for topic in topics if topic.incarnation == 1 and topic.name in reached]
    held = _held(job, [topic.stored_as for topic in own]) if own else {}
    return {
        topic.name: {each: at for each, at in reached[topic.name].items() if each not in held.get(topic.stored_as, {})}
        for topic in own
    }


def starting_point(job: Ingest, position: BronzePosition) -> Offsets | None:
    """Return the starting offsets of a new checkpoint, or None if the checkpoint decides. Commits nothing.

    Raises:
        TableStateError: The checkpoint has finished a micro-batch, but the table is new.
        AnotherWriterError: Another run has written to the table since it was read.
    """
    require_table(job, position)
    return None if position.checkpoint.is_begun else next_offsets(job, position, _assigned(job))


def require_table(job: Ingest, position: BronzePosition) -> None:
    """Raise if Bronze is new, and the checkpoint to continue with is not; errors as `starting_point`."""
    checkpoint = position.checkpoint
    bronze = job.run.table(BRONZE_RECORDS)
    if position.is_new and checkpoint.commits:
        # The table was read before the checkpoint.
        if tables.exists(job.spark, bronze) and tables.version(job.spark, bronze) > position.version:
            raise another_reader(str(bronze))
        raise TableStateError(
            "The checkpoint has read records, but Bronze is new: only the table was deleted.",
            where=str(bronze),
            observed=f"an empty table, and a checkpoint in {checkpoint.folder}",
            expected="the records that were read",
            next_step=f"Restore the table, or remove {checkpoint.folder} to read again what Kafka still has.",
        )


def next_offsets(job: Ingest, position: BronzePosition, assigned: Offsets) -> Offsets:
    """Return the next offset of each assigned partition for a run without a checkpoint; see `next_after_held`."""
    names = [position.topics[name].stored_as if name in position.topics else name for name in assigned]
    held = {} if position.is_new else _held(job, names)
    # An earlier checkpoint may have read further than Bronze has records: up to a transaction's marker, for example.
    reached = checkpoints.reached(job.spark, job.run, position)
    given = {name: job.kafka.start_of(name) for name in job.kafka.topics}
    return next_after_held(held, assigned=assigned, given=given, topics=position.topics, reached=reached)


def next_after_held(
    held: Offsets,
    *,
    assigned: Offsets,
    given: Mapping[str, str | Mapping[str, int]],
    topics: Mapping[str, Topic],
    reached: Offsets | None = None,
) -> Offsets:
    """Return the next offset of each assigned partition: the highest that Bronze, its topics or a checkpoint knows.

    A partition that a known topic gained is read from 0. If nothing is known of a partition, its topic's rows are of 0.2 and no
    checkpoint is left. It then starts where the settings say, but from its beginning if the topic has records in Bronze and the
    settings name no offset. `held` uses the tables' topic names, `reached` Kafka's; `assigned` holds latest offsets, or -1.

    >>> from bronze.progress.topic_registry import Topic
    >>> of_0_2, t = Topic("t", 1, None, 1, {}), Topic("t", 1, None, 1, {1: 4}, {0: 20, 1: 3, 2: 9})
    >>> assigned = {"t": {0: 99, 1: 99, 2: 99, 3: 99}}
    >>> held = {"t": {0: 41}}
    >>> next_after_held(held, assigned=assigned, given={"t": "latest"}, topics={"t": t})
    {'t': {0: 42, 1: 4, 2: 9, 3: 0}}
    >>> next_after_held(held, assigned=assigned, given={"t": "latest"}, topics={"t": of_0_2}, reached={"t": {1: 7, 2: 0}})
    {'t': {0: 42, 1: 7, 2: 0, 3: 0}}
    >>> next_after_held(held, assigned=assigned, given={"t": {"0": 50, "1": -1, "2": 50}}, topics={"t": of_0_2})
    {'t': {0: 42, 1: -2, 2: 50, 3: -2}}
    >>> again = Topic("t", 2, None, 1, {})  # a checkpoint of an earlier incarnation does not count
    >>> next_after_held({}, assigned={"t": {0: 99}}, given={"t": {"0": 50}}, topics={"t": again}, reached={"t": {0: 70}})
    {'t': {0: -2}}
    """

    def next_offset(name: str, partition: int) -> int:
        topic = topics.get(name) or Topic(name, 1, None, 1, {})
        of_bronze, is_first = held.get(topic.stored_as, {}), topic.incarnation == 1
        following = of_bronze.get(partition, -1) + 1 or EARLIEST
        given_up = topic.go_on_at.get(partition, EARLIEST)
        started = EARLIEST if topic.starts is None else topic.starts.get(partition, 0)
        read_to = reached[name].get(partition, 0) if reached and name in reached and is_first else EARLIEST
        known = max(following, given_up, started, read_to)
        wanted = named_offset(given.get(name, "earliest"), partition)
        is_wanted = is_first and (not of_bronze or wanted >= 0)
        wanted = assigned[name][partition] if wanted == LATEST else wanted
        return known if known >= 0 else wanted if is_wanted else EARLIEST

    return {name: {each: next_offset(name, each) for each in partitions} for name, partitions in assigned.items()}


def _assigned(job: Ingest) -> Offsets:
    """Return every partition of the topics with its latest offset, or -1 for it: Spark requires an offset for each."""
    topics = job.kafka.topics
    if not is_remote():
        with suppress(LookError):
            seen = describe_topics(job.kafka, topics, job.spark)
            if all(name in seen for name in topics):
                return {name: dict.fromkeys(seen[name].partitions, LATEST) for name in topics}
    return _at_spark(replace(job, kafka=job.kafka.model_copy(update={"starting_offsets": "latest"})))


def _decided(job: Ingest, seen: Mapping[str, Seen]) -> Offsets:
    """Return where the settings start each partition, in offsets that Kafka has: by the brokers or else by Spark."""
    kafka = job.kafka
    if all(name in seen for name in kafka.topics):
        unlike = []
        for name in kafka.topics:
            partitions, start = list(map(str, seen[name].partitions)), kafka.start_of(name)
            if not isinstance(start, str) and start.keys() != set(partitions):
                unlike.append(f"{name} has the partitions {', '.join(partitions)}")
        if unlike:
            raise refusal(UNLIKE_PARTITIONS, "; ".join(unlike), kafka, "")
        with suppress(LookError):
            return {name: metadata.starts(kafka, name, seen[name].partitions, job.spark) for name in kafka.topics}
    found: Offsets = {}
    by_start: dict[str, list[str]] = {}  # all topics of a query start at the same word, at the same time, or at offsets
    for name in kafka.topics:
        start = kafka.start_of(name)
        by_start.setdefault(start if isinstance(start, str) else "", []).append(name)
    for names in by_start.values():
        found |= _at_spark(job.of_topics(*names))
    return found


def _at_spark(job: Ingest) -> Offsets:
    """Return where Spark starts topics of the same start: a query without records writes it to a checkpoint."""
    kafka, folder = job.kafka, job.run.lakehouse.folder(f"_checkpoints/starts/{uuid4()}")
    first = kafka.start_of(kafka.topics[0])
    named = {name: each for name in kafka.topics if isinstance(each := kafka.start_of(name), dict)}
    options = reader_options(kafka, first if isinstance(first, str) else named)
    options.pop("maxOffsetsPerTrigger", None)  # one micro-batch
    if isinstance(first, str) and first not in metadata.WORDS:
        del options["startingOffsets"]
        options |= {"startingTimestamp": str(metadata.milliseconds(first)), "startingOffsetsByTimestampStrategy": "latest"}
    consumed = job.spark.readStream.format("kafka").options(**options).load().where("false")
    writer = consumed.writeStream.format("noop").option("checkpointLocation", folder)
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return checkpoints.beginning(job.spark, folder)


def _held(job: Ingest, topics: list[str]) -> Offsets:
    records = job.spark.read.table(job.run.table(BRONZE_RECORDS).sql).where(F.col("topic").isin(topics))
    rows = records.groupBy("topic", "partition").agg(F.max("offset").alias("offset")).collect()
    held: Offsets = {}
    for row in rows:
        held.setdefault(row["topic"], {})[row["partition"]] = row["offset"]
    return held
