"""Starting offsets for a run without a checkpoint: one past the highest in Bronze, to skip nothing and read little twice.

The checkpoint and the table can be lost independently. A checkpoint without its table would skip what the table lost: that is
refused. A table without its checkpoint is enough: each partition continues after its highest offset.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from bronze.kafka.errors import another_reader
from bronze.kafka.source import reader_options
from bronze.progress import checkpoint as checkpoints
from lakehouse.delta import tables
from lakehouse.errors import TableStateError
from lakehouse.table import BRONZE_RECORDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from bronze.kafka.source import Offsets
    from bronze.progress.position import Standing
    from bronze.progress.topic_registry import Topic
    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Kafka
    from lakehouse.table import Table

_EARLIEST = -2


def starting_point(spark: SparkSession, run: Run, kafka: Kafka, standing: Standing) -> Offsets | None:
    """Return starting offsets that override the settings', or None if the settings or the checkpoint decide.

    Reads Bronze's offsets only if the checkpoint is gone. Commits nothing.

    Raises:
        TableStateError: The checkpoint has finished a micro-batch, but the table is new.
        AnotherWriterError: Another run has begun the table since it was looked at.
    """
    checkpoint = standing.checkpoint
    bronze = run.table(BRONZE_RECORDS)
    if standing.is_new and checkpoint.commits:
        if tables.version(spark, bronze) > standing.version:  # it was read before the checkpoint
            raise another_reader(str(bronze))
        raise TableStateError(
            "The checkpoint says that records were read, but Bronze is new: the table was deleted alone.",
            where=str(bronze),
            observed=f"an empty table, and a checkpoint in {checkpoint.folder}",
            expected="the records that were read",
            next_step=f"Put the table back; or remove {checkpoint.folder} to read again what Kafka still has.",
        )
    is_first = standing.is_new and not any(topic.is_resumed for topic in standing.topics.values())
    if checkpoint.is_begun or is_first:
        return None
    return next_offsets(spark, run, kafka, standing, _assigned(spark, kafka))


def next_offsets(spark: SparkSession, run: Run, kafka: Kafka, standing: Standing, assigned: Offsets) -> Offsets:
    """Return the next offset of each assigned partition for a run without a checkpoint; see `next_after_held`.

    If a topic starts at its latest offset and Bronze holds nothing of it, it continues where an earlier checkpoint of this
    pipeline ended, or started, if there is one: records that arrived since are not skipped.
    """
    held = _held(spark, run.table(BRONZE_RECORDS))
    if kafka.starting_offsets == "latest":
        reached = checkpoints.reached(spark, run, standing.checkpoint, standing.streamed)
        assigned = {name: {**partitions, **reached.get(name, {})} for name, partitions in assigned.items()}
    return next_after_held(held, assigned=assigned, start=kafka.starting_offsets, topics=standing.topics)


def next_after_held(held: Offsets, *, assigned: Offsets, start: str | Offsets, topics: Mapping[str, Topic]) -> Offsets:
    """Return the offset after the highest one in Bronze, for each assigned partition.

    If offsets beyond it were given up as lost, or the settings name a higher one, that one wins. A new partition of a known
    topic, and a recreated topic, are read from the beginning. A topic that is not in Bronze starts where the settings say.

    Args:
        held: The highest offset in Bronze of each partition, by topic name in the tables.
        assigned: Every partition; its offsets matter only if a new topic starts at the latest one.
        start: The settings' starting offsets.
        topics: The known topics.

    >>> next_after_held({"t": {"0": 41}}, assigned={"t": {"0": 99, "1": 99}, "new": {"0": 7}}, start="latest", topics={})
    {'t': {'0': 42, '1': -2}, 'new': {'0': 7}}
    >>> next_after_held({"t": {"0": 41}}, assigned={"t": {"0": 99}}, start={"t": {"0": 50}}, topics={})
    {'t': {'0': 50}}

    The settings' offsets are those of the topic's first incarnation:

    >>> from bronze.progress.topic_registry import Topic
    >>> next_after_held({}, assigned={"t": {"0": 99}}, start={"t": {"0": 50}}, topics={"t": Topic("t", 2, None, 1, {})})
    {'t': {'0': -2}}
    """
    named: Offsets = start if isinstance(start, dict) else {} if start == "earliest" else assigned

    def next_offset(name: str, partition: str) -> int:
        wanted = named.get(name, {}).get(partition, _EARLIEST)
        topic = topics.get(name)
        known = held.get(topic.stored_as if topic else name)
        given_up = topic.go_on_at.get(int(partition), _EARLIEST) if topic else _EARLIEST
        if topic is not None and topic.incarnation > 1:
            wanted = _EARLIEST  # the settings mean the first one
        elif known is None:
            return max(wanted, given_up)
        following = (known or {}).get(partition, -1) + 1 or _EARLIEST
        return max(following, given_up, wanted if isinstance(start, dict) else _EARLIEST)

    return {name: {each: next_offset(name, each) for each in partitions} for name, partitions in assigned.items()}


def _held(spark: SparkSession, bronze: Table) -> Offsets:
    rows = spark.read.table(bronze.sql).groupBy("topic", "partition").agg(F.max("offset").alias("offset")).collect()
    held: Offsets = {}
    for row in rows:
        held.setdefault(row["topic"], {})[str(row["partition"])] = row["offset"]
    return held


def _assigned(spark: SparkSession, kafka: Kafka) -> Offsets:
    """Return every partition of the topics, with its end offset.

    Spark requires an offset for each, and only its source knows them all: a query that starts at the end reports them and reads
    no records.
    """
    consumed = spark.readStream.format("kafka").options(**reader_options(kafka, "latest")).load()
    query = consumed.writeStream.format("noop").trigger(availableNow=True).start()
    try:
        query.awaitTermination()
        progress: dict[str, Any] | None = query.lastProgress
    finally:
        query.stop()
    ends = progress["sources"][0]["endOffset"] if progress else "{}"
    return dict(json.loads(ends)) if isinstance(ends, str) else dict(ends)
