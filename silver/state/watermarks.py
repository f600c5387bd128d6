"""The watermark table, a row per stream: read as a load begins, moved by its MERGE, overwritten by `silver.load.cutover`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from lakehouse.contracts.bronze import plain_topic
from lakehouse.contracts.silver import LOADS, RETIRE, STREAM, WATERMARK_IN_LOADS, WATERMARKS, stream_of
from lakehouse.delta import small_tables, tables
from lakehouse.errors import RulesChangedError, TableStateError
from lakehouse.protocol import cutover_fence
from lakehouse.spark import frames
from lakehouse.table import SILVER_LOADS, SILVER_WATERMARKS
from silver.model import tuples_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.silver import Ordinal, Stream
    from lakehouse.run.context import Run
    from silver.rules import Rules

_LOAD = "tidemark_load"
_IS_RETIRED = f"(load.kind = '{RETIRE}' AND load.producer IS NOT NULL)"
"""`lakehouse.contracts.silver.is_retired`, in SQL."""


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
    def last_offsets(self) -> dict[tuple[str, int], int]:
        """The last decided offset of each partition."""
        offsets: dict[tuple[str, int], int] = {}
        for (topic, partition, _), row in self.rows.items():
            offsets[topic, partition] = max(offsets.get((topic, partition), row.last_offset), row.last_offset)
        return offsets

    def in_declared_epochs(self, spark: SparkSession, rows: DataFrame) -> DataFrame:
        """Replace each non-null `epoch` by the stream's declared one, if it has one."""
        if not self.declared:
            return rows
        declared = [(*stream, epoch) for stream, epoch in self.declared.items()]
        known = frames.of_tuples(spark, declared, "topic string, partition int, producer string, declared_epoch bigint")
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
        of_topic = f" for the topic {plain_topic(topic)}" if rules.own else ""
        raise RulesChangedError(
            "The extractors of sequence, producer or epoch have changed since the watermarks were made.",
            where=where,
            observed=f"{rules.of_topic(topic).extractors}, as the config has it{of_topic}",
            expected="; ".join(_extractors(before, topic, fingerprint) for fingerprint in sorted(others[topic])),
            next_step="Put the extractors back, or rebuild Silver: `tidemark rebuild` shows the changes, --apply makes them.",
        )


def _extractors(before: Rules | None, topic: str, fingerprint: str) -> str:
    known = before.of_topic(topic) if before else None
    return known.extractors if known and known.fingerprint == fingerprint else f"rules {fingerprint}"


def read(spark: SparkSession, run: Run) -> Watermarks:
    """Read the watermark table; empty if it does not exist. Call it once per load, as another run may move it."""
    names = (*STREAM, *WATERMARK_IN_LOADS)
    rows = small_tables.read_arrow(spark, run.table(SILVER_WATERMARKS), names, contract=WATERMARKS)
    marks = map(Watermark._make, tuples_of(rows, Watermark._fields))
    return Watermarks(dict(zip(tuples_of(rows, STREAM), marks, strict=True)))


def last_rows(loads: DataFrame) -> list[dict[str, Any]]:
    """Return the last of some rows of `silver_loads` for each stream: `kind`, and the watermark after the load."""
    last = F.max_by(F.struct(*STREAM, "kind", *WATERMARK_IN_LOADS.values()), "load_seq").alias("last")
    rows: list[dict[str, Any]] = loads.groupBy(*STREAM).agg(last).select("last.*").toArrow().to_pylist()
    return rows


def advance(spark: SparkSession, run: Run, load_seq: int) -> None:
    """Move the watermarks to the positions in the load's ledger rows: one MERGE, one commit. A retirement removes its streams.

    Changes nothing unless the table is at the previous load. Has no transaction id, because Delta would then skip the repair of
    a restored table.

    Raises:
        TableStateError: The table was emptied or restored during the load.
        AnotherWriterError: Another run moved the same rows.
        UndoneError: A restore or rebuild has rolled back the load.
    """
    table = run.table(SILVER_WATERMARKS)
    _marks(spark, run, load_seq).createOrReplaceTempView(_LOAD)
    try:
        moved = tables.merge(spark, _merge(table.sql, load_seq), table)
    finally:
        spark.catalog.dropTempView(_LOAD)
    if moved:
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
    return f"""
        MERGE INTO {watermarks} AS watermark
        USING (
          SELECT * FROM {_LOAD} WHERE (SELECT coalesce(max(load_seq), 0) FROM {watermarks}) = {load_seq - 1}
        ) AS load
        ON watermark.topic = load.topic AND watermark.partition = load.partition AND watermark.producer <=> load.producer
        WHEN MATCHED AND load.load_seq > watermark.load_seq AND {_IS_RETIRED} THEN DELETE
        WHEN MATCHED AND load.load_seq > watermark.load_seq THEN UPDATE SET
          epoch = load.epoch_after, high_watermark = load.high_watermark_after, last_offset = load.last_offset,
          declared_epoch = load.declared_epoch, load_seq = load.load_seq, rules_fingerprint = load.rules_fingerprint,
          updated_at = current_timestamp()
        WHEN NOT MATCHED AND NOT {_IS_RETIRED} THEN INSERT
          (topic, partition, producer, epoch, high_watermark, last_offset, declared_epoch, load_seq, rules_fingerprint,
            updated_at)
          VALUES (load.topic, load.partition, load.producer, load.epoch_after, load.high_watermark_after,
            load.last_offset, load.declared_epoch, load.load_seq, load.rules_fingerprint, current_timestamp())
        """  # noqa: S608 -- table names and a whole number, nothing from a record
