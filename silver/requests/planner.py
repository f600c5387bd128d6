"""The planner of operators' requests: each request is a load, planned like any other. Writes nothing.

Three requests only move watermarks or add ledger rows. Reset moves a watermark, accept records a topic's break, and retire
removes quiet streams; the ledger keeps their last position, see `silver.state.streams`. A partition's own row, without a
producer, is never retired: it carries the partition's last decided offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as F

from lakehouse.contracts.silver import REJECTS, RETIRE, silver_records, stream_text
from lakehouse.errors import UsageError
from lakehouse.table import SILVER_RECORDS, SILVER_WATERMARKS
from silver import model
from silver.extract.payload import with_schemas
from silver.requests import erase_key, quarantine
from silver.rules import Rules
from silver.state import ledger
from silver.state.ledger import StreamLoad
from silver.state.plan import Plan, nothing_of_bronze
from silver.state.request import Request
from silver.state.streams import Streams
from silver.state.tables import before_load, latest_bronze

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.silver import Ordinal, Stream
    from lakehouse.run.context import Run
    from silver.state.request import Accepted, Reset
    from silver.state.watermarks import Watermarks


class Answer(NamedTuple):
    """The load that executes a request, None if there is nothing to do; `left`: see `quarantine.Choice`."""

    plan: Plan | None
    left: Mapping[str, int]


def plan_request(spark: SparkSession, run: Run, watermarks: Watermarks, claim: Mapping[str, Any]) -> Answer:
    """Plan a claim's request; raises as `reset`. The same claim, watermarks, rejects and Silver always give the same plan."""
    load_seq, rules, request = claim["load_seq"], Rules.from_json(claim["rules"]), Request.from_json(claim["request"])
    choice, streams = quarantine.Choice(), Streams(spark, run, watermarks)
    if request.accepted is not None:
        loads = accept(request.accepted, watermarks)
    elif request.kind == RETIRE:
        loads = retire(request.up_to_load_seq or 0, watermarks)
    elif request.reset is not None:
        silver = before_load(spark, run, silver_records(), load_seq)
        loads = reset(request.reset, streams.resolve([request.reset.stream]), rules, silver)
    elif request.erase is not None:
        meant = erase_key.records(latest_bronze(spark, run), request.erase, watermarks, load_seq)
        choice = erase_key.select_rejects(meant, before_load(spark, run, REJECTS, load_seq), load_seq)
        loads = erase_key.stream_loads(meant, choice, with_schemas(spark, run, meant, rules), streams)
    else:
        choice = quarantine.select_rejects(spark, run, request, load_seq, rules)
        resolved = streams.resolve({*model.streams_of(choice.rows), *model.streams_of(choice.in_gold)})
        loads = quarantine.stream_loads(choice, request.kind, resolved)
    if not loads:
        return Answer(None, choice.left)
    plan = Plan(
        load_seq=load_seq,
        rules=rules,
        watermarks=streams.watermarks,
        range=nothing_of_bronze(streams.watermarks, claim["bronze_to_version"]),
        ledger=ledger.rows(loads, streams.watermarks, claim, rules),
        rejects=model.REJECT.empty_table(),
        settled=choice.rows,
        settled_in_gold=choice.in_gold,
        request=request,
    )
    return Answer(plan, choice.left)


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
    quiet = {
        stream: ledger.load_of(stream, watermarks)
        for stream, mark in watermarks.rows.items()
        if stream[2] is not None and mark.load_seq <= up_to_load_seq and mark.declared_epoch is None
    }
    last_offsets = watermarks.last_offsets
    carriers: list[Stream] = [(topic, partition, None) for topic, partition in {stream[:2] for stream in quiet}]
    kept = {stream: StreamLoad(watermarks.ordinals.get(stream), last_offset=last_offsets[stream[:2]]) for stream in carriers}
    return {**quiet, **kept}


def reset(request: Reset, watermarks: Watermarks, rules: Rules, silver: DataFrame) -> dict[Stream, StreamLoad]:
    """Return the stream's ledger row; none if the watermark is already there. Queries `silver_records` of earlier loads.

    Within an epoch a watermark may fall only if Silver holds no sequence above it, which would be kept twice. UsageError if
    there is no such stream, or its watermark cannot be moved there.
    """
    stream = request.stream
    mark = watermarks.rows.get(stream)
    if mark is None or mark.ordinal is None:
        raise _no_stream(stream, watermarks)
    has_epochs = rules.of_topic(stream[0]).epoch is not None
    if request.is_new_epoch and has_epochs:
        raise UsageError(
            "The producer sends the epochs of this stream; a declared one would not match them.",
            where=stream_text(stream),
            observed="epoch: in the config",
            next_step="Let the producer send a greater epoch, or reset the watermark --to a sequence.",
        )
    pending = mark.declared_epoch if mark.declared_epoch is not None and mark.declared_epoch > mark.ordinal[0] else None
    epoch = pending if pending is not None else mark.ordinal[0] + int(request.is_new_epoch)
    target = mark.ordinal if request.to is None else (epoch, request.to)
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
            "Silver holds records above that sequence; new ones with their numbers would be kept twice.",
            where=f"{SILVER_RECORDS}, {stream_text(stream)}",
            observed=f"{above} records of epoch {target[0]} with a sequence above {target[1]}",
            expected="none",
            next_step=f"Start a new epoch there, which keeps old and new numbers apart: --new-epoch --to {target[1]}.",
        )


def _no_stream(stream: Stream, watermarks: Watermarks) -> UsageError:
    known: list[Stream] = [other for other, row in watermarks.rows.items() if row.ordinal is not None]
    near = [other for other in known if other[:2] == stream[:2]] or known
    return UsageError(
        "This stream has no watermark.",
        where=SILVER_WATERMARKS,
        observed=stream_text(stream),
        expected="; ".join(stream_text(other) for other in sorted(near, key=str)[:5]) or "no stream has accepted a record yet",
        next_step="See `tidemark watermark show`.",
    )
