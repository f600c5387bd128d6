"""The streams that a load meets: limits how many are new, and looks up the last position of retired ones.

A retired stream has no row in silver_watermarks; its last position is in the ledger. A load that meets a stream without a row
looks it up there, so that the stream is decided as if it had never been retired. Nothing is read if every stream has a row, or
if none was ever retired.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from heapq import nsmallest
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from lakehouse.contracts.bronze import plain_topic
from lakehouse.contracts.silver import RETIRE, STREAM, WATERMARK_IN_LOADS
from lakehouse.delta import small_tables, tables
from lakehouse.errors import BreakerOpenError
from lakehouse.escape import printable, shortened
from lakehouse.spark import frames
from lakehouse.table import BRONZE_RECORDS, SILVER_LOADS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pyspark.sql import SparkSession

    from lakehouse.contracts.silver import Stream
    from lakehouse.run.context import Run
    from silver.state.watermarks import Watermarks

_SHOWN, _LONGEST = 5, 60
"""How many names the error shows, and how many characters of each."""


@dataclass(frozen=True)
class StreamLimits:
    """How many new streams of a topic a load may bring.

    Attributes:
        most: For a topic without a limit of its own; None for no limit.
        topics: The limits of the topics that have one.
    """

    most: int | None = None
    topics: Mapping[str, int | None] = field(default_factory=dict)

    def of(self, topic: str) -> tuple[int | None, str]:
        """A topic's limit, and the config key that sets it.

        >>> StreamLimits(10, {"orders": None}).of("orders"), StreamLimits(10).of("orders")
        ((None, 'policies.topics.orders.max_new_streams'), (10, 'policies.max_new_streams'))
        """
        if topic in self.topics:
            return self.topics[topic], f"policies.topics.{topic}.max_new_streams"
        return self.most, "policies.max_new_streams"


class _New(NamedTuple):
    """The new streams of a topic."""

    topic: str
    streams: list[Stream]


class Streams:
    """The watermarks of a load's streams: new ones are limited, and the last positions of retired ones are looked up.

    Args:
        spark: The session.
        run: The run.
        watermarks: The watermark table as it was read.
        limits: How many streams may be new.

    Attributes:
        watermarks: The watermarks to decide by, those of retired streams included once they were resolved.
    """

    def __init__(self, spark: SparkSession, run: Run, watermarks: Watermarks, limits: StreamLimits | None = None) -> None:
        self.watermarks = watermarks
        self._spark, self._run, self._limits = spark, run, limits or StreamLimits()
        self._new: set[Stream] = set()

    @cached_property
    def _has_retired(self) -> bool:
        """Whether a stream was ever retired; answered from the statistics of the ledger's files if they suffice."""
        ledger = self._run.table(SILVER_LOADS)
        if not self.watermarks.load_seq or not tables.exists(self._spark, ledger):
            return False
        return small_tables.may_hold(self._spark, ledger, "kind", RETIRE)

    def resolve(self, streams: Iterable[Stream], *, is_whole: bool = True) -> Watermarks:
        """Look up the streams that have no watermark, and count the new ones, with those of earlier calls.

        Args:
            streams: Streams of the load.
            is_whole: Whether the load has no others.

        Returns:
            The watermarks to decide by.

        Raises:
            BreakerOpenError: A topic brings more new streams than its limit. Nothing was written.
        """
        # A stream without a producer is a whole partition: Kafka bounds how many there are, and none is ever retired.
        unknown = {stream for stream in streams if stream[2] is not None and stream not in self.watermarks.rows}
        unknown -= self._new
        if unknown and self._has_retired:
            self.watermarks = self.watermarks.after(_retired(self._spark, self._run, unknown, self.watermarks.load_seq))
            unknown.difference_update(self.watermarks.rows)
        self._new |= unknown
        self._require_few(self._new, is_whole=is_whole)
        return self.watermarks

    def _require_few(self, unknown: Collection[Stream], *, is_whole: bool) -> None:
        by_topic: dict[str, list[Stream]] = {}
        for stream in unknown:
            by_topic.setdefault(plain_topic(stream[0]), []).append(stream)
        found = [_New(topic, streams) for topic, streams in sorted(by_topic.items())]
        too_many = [new for new in found if (most := self._limits.of(new.topic)[0]) is not None and len(new.streams) > most]
        if not too_many:
            return
        counted = [f"{len(new.streams):,} new streams of topic {_shown(new.topic)}" for new in too_many[:_SHOWN]]
        more = f"; {len(too_many) - _SHOWN} topics more" if len(too_many) > _SHOWN else ""
        keys = [self._limits.of(new.topic) for new in too_many[:_SHOWN]]
        raise BreakerOpenError(
            "A load brings more new streams than it may: the producer's name may be another in every record. "
            "Nothing was written.",
            where=f"{self._run.table(BRONZE_RECORDS)}: {', '.join(f'topic {_shown(new.topic)}' for new in too_many[:_SHOWN])}",
            observed=f"{'' if is_whole else 'at least '}{'; '.join(counted)}{more}; producers are {_names(too_many[0])}",
            expected="; ".join(dict.fromkeys(f"at most {most:,} ({key})" for most, key in keys)),
            next_step="See `tidemark plan`, and mend the producer or the extractor that names it. Every stream is a row of "
            "silver_watermarks that each run reads: where there are to be so many, let them in with "
            f"`tidemark run --set policies.topics.{_shown(too_many[0].topic)}.max_new_streams={len(too_many[0].streams)}` "
            "(null for any).",
        )


def _names(new: _New) -> str:
    shown = ", ".join(map(_shown, nsmallest(_SHOWN, (str(producer) for _, _, producer in new.streams))))
    return shown + (" and more" if len(new.streams) > _SHOWN else "")


def _shown(name: str) -> str:
    return printable(shortened(name, _LONGEST))


def _retired(spark: SparkSession, run: Run, streams: Collection[Stream], finished: int) -> list[dict[str, object]]:
    """The last positions of those streams that were retired, from the ledger's rows of their last retirement.

    Only finished loads count, so that a retry of the current load finds the same.
    """
    wanted = frames.of_tuples(spark, streams, "topic string, partition int, producer string")
    names = [*STREAM, *dict.fromkeys(WATERMARK_IN_LOADS.values())]
    loads = spark.read.table(run.table(SILVER_LOADS).sql).select("kind", *names)
    rows = loads.where((F.col("kind") == RETIRE) & (F.col("load_seq") <= finished))
    found = rows.join(wanted, on=frames.same_stream(rows, wanted), how="left_semi")
    last = found.groupBy(*STREAM).agg(F.max_by(F.struct(*names), "load_seq").alias("last")).select("last.*")
    retired: list[dict[str, object]] = last.toArrow().to_pylist()
    return retired
