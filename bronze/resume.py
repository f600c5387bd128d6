"""Where a run starts when its checkpoint is gone: after what Bronze holds, so that nothing is skipped and little is read twice.

The checkpoint and the table can be lost apart. A checkpoint without its table would skip what the table lost: that is refused.
A table without its checkpoint is enough: the highest offset of each partition says where to go on.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from bronze.source import reader_options
from lakehouse.errors import TableStateError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bronze.source import Offsets
    from lakehouse.settings import Kafka
    from lakehouse.table import Table

_EARLIEST = -2


def starting_point(spark: SparkSession, bronze: Table, kafka: Kafka, *, checkpoint: str, is_new: bool) -> Offsets | None:
    """Where to start instead of where the settings say; None where they, or the checkpoint, decide.

    Reads Bronze's offsets only where the checkpoint is gone. Commits nothing.

    Args:
        spark: The session.
        bronze: The table.
        kafka: Where the records come from.
        checkpoint: The checkpoint's folder.
        is_new: Whether nothing was ever committed to the table. Every micro-batch commits, that of an empty topic too.

    Raises:
        TableStateError: The checkpoint has finished a micro-batch, and the table is new.
    """
    if is_new and _has_files(spark, f"{checkpoint}/commits"):
        raise TableStateError(
            "The checkpoint says that records were read, but Bronze is new: the table was deleted alone.",
            where=str(bronze),
            observed=f"an empty table, and a checkpoint in {checkpoint}",
            expected="the records that were read",
            next_step=f"Put the table back; or remove {checkpoint} to read again what Kafka still has.",
        )
    if is_new or _has_files(spark, f"{checkpoint}/offsets"):
        return None
    held = _held(spark, bronze)
    return after(held, assigned=_assigned(spark, kafka), start=kafka.starting_offsets) if held else None


def after(held: Offsets, *, assigned: Offsets, start: str | Offsets) -> Offsets:
    """The offset after the highest that is held, for each assigned partition.

    Where the settings name a higher one, that: the way past records that Kafka has lost. A new partition of a known topic is
    read from its beginning. A topic that is not held at all starts where the settings say.

    Args:
        held: The highest offset of each partition that is held.
        assigned: Every partition there is; its offsets do not matter, except where a new topic starts at the latest one.
        start: The settings' starting offsets.

    >>> after({"t": {"0": 41}}, assigned={"t": {"0": 99, "1": 99}, "new": {"0": 7}}, start="latest")
    {'t': {'0': 42, '1': -2}, 'new': {'0': 7}}
    >>> after({"t": {"0": 41}}, assigned={"t": {"0": 99}}, start={"t": {"0": 50}})
    {'t': {'0': 50}}
    """
    named: Offsets = start if isinstance(start, dict) else {} if start == "earliest" else assigned

    def next_offset(topic: str, partition: str) -> int:
        wanted = named.get(topic, {}).get(partition, _EARLIEST)
        if topic not in held:
            return wanted
        following = held[topic].get(partition, -1) + 1 or _EARLIEST
        return max(following, wanted) if isinstance(start, dict) else following

    return {topic: {each: next_offset(topic, each) for each in partitions} for topic, partitions in assigned.items()}


def _has_files(spark: SparkSession, folder: str) -> bool:
    # Spark's own reader, because the folder may lie where only the cluster can look.
    try:
        return not spark.read.format("binaryFile").load(folder).select("path").isEmpty()
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return False
        raise


def _held(spark: SparkSession, bronze: Table) -> Offsets:
    rows = spark.read.table(bronze.sql).groupBy("topic", "partition").agg(F.max("offset").alias("offset")).collect()
    held: Offsets = {}
    for row in rows:
        held.setdefault(row["topic"], {})[str(row["partition"])] = row["offset"]
    return held


def _assigned(spark: SparkSession, kafka: Kafka) -> Offsets:
    """Every partition of the topics, with its end.

    Spark wants all of them named, and only its source knows them: a query that starts at the end reads nothing and tells.
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
