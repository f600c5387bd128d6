"""Breaks of a topic: it was recreated, or Kafka lost the records to be read next. An operator accepts them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bronze.kafka import metadata
from bronze.kafka.errors import EXPIRED as EXPIRED_OFFSETS
from bronze.kafka.errors import GONE, WENT_BACK, refusal
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


NUMBERINGS = (
    "With --same-numbering the new topic continues the old one: a record whose number was accepted before with the same key "
    "and value is a duplicate, with other content a collision. A number must then name one record of its producer in the whole "
    "topic. With --new-numbering every record counts as new, whatever its number."
)


@dataclass(frozen=True)
class Break:
    """Why reading a topic cannot continue: it was recreated and has new `starts`, or its `lost` offsets expired."""

    topic: Topic
    cause: str
    topic_id: str | None
    lost: tuple[LostRange, ...] = ()
    starts: Mapping[int, int] | None = None

    @property
    def is_cut(self) -> bool:
        """Whether the topic is the same one, and its log lost records that Bronze has read."""
        return self.cause == RECREATED and self.topic_id is not None and self.topic_id == self.topic.topic_id

    @property
    def what(self) -> str:
        """The break in words."""
        if self.is_cut:
            return "The topic is the same one, but its log lost its end: records that Bronze has read."
        is_recreated = self.cause == RECREATED
        return "The topic was deleted and recreated." if is_recreated else "Kafka lost records before they were read."


def require_same(known: Mapping[str, Topic], seen: Mapping[str, Seen], *, where: str) -> None:
    """Raise a `TopicRecreatedError` unless each topic has the Kafka id that was read before. `where` names the brokers."""
    others = {name: (known[name], seen[name]) for name in known if name in seen and _differ(known[name], seen[name])}
    if others:
        raise TopicRecreatedError(
            "A topic was deleted and created anew. Nothing was read: its records would be taken for those that are known.",
            where=f"topic {', '.join(others)} at {where}",
            observed=", ".join(f"topic id {new.topic_id}" for _, new in others.values()),
            expected=", ".join(f"topic id {old.topic_id}" for old, _ in others.values()),
            next_step=f"{_accept(others, '--same-numbering ')}. {NUMBERINGS}",
        )


def find(spark: SparkSession, run: Run, kafka: Kafka, standing: Standing, name: str) -> Break | None:
    """Return the break of a topic, or None if reading it can continue. Commits nothing. Raises a `LookError`."""
    topic, seen = standing.topics[name], metadata.describe_topics(kafka, [name]).get(name)
    if seen is None:
        raise LookError("the topic is not there")
    bounds = metadata.bounds(kafka, name, seen.partitions)
    begins = _next(spark, run, kafka, standing, {name: {str(each): latest for each, (_, latest) in bounds.items()}})
    if _differ(topic, seen) or any(bounds[partition][1] < offset for partition, offset in begins.items()):
        return Break(topic, RECREATED, seen.topic_id, starts={each: earliest for each, (earliest, _) in bounds.items()})
    lost = [LostRange(each, offset, bounds[each][0] - 1) for each, offset in begins.items() if bounds[each][0] > offset]
    return Break(topic, EXPIRED, seen.topic_id, tuple(sorted(lost))) if lost else None


def require_whole(spark: SparkSession, run: Run, kafka: Kafka, standing: Standing) -> None:
    """Raise what reading the topics would raise, if it cannot continue at this position. Commits nothing.

    Raises:
        SourceError: The checkpoint to continue with holds a topic that the settings do not name.
        TopicRecreatedError: A topic ends before the next offset to read.
        OffsetsExpiredError: Kafka no longer has the next records.
        LookError: No broker can be asked.
    """
    folder = standing.checkpoint.folder
    if left := sorted(set(standing.checkpoint.planned or ()) - set(kafka.topics)):
        raise refusal(GONE, f"kafka.topics does not name {', '.join(left)}", kafka, folder)
    breaks = [each for name in kafka.topics if (each := find(spark, run, kafka, standing, name)) is not None]
    if back := [each for each in breaks if each.cause == RECREATED]:
        error = refusal(WENT_BACK, f"topic {', '.join(each.topic.name for each in back)}", kafka, folder)
        raise _cut(error, back) if all(each.is_cut for each in back) else error
    if breaks:
        raise _exact(refusal(EXPIRED_OFFSETS, "", kafka, folder), breaks)


def exact(spark: SparkSession, run: Run, kafka: Kafka, standing: Standing, error: SourceError) -> SourceError:
    """Add what Kafka lost to the error of a read; return it unchanged if that cannot be determined."""
    try:
        breaks = [find(spark, run, kafka, standing, name) for name in kafka.topics if name in standing.topics]
    except LookError as unknown:
        run.report.event("bronze.topics_not_seen", why=str(unknown))
        return error
    if isinstance(error, TopicRecreatedError):
        cut = [each for each in breaks if each is not None and each.is_cut]
        return _cut(error, cut) if cut else error
    expired = [each for each in breaks if each is not None and each.cause == EXPIRED]
    return _exact(error, expired) if expired else error


def _cut(error: SourceError, cut: Iterable[Break]) -> TopicRecreatedError:
    commands = _commands((each.topic.name for each in cut), "--same-numbering ")
    return TopicRecreatedError(
        "A topic's log lost its end, records that Bronze has read; the topic is the same one. Nothing was read: new records "
        "have offsets that are known.",
        where=error.where,
        observed=error.observed,
        expected=error.expected,
        next_step=f"To go on with what there is: {commands}. What Silver holds of it is then a duplicate. With --new-numbering "
        "it would count as new.",
    )


def _exact(error: SourceError, expired: Iterable[Break]) -> SourceError:
    return OffsetsExpiredError(
        error.what,
        where=error.where,
        observed="; ".join(_lost_text(each.topic.name, lost) for each in expired for lost in each.lost),
        expected=error.expected,
        next_step=f"Lengthen retention.ms. {_accept(each.topic.name for each in expired)}",
    )


def _next(spark: SparkSession, run: Run, kafka: Kafka, standing: Standing, latest: Offsets) -> dict[int, int]:
    """Return the next offset of each partition of a topic, without partitions that start at their earliest one."""
    ((name, partitions),) = latest.items()
    ends = checkpoint.ends(spark, standing.checkpoint, standing.streamed).get(name)
    if ends is not None:
        offsets = {each: ends.get(each, 0) for each in partitions}  # Spark requires a new partition from offset 0
    else:
        offsets = start_offsets.next_offsets(spark, run, kafka, standing, latest)[name]
    return {int(each): offset for each, offset in offsets.items() if offset >= 0}


def _differ(known: Topic, seen: Seen) -> bool:
    return known.topic_id is not None and seen.topic_id is not None and known.topic_id != seen.topic_id


def _lost_text(topic: str, lost: LostRange) -> str:
    count = lost.last_offset - lost.first_offset + 1
    return f"{topic} partition {lost.partition}: offsets {lost.first_offset} to {lost.last_offset}, {count:,} in all, are gone"


def _accept(topics: Iterable[str], options: str = "") -> str:
    return f"To go on with what there is, and have the loss kept in the ledger: {_commands(topics, options)}"


def _commands(topics: Iterable[str], options: str = "") -> str:
    return " ".join(f"`tidemark topic accept {name} {options}--reason ...`" for name in topics)
