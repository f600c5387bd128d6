"""Breaks of a topic: it is not the one that was read before, or Kafka lost what comes next. A person accepts them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bronze.kafka import metadata
from bronze.kafka.metadata import LookError
from bronze.progress import checkpoint, start_offsets
from lakehouse.contracts.bronze import EXPIRED, RECREATED, LostRange
from lakehouse.errors import OffsetsExpiredError, SourceError, TopicRecreatedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import SparkSession

    from bronze.kafka.metadata import Seen
    from bronze.kafka.source import Offsets
    from bronze.progress.position import Standing
    from bronze.progress.topic_registry import Topic
    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Kafka


@dataclass(frozen=True)
class Break:
    """Why a topic cannot simply be read on.

    Attributes:
        topic: The topic as it was read.
        cause: recreated or expired.
        topic_id: Kafka's id of the topic as it is now; None where Kafka has none.
        lost: Of expired: the offsets that are gone, by partition.
    """

    topic: Topic
    cause: str
    topic_id: str | None
    lost: tuple[LostRange, ...] = ()


def require_same(known: Mapping[str, Topic], seen: Mapping[str, Seen], *, where: str) -> None:
    """Raise unless each topic is the one that was read before, by Kafka's id of it.

    Args:
        known: What Bronze knows.
        seen: What Kafka says now.
        where: The brokers.

    Raises:
        TopicRecreatedError: One is another.
    """
    others = {name: (known[name], seen[name]) for name in known if name in seen and _differ(known[name], seen[name])}
    if others:
        raise TopicRecreatedError(
            "A topic was deleted and created anew. Nothing was read: its records would be taken for those that are known.",
            where=f"topic {', '.join(others)} at {where}",
            observed=", ".join(f"topic id {new.topic_id}" for _, new in others.values()),
            expected=", ".join(f"topic id {old.topic_id}" for old, _ in others.values()),
            next_step=_accept(others),
        )


def find(spark: SparkSession, run: Run, kafka: Kafka, standing: Standing, name: str) -> Break | None:
    """The break of a topic, or None where it can be read on.

    Reads Bronze's offsets only where the checkpoint is gone. Commits nothing.

    Raises:
        LookError: No broker can be asked.
    """
    topic, seen = standing.topics[name], metadata.describe_topics(kafka, [name]).get(name)
    if seen is None:
        raise LookError("the topic is not there")
    bounds = metadata.bounds(kafka, name, seen.partitions)
    begins = _next(spark, run, kafka, standing, {name: {str(each): latest for each, (_, latest) in bounds.items()}})
    if _differ(topic, seen) or any(bounds[partition][1] < offset for partition, offset in begins.items()):
        return Break(topic, RECREATED, seen.topic_id)
    lost = [LostRange(each, offset, bounds[each][0] - 1) for each, offset in begins.items() if bounds[each][0] > offset]
    return Break(topic, EXPIRED, seen.topic_id, tuple(sorted(lost))) if lost else None


def exact(spark: SparkSession, run: Run, kafka: Kafka, standing: Standing, error: SourceError) -> SourceError:
    """The error of a read that met lost offsets, with the exact ranges; as it is where they cannot be told."""
    try:
        breaks = [find(spark, run, kafka, standing, name) for name in kafka.topics if name in standing.topics]
    except LookError as unknown:
        run.report.event("bronze.topics_not_seen", why=str(unknown))
        return error
    expired = [each for each in breaks if each is not None and each.cause == EXPIRED]
    if not expired:
        return error
    return OffsetsExpiredError(
        error.what,
        where=error.where,
        observed="; ".join(_told(each.topic.name, lost) for each in expired for lost in each.lost),
        expected=error.expected,
        next_step=f"Lengthen retention.ms. {_accept(each.topic.name for each in expired)}",
    )


def _next(spark: SparkSession, run: Run, kafka: Kafka, standing: Standing, latest: Offsets) -> dict[int, int]:
    """The offset that is read next of each partition of a topic, less those that begin at their earliest one."""
    ((name, partitions),) = latest.items()
    ends = checkpoint.ends(spark, standing.checkpoint, standing.streamed).get(name)
    if ends is not None:
        offsets = {each: ends.get(each, 0) for each in partitions}  # Spark wants a new partition from its beginning
    else:
        offsets = start_offsets.next_offsets(spark, run, kafka, standing, latest)[name]
    return {int(each): offset for each, offset in offsets.items() if offset >= 0}


def _differ(known: Topic, seen: Seen) -> bool:
    return known.topic_id is not None and seen.topic_id is not None and known.topic_id != seen.topic_id


def _told(topic: str, lost: LostRange) -> str:
    count = lost.last_offset - lost.first_offset + 1
    return f"{topic} partition {lost.partition}: offsets {lost.first_offset} to {lost.last_offset}, {count:,} in all, are gone"


def _accept(topics: Iterable[str]) -> str:
    commands = " ".join(f"`tidemark topic accept {name} --reason ...`" for name in topics)
    return f"To go on with what there is, and have the loss kept in the ledger: {commands}"
