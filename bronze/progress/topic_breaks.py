"""Why a topic cannot be read on: it was recreated, or the records to be read next are lost, corrupt or forbidden.

An operator accepts a break, or `kafka.on_unreadable_topic: skip` leaves the topic out. A topic of the last micro-batch is
assumed to be readable: if it is not, the query fails, names it, and runs again without it. Any other topic is checked first,
so a topic that stays unreadable does not fail a query in each run.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from bronze.kafka import errors, metadata
from bronze.kafka.metadata import LookError
from bronze.kafka.source import range_options, reader_options
from bronze.progress import checkpoint, start_offsets
from lakehouse.contracts.bronze import CORRUPT, EXPIRED, RECREATED, LostRange
from lakehouse.delta.errors import SPARK_ERRORS
from lakehouse.errors import BatchCorruptError, OffsetsExpiredError, SourceError, TopicRecreatedError

if TYPE_CHECKING:
    from bronze.kafka.errors import Corrupt
    from bronze.kafka.metadata import Seen
    from bronze.kafka.source import Ingest, Offsets
    from bronze.progress.checkpoint import BronzePosition
    from bronze.progress.topic_registry import Topic

E = TypeVar("E", bound=SourceError)

_ACCEPT = "To continue, and record the loss in the ledger:"
NUMBERINGS = (
    "With --same-numbering, a record whose number was accepted before is a duplicate if it has the same key and value, and a "
    "collision otherwise. Each number must then name one record of its producer in the whole topic. With --new-numbering, all "
    "records are new."
)


@dataclass(frozen=True)
class Break:
    """Why reading a topic cannot continue: it was recreated and has new `starts`, or its `lost` offsets expired or are corrupt.

    `whole` has the readable range before each corrupt batch: a partition, its next offset, and the offset after the last.
    """

    topic: Topic
    cause: str
    topic_id: str | None
    lost: tuple[LostRange, ...] = ()
    starts: Mapping[int, int] | None = None
    whole: tuple[tuple[int, int, int], ...] = ()

    @property
    def is_cut(self) -> bool:
        """Whether the topic is the same one, and its log lost records that Bronze has read."""
        return self.cause == RECREATED and self.topic_id is not None and self.topic_id == self.topic.topic_id

    @property
    def what(self) -> str:
        """The break in words."""
        if self.is_cut:
            return "The topic is the same, but its log lost records that Bronze has read."
        return {
            RECREATED: "The topic was deleted and recreated.",
            EXPIRED: "Kafka lost records before they were read.",
            CORRUPT: "Batches of the topic's log are corrupt.",
        }[self.cause]


def require_same_topic_id(known: Mapping[str, Topic], seen: Mapping[str, Seen], *, where: str) -> None:
    """Raise a `TopicRecreatedError` unless each topic has the Kafka id that was read before. `where` names the brokers."""
    others = {name: (known[name], seen[name]) for name in known if name in seen and _differ(known[name], seen[name])}
    if others:
        raise _about(
            others,
            TopicRecreatedError,
            what="A topic was deleted and recreated. Nothing was read: its records would count as known.",
            where=f"topic {', '.join(others)} at {where}",
            observed=", ".join(f"topic id {new.topic_id}" for _, new in others.values()),
            expected=", ".join(f"topic id {old.topic_id}" for old, _ in others.values()),
            next_step=f"{_ACCEPT} {_commands(others, '--same-numbering ')}. {NUMBERINGS}",
        )


def find(job: Ingest, position: BronzePosition, name: str) -> Break | None:
    """Return the break of a topic, or None if reading it can continue. Commits nothing. Raises a `LookError`."""
    topic, seen = position.topics[name], _seen(job, name)
    bounds = metadata.bounds(job.kafka, name, seen.partitions, job.spark)
    begins = _next(job, position, {name: {each: latest for each, (_, latest) in bounds.items()}})
    if _differ(topic, seen) or any(bounds[partition][1] < offset for partition, offset in begins.items()):
        return Break(topic, RECREATED, seen.topic_id, starts={each: earliest for each, (earliest, _) in bounds.items()})
    lost = [LostRange(each, offset, bounds[each][0] - 1) for each, offset in begins.items() if bounds[each][0] > offset]
    return Break(topic, EXPIRED, seen.topic_id, tuple(sorted(lost))) if lost else None


def find_corrupt(job: Ingest, position: BronzePosition, name: str) -> Break | None:
    """Return the break of a topic with corrupt batches, or None. Reads all its records that Bronze lacks; errors as `find`.

    Raises:
        SourceError: The topic cannot be read for another reason.
    """
    lost: list[LostRange] = []
    whole: list[tuple[int, int, int]] = []
    seen = _seen(job, name)
    for partition, (start, end) in sorted(_unread(job, position, name, seen.partitions).items()):
        while start < end and (batch := _first_corrupt(job, (name, partition), (start, end))):
            lost.append(batch)
            whole.append((partition, start, batch.first_offset))
            start = batch.last_offset + 1  # noqa: PLW2901 -- the search continues after it
    return Break(position.topics[name], CORRUPT, seen.topic_id, tuple(lost), whole=tuple(whole)) if lost else None


def _seen(job: Ingest, name: str) -> Seen:
    seen = metadata.describe_topics(job.kafka, [name], job.spark).get(name)
    if seen is None:
        raise LookError("the topic does not exist")
    return seen


def _unread(job: Ingest, position: BronzePosition, name: str, partitions: Iterable[int]) -> dict[int, tuple[int, int]]:
    """Return the offsets of a topic's partitions that Kafka has and Bronze lacks, as the first and the one after the last."""
    bounds = metadata.bounds(job.kafka, name, partitions, job.spark, is_committed=True)
    ends = {each: end for each, (_, end) in bounds.items()}
    following = start_offsets.next_offsets(job, position, {name: ends})[name]
    return {each: (max(earliest, following[each]), end) for each, (earliest, end) in bounds.items()}


def require_unbroken(job: Ingest, position: BronzePosition) -> None:
    """Raise the error that a read would raise if it cannot continue at this position. Commits nothing.

    Raises:
        TopicRecreatedError: A topic ends before the next offset to read.
        OffsetsExpiredError: Kafka no longer has the next records.
        LookError: No broker can be asked.
    """
    kafka, folder = job.kafka, position.checkpoint.folder
    breaks = [each for name in kafka.topics if (each := find(job, position, name)) is not None]
    if back := [each for each in breaks if each.cause == RECREATED]:
        names = [each.topic.name for each in back]
        error = errors.refusal(errors.WENT_BACK, f"topic {', '.join(names)}", kafka, folder)
        raise _error_of_cut_log(error, back) if all(each.is_cut for each in back) else _about(names, TopicRecreatedError, error)
    if breaks:
        raise _error_of_lost_offsets(errors.refusal(errors.EXPIRED, "", kafka, folder), breaks)


def require_decoded(job: Ingest, position: BronzePosition) -> None:
    """Raise a `BatchCorruptError` if the last planned micro-batch is unfinished and has a corrupt batch."""
    last = position.checkpoint
    if last.planned is None or max(last.offsets) in last.commits:
        return
    begins = checkpoint.ends(job.spark, last, position.streamed) or checkpoint.beginning(job.spark, last.folder)
    for name, partitions in last.planned.items():
        for partition, end in partitions.items():
            start = begins.get(name, {}).get(partition, end)
            if start < end and (batch := _first_corrupt(job, (name, partition), (start, end))):
                raise _named_batch(errors.refusal(errors.CORRUPT, "", job.kafka, last.folder), name, batch)


def with_offsets(job: Ingest, position: BronzePosition, error: SourceError) -> SourceError:
    """Add the lost or corrupt offsets to the error of a read; return it unchanged if they cannot be determined."""
    try:
        if (met := errors.corrupt_batch(error)) is not None:
            span = _unread(job, position, met.topic, [met.partition])[met.partition]
            batch = _first_corrupt(job, (met.topic, met.partition), span, met)
            return error if batch is None else _named_batch(error, met.topic, batch)
        breaks = [find(job, position, name) for name in job.kafka.topics if name in position.topics]
    except (LookError, SourceError) as unknown:
        job.run.report.event("bronze.topics_not_seen", why=str(unknown))
        return error
    if isinstance(error, TopicRecreatedError):
        cut = [each for each in breaks if each is not None and each.is_cut]
        return _error_of_cut_log(error, cut) if cut else error
    expired = [each for each in breaks if each is not None and each.cause == EXPIRED]
    return _error_of_lost_offsets(error, expired) if expired else error


def _named_batch(error: SourceError, topic: str, batch: LostRange) -> BatchCorruptError:
    """Return the error of a corrupt batch with its place."""
    observed = f"{_range_text(topic, batch)}, cannot be decoded"
    next_step = (error.next_step or "").replace("TOPIC", topic)
    named = _about([topic], BatchCorruptError, error, observed=observed, next_step=next_step)
    named.lost = ((batch.partition, batch.first_offset, batch.last_offset),)
    return named


def _error_of_cut_log(error: SourceError, cut: Iterable[Break]) -> SourceError:
    names = [each.topic.name for each in cut]
    return _about(
        names,
        TopicRecreatedError,
        error,
        what="A topic's log lost records that Bronze has read; the topic is the same. Nothing was read: new records reuse "
        "known offsets.",
        next_step=f"To continue: {_commands(names, '--same-numbering ')}. Records that Silver holds are then duplicates. With "
        "--new-numbering they would count as new.",
    )


def _error_of_lost_offsets(error: SourceError, expired: Sequence[Break]) -> SourceError:
    names = [each.topic.name for each in expired]
    observed = "; ".join(f"{_range_text(each.topic.name, lost)}, are gone" for each in expired for lost in each.lost)
    next_step = f"Lengthen retention.ms. {_ACCEPT} {_commands(names)}"
    return _about(names, OffsetsExpiredError, error, observed=observed, next_step=next_step)


def _about(topics: Iterable[str], kind: type[E], error: SourceError | None = None, **parts: str) -> E:
    """Return an error about these topics; parts that are not given are those of `error`."""
    names = ("what", "where", "observed", "expected", "next_step")
    every: dict[str, Any] = {name: parts.get(name, getattr(error, name, None)) for name in names}
    found = kind(**every)
    found.topics = tuple(topics)
    return found


def _next(job: Ingest, position: BronzePosition, latest: Offsets) -> dict[int, int]:
    """Return the next offset of each partition of a topic, without partitions that start at their earliest one."""
    ((name, partitions),) = latest.items()
    ends = checkpoint.ends(job.spark, position.checkpoint, position.streamed).get(name)
    if ends is not None:
        offsets = {each: ends.get(each, 0) for each in partitions}  # Spark requires a new partition from offset 0
    else:
        offsets = start_offsets.next_offsets(job, position, latest)[name]
    return {each: offset for each, offset in offsets.items() if offset >= 0}


def _differ(known: Topic, seen: Seen) -> bool:
    return known.topic_id is not None and seen.topic_id is not None and known.topic_id != seen.topic_id


def _range_text(topic: str, lost: LostRange) -> str:
    count = lost.last_offset - lost.first_offset + 1
    return f"{topic} partition {lost.partition}: offsets {lost.first_offset} to {lost.last_offset}, {count:,} in all"


def _commands(topics: Iterable[str], options: str = "") -> str:
    return " ".join(f"`tidemark topic accept {name} {options}--reason ...`" for name in topics)


def _first_corrupt(job: Ingest, place: tuple[str, int], span: tuple[int, int], met: Corrupt | None = None) -> LostRange | None:
    """Return the offsets of the first corrupt batch in a span of a partition, or None. `met` is that batch, if it is known.

    The end of a batch is unknown until the batch is decoded. So a binary search over the span finds it, with reads of
    single offsets.

    Raises:
        SourceError: The partition cannot be read for another reason.
    """
    start, end = span
    failed = partial(_corrupt_in, job, place)
    met = met or failed(start, end)
    if met is None:
        return None
    begin = met.offset
    if begin is None:
        begin = _least(start, end, lambda offset: failed(start, offset + 1) is not None)
    begin = max(start, begin)

    def is_past(offset: int) -> bool:
        found = failed(offset, offset + 1)
        return found is None or found.offset != met.offset

    after = _least(begin, end, is_past)
    return LostRange(place[1], begin, after - 1) if after > begin else None  # another replica leads by now


def _least(start: int, end: int, holds: Callable[[int], bool]) -> int:
    """Return the least offset from which on a condition holds, or the end."""
    return start + bisect_left(range(start, end), 1, key=lambda offset: int(holds(offset)))


def _corrupt_in(job: Ingest, place: tuple[str, int], start: int, end: int) -> Corrupt | None:
    """Return the corrupt batch on which a read of an offset range fails, or None."""
    records = job.spark.read.format("kafka").options(**range_options(job.kafka, {place: (start, end)})).load()
    try:
        records.agg({"offset": "max"}).collect()
    except SPARK_ERRORS as error:
        met = errors.corrupt_batch(error)
        if met is None and errors.malformed_timestamp(error) is None:
            raise errors.failure(error, job.kafka, "") from None
        return met
    return None


def find_unreadable(job: Ingest, position: BronzePosition, seen: Mapping[str, Seen]) -> dict[str, SourceError]:
    """Return the topics that certainly cannot be read, each with its error. Commits nothing. `seen`: see `start_offsets`.

    Raises:
        SourceError: Kafka itself cannot be read.
    """
    planned = position.checkpoint.planned
    found: dict[str, SourceError] = {}
    for name in job.kafka.topics:
        alone = job.of_topics(name)
        known = {name: position.topics[name]} if name in position.topics else {}
        try:
            require_same_topic_id(known, seen, where=job.kafka.bootstrap_servers)
            if seen and name not in seen:
                require_record(alone)
            skipped = known[name].skipped if known else None
            if skipped is not None or (planned is not None and name not in planned):
                with suppress(LookError):  # then a read reports the error
                    require_unbroken(job.of_topics(*known), position)
                require_record(alone)
                _require_decoded(alone, name, skipped or ())
        except SourceError as error:
            if not error.topics:
                raise
            found[name] = error
    return found


def errors_by_topic(job: Ingest, error: SourceError) -> dict[str, SourceError]:
    """Return the topics that a read error concerns, each with its error. Spark does not name every forbidden topic."""
    if error.topics or error.what not in (errors.MISSING.what, errors.NO_RIGHT.what):
        return dict.fromkeys(error.topics, error)
    found: dict[str, SourceError] = {}
    for name in job.kafka.topics:
        try:
            require_record(job.of_topics(name))
        except SourceError as of_topic:
            if of_topic.topics:
                found[name] = of_topic
    return found


def require_record(job: Ingest) -> None:
    """Read one record with Spark's own client, whose properties and rights differ from those of the metadata client.

    Raises:
        SourceError: The topics cannot be read.
    """
    options = {**reader_options(job.kafka), "groupIdPrefix": "spark-kafka-source"}
    options.pop("maxOffsetsPerTrigger", None)
    try:
        job.spark.read.format("kafka").options(**options).load().select("offset").limit(1).collect()
    except SPARK_ERRORS as error:
        if errors.malformed_timestamp(error) is not None:  # such a record is read outside Spark
            return
        refused = errors.failure(error, job.kafka, "")
        if not isinstance(refused, BatchCorruptError):  # the earliest batch: Bronze may have read it long ago
            raise refused from None


def _require_decoded(job: Ingest, name: str, noted: Iterable[LostRange]) -> None:
    for batch in noted:
        span = (batch.first_offset, batch.last_offset + 1)
        if (left := _first_corrupt(job, (name, batch.partition), span)) is not None:
            raise _named_batch(errors.refusal(errors.CORRUPT, "", job.kafka, ""), name, left)
