"""Release and discard: settle quarantined records, as a load of its own.

A release puts records into Silver as Bronze holds them, marked late. Their values are decoded by the current config; a value
that cannot be decoded has a null payload. Silver's guarantees hold: a sequence that Silver already has stays out, and a
released jump moves the watermark, since the sequences that follow it must not be accepted twice.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from lakehouse.contracts.silver import DISCARDED, HELD, QUARANTINED, RELEASE, RELEASED, STREAM, stream_of
from lakehouse.delta import tables
from lakehouse.protocol import swap_fence
from lakehouse.spark import frames
from lakehouse.table import SILVER_REJECTS
from silver.model import REJECT
from silver.state.ledger import StreamLoad, load_of
from silver.suspects import resolve

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.silver import Ordinal, Stream
    from lakehouse.run.context import Run
    from silver.state.plan import Plan
    from silver.state.request import Request
    from silver.state.watermarks import Watermarks

_SETTLED = "tidemark_settled"
NO_SEQUENCE = "no_sequence"
ALREADY_KEPT = "already_kept"


@dataclass(frozen=True)
class Choice:
    """The records that a request settles.

    Attributes:
        rows: Their rows of `silver_rejects`, one per record.
        left: Records asked for that cannot be settled, by reason: no_sequence, already_kept.
    """

    rows: pa.Table
    left: Mapping[str, int]


def select_rejects(spark: SparkSession, request: Request, rejects: DataFrame, silver: DataFrame, load_seq: int) -> Choice:
    """Choose what a release or discard settles. A repeat of the same load chooses the same.

    Args:
        spark: The session.
        request: The request.
        rejects: The rows of `silver_rejects` of earlier loads.
        silver: The rows of `silver_records` of earlier loads; read by a release only.
        load_seq: The load that settles them.
    """
    meant = _meant(request, rejects, load_seq)
    if request.kind != RELEASE:
        return Choice(meant, {})
    left: Counter[str] = Counter()
    taken = resolve.keys_of(spark, meant, silver)
    rows = []
    for row in sorted(meant.to_pylist(), key=lambda row: (row["load_seq"], row["first_offset"])):
        key = (*stream_of(row), row["epoch"], row["first_sequence"])
        if None in key[-2:]:
            left[NO_SEQUENCE] += 1
        elif key in taken:
            left[ALREADY_KEPT] += 1
        else:
            taken.add(key)
            rows.append(row)
    return Choice(pa.Table.from_pylist(rows, REJECT), left)


def _meant(request: Request, rejects: DataFrame, load_seq: int) -> pa.Table:
    wanted = request.wanted
    rows = rejects.where((F.col("state") == HELD) | (F.col("settled_load_seq") == load_seq))
    rows = rows.where(F.col("class").isin(*QUARANTINED))
    if wanted is not None:
        names = {"class": wanted.kind, "topic": wanted.topic, "partition": wanted.partition, "producer": wanted.producer}
        for name, value in {**names, "first_offset": wanted.offset}.items():
            rows = rows if value is None else rows.where(F.col(name) == value)
    if request.up_to_load_seq is not None:
        rows = rows.where(F.col("load_seq") <= request.up_to_load_seq)
    return rows.select(*REJECT.names).toArrow().cast(REJECT)


def stream_loads(choice: Choice, kind: str, watermarks: Watermarks) -> dict[Stream, StreamLoad]:
    """Count the settled records per stream: the load takes no records from Bronze, and its watermarks never fall.

    Args:
        choice: The records.
        kind: release or discard.
        watermarks: The watermarks before.

    Raises:
        TableStateError: See `load_of`.
    """
    by_stream: defaultdict[Stream, list[Ordinal]] = defaultdict(list)
    for row in choice.rows.select([*STREAM, "epoch", "first_sequence"]).to_pylist():
        by_stream[stream_of(row)].append((row["epoch"], row["first_sequence"]))
    loads = {}
    for stream, settled in by_stream.items():
        load = load_of(stream, watermarks)
        if kind == RELEASE:
            load.released = len(settled)
            _raise(load, settled)
        else:
            load.discarded = len(settled)
        loads[stream] = load
    return loads


def mark_settled(spark: SparkSession, run: Run, plan: Plan) -> None:
    """Mark what a load settles as released or discarded: one MERGE on rows still held, so a repeat changes nothing.

    Commits to silver_rejects.

    Raises:
        AnotherWriterError: Another run marked the same rows at the same time.
        UndoneError: A restore or rebuild has rolled back the load: what it settled is held again, and must not be marked.
    """
    rejects, rows = run.table(SILVER_REJECTS), plan.settled
    first, last = (bound.as_py() for bound in pc.min_max(rows["load_seq"]).values())
    places = frames.of_arrow(spark, rows.select(["topic", "partition", "first_offset"]))
    swap_fence.guarded(places, run, plan.load_seq).createOrReplaceTempView(_SETTLED)
    try:
        tables.merge(
            spark,
            f"""
            MERGE INTO {rejects.sql} AS reject USING {_SETTLED} AS settled
            ON reject.topic = settled.topic AND reject.partition = settled.partition
              AND reject.first_offset = settled.first_offset
              AND reject.state = '{HELD}' AND reject.load_seq BETWEEN {first} AND {last}
            WHEN MATCHED THEN UPDATE SET
              state = '{RELEASED if plan.count("released") else DISCARDED}', settled_load_seq = {plan.load_seq}
            """,
            rejects,
        )
    finally:
        spark.catalog.dropTempView(_SETTLED)


def _raise(load: StreamLoad, released: Iterable[Ordinal]) -> None:
    """Move the watermark up to the released records above it, and count the sequences they step over."""
    ranges = []
    for epoch, sequence in sorted(released):
        if load.ordinal is None or (epoch, sequence) > load.ordinal:
            if load.ordinal is not None and load.ordinal[0] == epoch and sequence > load.ordinal[1] + 1:
                ranges.append((epoch, load.ordinal[1] + 1, sequence - 1))
            load.ordinal = (epoch, sequence)
    load.missing = sum(last - first + 1 for _, first, last in ranges)
    load.missing_ranges = ranges
