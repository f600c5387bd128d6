"""The data types of the decision: rows of decided records, and limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import pyarrow as pa

from lakehouse.contracts.bronze import plain_topic
from lakehouse.contracts.silver import REJECTS, STREAM, Stream
from lakehouse.spark import frames

Range = tuple[int, int, int]
"""epoch, first and last sequence, inclusive"""
BATCH = 10_000
"""How many rows are Python objects at a time: they are ten times as large as in Arrow."""
SPAN = ("first_offset", "last_offset", "first_sequence", "last_sequence")
REJECT = frames.arrow_schema(REJECTS)
SEGMENT = pa.schema(
    [
        *(REJECT.field(name) for name in (*STREAM, "epoch", "class", "reason", *SPAN, "records")),
        REJECT.field("content_sha256"),
    ]
)
"""All accepted records of a stream and epoch, or a block or single reject; see `silver.decide.kernel.Decided`."""
SETTLED = "settled"
"""The key column with the class of a record that an earlier incarnation settles, see `silver.suspects.moved`."""


def by_name(stream: Stream) -> tuple[str, int, bool, str]:
    """Return a sort key that is unique per stream: a null producer differs from an empty one."""
    topic, partition, producer = stream
    return topic, partition, producer is not None, producer or ""


def rows_of(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table, converted in batches."""
    for batch in table.to_batches(max_chunksize=BATCH):
        yield from batch.to_pylist()


def tuples_of(table: pa.Table, names: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    """The rows of some columns as tuples, all at once."""
    return zip(*(table[name].to_pylist() for name in names), strict=True)


def streams_of(table: pa.Table) -> Iterator[Stream]:
    """Yield the distinct streams of a table's rows."""
    yield from tuples_of(table.group_by(list(STREAM)).aggregate([]), STREAM)


@dataclass(frozen=True)
class Limits:
    """How much the driver decides and compares at a time. Affects the cost of a load, never its outcome."""

    records: int = 2_000_000
    suspects: int = 500_000


LIMITS = Limits()

Limit = TypeVar("Limit")


@dataclass(frozen=True)
class TopicLimits(Generic[Limit]):
    """A limit of the policies: that of single topics, and that of all others."""

    others: Limit
    topics: Mapping[str, Limit] = field(default_factory=dict)

    def of(self, topic: str) -> tuple[Limit, str]:
        """Return the limit of a topic, in any incarnation, and the section of the config that sets it."""
        plain = plain_topic(topic)
        return (self.topics[plain], f"policies.topics.{plain}") if plain in self.topics else (self.others, "policies")


@dataclass(frozen=True)
class LoadLimits:
    """A load's limits: the shares that may be quarantined, 0 to 1, a topic's new streams, and the records; None is no limit."""

    shares: TopicLimits[float] = TopicLimits(1)
    streams: TopicLimits[int | None] = TopicLimits(None)
    records: int | None = None


NO_LIMITS = LoadLimits()
