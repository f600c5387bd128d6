"""Requests that add no records: reset moves a watermark, accept records a topic's break, retire removes quiet streams.

The ledger rows of a retirement keep each stream's last position, see `silver.state.streams`. A partition's own row, without a
producer, is never retired: it carries the partition's last decided offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakehouse.errors import UsageError
from lakehouse.table import SILVER_RECORDS, SILVER_WATERMARKS
from silver.state.ledger import StreamLoad

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakehouse.contracts.silver import Ordinal, Stream
    from silver.rules import Rules
    from silver.state.request import Accepted, Reset
    from silver.state.watermarks import Watermarks


def accept(accepted: Accepted, watermarks: Watermarks) -> dict[Stream, StreamLoad]:
    """Return a ledger row for each partition of a topic's break, with its watermark unchanged; at least for partition 0."""
    last_offsets = watermarks.last_offsets
    known = sorted(partition for topic, partition in last_offsets if topic == accepted.stored_as)
    loads: dict[Stream, StreamLoad] = {}
    for partition in [lost.partition for lost in accepted.lost] or known or [0]:
        stream = (accepted.stored_as, partition, None)
        mark = watermarks.rows.get(stream)
        last = mark.last_offset if mark is not None else last_offsets.get(stream[:2], -1)
        loads[stream] = StreamLoad(watermarks.ordinals.get(stream), last_offset=last)
    return loads


def retire(up_to_load_seq: int, watermarks: Watermarks) -> dict[Stream, StreamLoad]:
    """Return the ledger rows of all streams that no load after `up_to_load_seq` moved, and of their partitions.

    A stream with a declared epoch stays: its records are read under that epoch.
    """
    quiet: dict[Stream, StreamLoad] = {
        stream: StreamLoad(mark.ordinal, last_offset=mark.last_offset)
        for stream, mark in watermarks.rows.items()
        if stream[2] is not None and mark.load_seq <= up_to_load_seq and mark.declared_epoch is None
    }
    last_offsets = watermarks.last_offsets
    carriers: list[Stream] = [(topic, partition, None) for topic, partition in {stream[:2] for stream in quiet}]
    kept = {stream: StreamLoad(watermarks.ordinals.get(stream), last_offset=last_offsets[stream[:2]]) for stream in carriers}
    return {**quiet, **kept}


def reset(asked: Reset, watermarks: Watermarks, rules: Rules, silver: DataFrame) -> dict[Stream, StreamLoad]:
    """Return the stream's ledger row; none if the watermark is already there. Queries `silver_records` of earlier loads.

    Within an epoch a watermark may fall only if Silver holds no sequence above it, which would be kept twice.

    Raises:
        UsageError: There is no such stream, or its watermark cannot be moved there.
    """
    stream = asked.stream
    mark = watermarks.rows.get(stream)
    if mark is None or mark.ordinal is None:
        raise _no_stream(stream, watermarks)
    has_epochs = rules.of_topic(stream[0]).epoch is not None
    if asked.is_new_epoch and has_epochs:
        raise UsageError(
            "The producer names the epochs of this stream itself; one that is declared here would not match them.",
            where=_named(stream),
            observed="epoch: in the config",
            next_step="Let the producer send a greater epoch, or reset the watermark --to a sequence.",
        )
    pending = mark.declared_epoch if mark.declared_epoch is not None and mark.declared_epoch > mark.ordinal[0] else None
    epoch = pending if pending is not None else mark.ordinal[0] + int(asked.is_new_epoch)
    target = mark.ordinal if asked.to is None else (epoch, asked.to)
    if target == mark.ordinal and epoch in (mark.ordinal[0], pending):
        return {}
    if target < mark.ordinal:
        _require_nothing_above(stream, target, silver)
    declared = epoch if not has_epochs and epoch > 0 else None
    return {stream: StreamLoad(target, last_offset=mark.last_offset, declared_epoch=declared)}


def _require_nothing_above(stream: Stream, target: Ordinal, silver: DataFrame) -> None:
    topic, partition, producer = stream
    is_of_stream = (F.col("topic") == topic) & (F.col("partition") == partition)
    is_of_stream &= F.col("producer").eqNullSafe(F.lit(producer))
    is_above = (F.col("epoch") == target[0]) & (F.col("sequence") > target[1])
    above = silver.where(is_of_stream & is_above).count()
    if above:
        raise UsageError(
            "Silver holds records above that sequence; the next ones with their numbers would be kept twice.",
            where=f"{SILVER_RECORDS}, {_named(stream)}",
            observed=f"{above} records of epoch {target[0]} with a sequence above {target[1]}",
            expected="none",
            next_step=f"Start a new epoch there, which keeps old and new numbers apart: --new-epoch --to {target[1]}.",
        )


def _no_stream(stream: Stream, watermarks: Watermarks) -> UsageError:
    known: list[Stream] = [other for other, row in watermarks.rows.items() if row.ordinal is not None]
    near = [other for other in known if other[:2] == stream[:2]] or known
    return UsageError(
        "There is no watermark of such a stream.",
        where=SILVER_WATERMARKS,
        observed=_named(stream),
        expected="; ".join(_named(other) for other in sorted(near, key=str)[:5]) or "no stream has accepted a record yet",
        next_step="See `tidemark watermark show`.",
    )


def _named(stream: Stream) -> str:
    topic, partition, producer = stream
    return f"topic {topic}, partition {partition}" + (f", producer {producer}" if producer is not None else "")
