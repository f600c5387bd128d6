"""The watermark table, a row per stream: read as a load begins, moved by its MERGE, overwritten by `silver.load.cutover`.

`Streams` looks up the last position of retired streams in the ledger, and limits how many streams are new.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from heapq import nsmallest
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.contracts.bronze import plain_topic
from lakehouse.contracts.silver import LOADS, RETIRE, STREAM, WATERMARK, WATERMARK_IN_LOADS, WATERMARKS, stream_of
from lakehouse.delta import small_tables
from lakehouse.errors import BreakerOpenError, RulesChangedError, TableStateError
from lakehouse.escape import printable, shortened
from lakehouse.protocol import cutover_fence
from lakehouse.spark import frames
from lakehouse.table import BRONZE_RECORDS, SILVER_LOADS, SILVER_WATERMARKS
from silver.model import NO_LIMITS, LoadLimits, tuples_of
from silver.state.tables import merge_rows

if TYPE_CHECKING:
    from lakehouse.contracts.silver import Ordinal, Partition, Stream
    from lakehouse.run.context import Run
    from silver.rules import Rules

_LOAD = "tidemark_load"
_IS_RETIRED = f"(load.kind = '{RETIRE}' AND load.producer IS NOT NULL)"
"""`lakehouse.contracts.silver.is_retired`, in SQL."""
_SHOWN, _LONGEST = 5, 60
"""How many names of new streams an error shows, and how many characters of each."""


class Watermark(NamedTuple):
    """One row of the table, see `lakehouse.contracts.silver.WATERMARKS`."""

    epoch: int | None
    high_watermark: int | None
    last_offset: int
    load_seq: int
    rules_fingerprint: str
    declared_epoch: int | None = None

    @property
    def ordinal(self) -> Ordinal | None:
        """(epoch, sequence), or None while nothing was accepted."""
        return None if self.epoch is None or self.high_watermark is None else (self.epoch, self.high_watermark)


@dataclass(frozen=True)
class Watermarks:
    """The whole table as one load sees it."""

    rows: Mapping[Stream, Watermark]

    @cached_property
    def load_seq(self) -> int:
        """The last finished load; 0 before the first."""
        return max((row.load_seq for row in self.rows.values()), default=0)

    @cached_property
    def ordinals(self) -> dict[Stream, Ordinal]:
        """The watermark of each stream that has accepted something."""
        return {stream: row.ordinal for stream, row in self.rows.items() if row.ordinal is not None}

    @cached_property
    def declared(self) -> dict[Stream, int]:
        """The declared epoch of each stream that has one."""
        return {stream: row.declared_epoch for stream, row in self.rows.items() if row.declared_epoch is not None}

    def after(self, ledger: Iterable[Mapping[str, Any]]) -> Watermarks:
        """Return the watermarks after a load, by its ledger rows; with the last position of retired streams."""
        moved = {
            stream_of(row): Watermark(**{name: row[other] for name, other in WATERMARK_IN_LOADS.items()}) for row in ledger
        }
        return Watermarks({**self.rows, **moved})

    @cached_property
    def last_offsets(self) -> dict[Partition, int]:
        """The last decided offset of each partition."""
        offsets: dict[Partition, int] = {}
        for (topic, partition, _), row in self.rows.items():
            offsets[topic, partition] = max(offsets.get((topic, partition), row.last_offset), row.last_offset)
        return offsets

    def in_declared_epochs(self, rows: DataFrame) -> DataFrame:
        """Replace each non-null `epoch` by the stream's declared one, if it has one."""
        if not self.declared:
            return rows
        declared = [(*stream, epoch) for stream, epoch in self.declared.items()]
        columns = "topic string, partition int, producer string, declared_epoch bigint"
        known = frames.of_tuples(rows.sparkSession, declared, columns)
        epoch = F.when(rows["epoch"].isNotNull(), F.coalesce(known["declared_epoch"], rows["epoch"])).alias("epoch")
        joined = rows.join(F.broadcast(known), on=frames.same_stream(rows, known), how="left")
        return joined.select(*(epoch if name == "epoch" else rows[name] for name in rows.columns))

    def require_same_extractors(self, rules: Rules, before: Rules | None, *, where: str) -> None:
        """Raise RulesChangedError if the watermarks were made with other extractors; `before` and `where` are for the error."""
        known: dict[str, set[str]] = {}
        for (topic, _, _), row in self.rows.items():
            known.setdefault(topic, set()).add(row.rules_fingerprint)
        wanted = {topic: rules.of_topic(topic).fingerprint for topic in known}
        others = {topic: odd for topic, found in known.items() if (odd := found - {wanted[topic]})}
        if not others:
            return
        topic = min(others)
        earlier = before.of_topic(topic) if before else None
        made_with = {earlier.fingerprint: earlier.extractors} if earlier else {}
        of_topic = f" for the topic {plain_topic(topic)}" if rules.own else ""
        raise RulesChangedError(
            "The extractors of sequence, producer or epoch have changed since the watermarks were made.",
            where=where,
            observed=f"{rules.of_topic(topic).extractors}, as the config has it{of_topic}",
            expected="; ".join(made_with.get(fingerprint, f"rules {fingerprint}") for fingerprint in sorted(others[topic])),
            next_step="Put the extractors back, or rebuild Silver: `tidemark rebuild` shows the changes, --apply makes them.",
        )


def read(spark: SparkSession, run: Run) -> Watermarks:
    """Read the watermark table; empty if it does not exist. Call it once per load, as another run may move it."""
    rows = small_tables.read_arrow(spark, run.table(SILVER_WATERMARKS), WATERMARK, contract=WATERMARKS)
    marks = map(Watermark._make, tuples_of(rows, Watermark._fields))
    return Watermarks(dict(zip(tuples_of(rows, STREAM), marks, strict=True)))


def last_rows(loads: DataFrame) -> list[dict[str, Any]]:
    """Return the last of some rows of `silver_loads` for each stream: `kind`, and the watermark after the load."""
    last = F.max_by(F.struct(*STREAM, "kind", *WATERMARK_IN_LOADS.values()), "load_seq").alias("last")
    rows: list[dict[str, Any]] = loads.groupBy(*STREAM).agg(last).select("last.*").toArrow().to_pylist()
    return rows


class Streams:
    """The `watermarks` of a load's streams, including retired streams after `resolve`."""

    def __init__(self, spark: SparkSession, run: Run, watermarks: Watermarks, limits: LoadLimits = NO_LIMITS) -> None:
        self.watermarks = watermarks
        self._spark, self._run, self._limits = spark, run, limits.streams
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


def advance(spark: SparkSession, run: Run, load_seq: int) -> None:
    """Move the watermarks to the positions in the load's ledger rows: one MERGE, one commit. A retirement removes its streams.

    Changes nothing unless the table is at the previous load. Has no transaction id, because Delta would then skip the repair of
    a restored table. TableStateError if the table was emptied or restored during the load, AnotherWriterError if another run
    moved the same rows, UndoneError if a restore or rebuild has rolled back the load.
    """
    table = run.table(SILVER_WATERMARKS)
    if merge_rows(_marks(spark, run, load_seq), _LOAD, _merge(table.sql, load_seq), table):
        return
    finished = read(spark, run).load_seq
    if finished < load_seq:
        raise TableStateError(
            "The watermarks were emptied or restored during the load; this run did not change them.",
            where=str(table),
            observed=f"last finished load {finished}",
            expected=f"last finished load {load_seq - 1} or later",
            next_step=f"The load is claimed. `tidemark restore --to {load_seq - 1}` returns all tables to the load before it.",
        )
    cutover_fence.require_not_rolled_back(spark, run, load_seq)


def _marks(spark: SparkSession, run: Run, load_seq: int) -> DataFrame:
    """Return the positions in a load's ledger rows, collected first, because the MERGE would read the ledger twice."""
    schema = frames.arrow_schema(LOADS)
    names = (*STREAM, "kind", *WATERMARK_IN_LOADS.values())
    rows = small_tables.read_arrow(spark, run.table(SILVER_LOADS), names, start=("load_seq", load_seq))
    of_load = rows.filter(pc.equal(rows["load_seq"], load_seq))
    return frames.of_arrow(spark, of_load.cast(pa.schema([schema.field(name) for name in names]))).coalesce(1)


def _merge(watermarks: str, load_seq: int) -> str:
    moved = ", ".join(f"{name} = load.{other}" for name, other in WATERMARK_IN_LOADS.items())
    inserted = ", ".join(f"load.{name}" for name in (*STREAM, *WATERMARK_IN_LOADS.values()))
    return f"""
        MERGE INTO {watermarks} AS watermark
        USING (
          SELECT * FROM {_LOAD} WHERE (SELECT coalesce(max(load_seq), 0) FROM {watermarks}) = {load_seq - 1}
        ) AS load
        ON watermark.topic = load.topic AND watermark.partition = load.partition AND watermark.producer <=> load.producer
        WHEN MATCHED AND load.load_seq > watermark.load_seq AND {_IS_RETIRED} THEN DELETE
        WHEN MATCHED AND load.load_seq > watermark.load_seq THEN UPDATE SET {moved}, updated_at = current_timestamp()
        WHEN NOT MATCHED AND NOT {_IS_RETIRED} THEN
          INSERT ({", ".join(WATERMARK)}, updated_at) VALUES ({inserted}, current_timestamp())
        """  # noqa: S608 -- table names and a whole number, nothing from a record
