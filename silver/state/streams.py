"""The streams of a load: limits how many are new, and looks up the last position of retired ones in the ledger."""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakehouse.contracts.bronze import plain_topic
from lakehouse.contracts.silver import RETIRE
from lakehouse.errors import BreakerOpenError
from lakehouse.escape import printable, shortened
from lakehouse.spark import frames
from lakehouse.table import BRONZE_RECORDS, SILVER_LOADS
from silver.model import TopicLimits
from silver.state.watermarks import last_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pyspark.sql import SparkSession

    from lakehouse.contracts.silver import Stream
    from lakehouse.run.context import Run
    from silver.state.watermarks import Watermarks

_SHOWN, _LONGEST = 5, 60
"""How many names the error shows, and how many characters of each."""

StreamLimits = TopicLimits[int | None]
"""How many new streams of a topic a load may add; None is no limit."""


class Streams:
    """The `watermarks` of a load's streams, including retired streams after `resolve`."""

    def __init__(self, spark: SparkSession, run: Run, watermarks: Watermarks, limits: StreamLimits | None = None) -> None:
        self.watermarks = watermarks
        self._spark, self._run, self._limits = spark, run, limits or StreamLimits(None)
        self._new: set[Stream] = set()
        self._looked_up: set[Stream] = set()

    def resolve(self, streams: Iterable[Stream], *, is_whole: bool = True) -> Watermarks:
        """Look up the streams that have no watermark, count the new ones, and return the watermarks to decide by.

        If `is_whole`, these and earlier streams are all of the load. BreakerOpenError if a topic has too many new ones.
        """
        # A stream without a producer is a whole partition: Kafka bounds how many there are, and none is ever retired.
        unknown = {stream for stream in streams if stream[2] is not None and stream not in self.watermarks.rows}
        unknown -= self._new
        self._new |= self._unless_retired(unknown)
        self._require_few(is_whole=is_whole)
        return self.watermarks

    def look_up(self, streams: Collection[Stream], continues: Iterable[tuple[str, tuple[str, ...]]]) -> None:
        """Look up the positions of the streams' producers in other streams that share their numbering."""
        for topic, earlier in continues:
            producers = {stream[2] for stream in streams if stream[0] == topic and stream[2] is not None}
            partitions = {stream[:2] for stream in self.watermarks.rows if stream[0] in earlier} if producers else set()
            before: set[Stream] = {(*place, producer) for place in partitions for producer in producers}
            unknown = before - self._looked_up - self.watermarks.rows.keys()
            self._looked_up |= unknown
            self._unless_retired(unknown)

    def _unless_retired(self, unknown: set[Stream]) -> set[Stream]:
        """Look up streams without a watermark; return those that were never retired."""
        if not unknown or not self.watermarks.load_seq:
            return unknown
        loads = self._spark.read.table(self._run.table(SILVER_LOADS).sql)
        retired = loads.where((F.col("kind") == RETIRE) & (F.col("load_seq") <= self.watermarks.load_seq))
        self.watermarks = self.watermarks.after(last_rows(frames.of_streams(self._spark, retired, unknown)))
        return unknown - self.watermarks.rows.keys()

    def _require_few(self, *, is_whole: bool) -> None:
        by_topic: dict[str, list[str]] = {}
        for topic, _, producer in self._new:
            by_topic.setdefault(plain_topic(topic), []).append(str(producer))
        limits = {topic: self._limits.of(topic) for topic in sorted(by_topic)}
        too_many = [topic for topic, (most, _) in limits.items() if most is not None and len(by_topic[topic]) > most]
        if not too_many:
            return
        shown = {topic: printable(shortened(topic, _LONGEST)) for topic in too_many[:_SHOWN]}
        counted = [f"{len(by_topic[topic]):,} new streams of topic {name}" for topic, name in shown.items()]
        more = f"; {len(too_many) - _SHOWN} topics more" if len(too_many) > _SHOWN else ""
        first, producers = shown[too_many[0]], by_topic[too_many[0]]
        names = ", ".join(printable(shortened(name, _LONGEST)) for name in nsmallest(_SHOWN, producers))
        names += " and more" if len(producers) > _SHOWN else ""
        raise BreakerOpenError(
            "The load exceeds the limit of new streams. The producer's name may differ in each record. Nothing was written.",
            where=f"{self._run.table(BRONZE_RECORDS)}: {', '.join(f'topic {name}' for name in shown.values())}",
            observed=f"{'' if is_whole else 'at least '}{'; '.join(counted)}{more}; producers are {names}",
            expected="; ".join(dict.fromkeys("at most {:,} ({}.max_new_streams)".format(*limits[topic]) for topic in shown)),
            next_step="See `tidemark plan`, and correct the producer or the extractor of its name. Each run reads all streams "
            "in silver_watermarks. To allow so many: `tidemark run --set "
            f"policies.topics.{first}.max_new_streams={len(producers)}` (null for any).",
        )
