"""The planner of operators' requests: each request is a load, planned like any other. Writes nothing.

Accept records a topic's break. Retire removes the watermarks of quiet streams; `silver.state.watermarks` finds their last
position in the ledger. A partition's own row, without a producer, is never retired: it carries the last decided offset.

A release appends records in quarantine to Silver as Bronze holds them, marked late. A released jump moves the watermark, since
the sequences that follow it must not be accepted twice. Silver already has the records that expectations kept out of Gold:
`gold.publish` adds them with the next published range.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.contracts.gold import UNMET
from lakehouse.contracts.silver import HELD, QUARANTINED, REJECTS, RELEASE, STREAM, silver_records, stream_of, stream_text
from lakehouse.errors import UsageError
from lakehouse.protocol import gold_rejects
from lakehouse.protocol.gold_rejects import ROW
from lakehouse.table import SILVER_RECORDS, SILVER_WATERMARKS
from silver.extract.columns import sequenced
from silver.extract.payload import with_schemas
from silver.model import REJECT, streams_of
from silver.requests import erase_key
from silver.rules import Rules
from silver.state import ledger
from silver.state.ledger import BronzeRange, Plan, Settled, StreamLoad, load_of
from silver.state.request import Accepted, Request, Reset
from silver.state.tables import before_load, latest_bronze
from silver.state.watermarks import Streams, Watermarks
from silver.suspects.moved import known_keys

if TYPE_CHECKING:
    from lakehouse.contracts.silver import Ordinal, Stream
    from lakehouse.run.context import Run

NO_SEQUENCE = "no_sequence"
ALREADY_KEPT = "already_kept"


def plan_request(spark: SparkSession, run: Run, watermarks: Watermarks, claim: Mapping[str, Any]) -> Plan:
    """Plan a claim's request; its ledger is empty if there is nothing to do. Raises as `reset`.

    The same claim, watermarks, rejects and Silver always give the same plan.
    """
    load_seq, rules, request = claim["load_seq"], Rules.from_json(claim["rules"]), Request.from_json(claim["request"])
    settled, streams = Settled(), Streams(spark, run, watermarks)
    if request.accepted is not None:
        loads = accept(request.accepted, watermarks)
    elif request.kind == "retire":
        loads = retire(request.up_to_load_seq or 0, watermarks)
    elif request.reset is not None:
        silver = before_load(spark, run, silver_records(), load_seq)
        loads = reset(request.reset, streams.resolve([request.reset.stream]), rules, silver)
    elif request.erase is not None:
        meant = erase_key.records(latest_bronze(spark, run), request.erase, watermarks, load_seq)
        places = meant.select("topic", "partition", F.col("offset").alias("first_offset")).distinct()
        held = waiting(before_load(spark, run, REJECTS, load_seq), load_seq)
        found = held.join(F.broadcast(places), on=["topic", "partition", "first_offset"], how="left_semi")
        settled = Settled(found.select(*REJECT.names).toArrow().cast(REJECT))
        loads = erased_loads(meant, settled, with_schemas(spark, run, meant, rules), streams)
    else:
        settled = select_rejects(spark, run, request, load_seq, rules)
        resolved = streams.resolve({*streams_of(settled.rows), *streams_of(settled.in_gold)})
        loads = settled_loads(settled, resolved, is_release=request.kind == RELEASE)
    return Plan(
        load_seq=load_seq,
        rules=rules,
        watermarks=streams.watermarks,
        range=BronzeRange(claim["bronze_after_version"], claim["bronze_to_version"], streams.watermarks.last_offsets, 0),
        ledger=ledger.rows(loads, streams.watermarks, claim, rules),
        rejects=REJECT.empty_table(),
        settled=settled,
        request=request,
    )


def accept(accepted: Accepted, watermarks: Watermarks) -> dict[Stream, StreamLoad]:
    """Return a ledger row for each partition of a topic's break, with its watermark unchanged; at least for partition 0."""
    last_offsets = watermarks.last_offsets
    known = sorted(partition for topic, partition in last_offsets if topic == accepted.stored_as)
    loads: dict[Stream, StreamLoad] = {}
    for partition in [lost.partition for lost in accepted.lost] or known or [0]:
        stream = (accepted.stored_as, partition, None)
        unread = StreamLoad(None, last_offset=last_offsets.get(stream[:2], -1))
        loads[stream] = load_of(stream, watermarks) if stream in watermarks.rows else unread
    return loads


def retire(up_to_load_seq: int, watermarks: Watermarks) -> dict[Stream, StreamLoad]:
    """Return the ledger rows of all streams that no later load moved, without a declared epoch, and of their partitions."""
    quiet = {
        stream: load_of(stream, watermarks)
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


def select_rejects(spark: SparkSession, run: Run, request: Request, load_seq: int, rules: Rules) -> Settled:
    """Choose the rejects that a release or discard settles. A repeat of the same load chooses the same.

    A release never adds a sequence twice, across all incarnations with the same numbering.
    """
    meant, in_gold = _held_in_silver(spark, run, request, load_seq), _held_in_gold(spark, run, request, load_seq)
    if request.kind != RELEASE:
        return Settled(meant, in_gold)
    left: Counter[str] = Counter()
    kept = before_load(spark, run, silver_records(), load_seq)
    taken, elsewhere = known_keys(meant, kept, rules), set[tuple[object, ...]]()
    rows = []
    for row in sorted(meant.to_pylist(), key=lambda row: (row["load_seq"], row["first_offset"])):
        key = (*stream_of(row), row["epoch"], row["first_sequence"])
        if None in key[-2:]:
            left[NO_SEQUENCE] += 1
        elif key in taken or (key[0], *key[2:]) in elsewhere:
            left[ALREADY_KEPT] += 1
        else:
            taken.add(key)
            elsewhere.update((other, *key[2:]) for other in rules.linked(row["topic"]))
            rows.append(row)
    return Settled(pa.Table.from_pylist(rows, REJECT), in_gold, left)


def _held_in_silver(spark: SparkSession, run: Run, request: Request, load_seq: int) -> pa.Table:
    rows = waiting(before_load(spark, run, REJECTS, load_seq), load_seq)
    for name, value in _filters(request, kind="class", offset="first_offset").items():
        rows = rows.where(F.col(name) == F.lit(value))
    if request.up_to_load_seq is not None:
        rows = rows.where(F.col("load_seq") <= request.up_to_load_seq)
    return rows.select(*REJECT.names).toArrow().cast(REJECT)


def waiting(rejects: DataFrame, load_seq: int) -> DataFrame:
    """Return the records that wait in quarantine, with those that this load settles: its repeat chooses the same."""
    is_waiting = (F.col("state") == HELD) | (F.col("settled_load_seq") == load_seq)
    return rejects.where(is_waiting & F.col("class").isin(*QUARANTINED))


def _held_in_gold(spark: SparkSession, run: Run, request: Request, load_seq: int) -> pa.Table:
    filters, up_to = _filters(request), request.published_to
    is_meant = up_to is not None and filters.pop("kind", UNMET) == UNMET
    if not is_meant or run.lakehouse.shadow is not None:  # a shadow has no Gold: the gate audits its records again
        return ROW.empty_table()
    rows = [
        row
        for row in gold_rejects.effective_rejects(spark, run, up_to=up_to)
        if (row["state"] == HELD or row["settled_load_seq"] == load_seq)
        and filters.items() <= row.items()
        and (request.up_to_load_seq is None or row["load_seq"] <= request.up_to_load_seq)
    ]
    return pa.Table.from_pylist(sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"])), ROW)


def _filters(request: Request, **columns: str) -> dict[str, object]:
    """Return the values that a request filters by, except days, by column; `columns` renames some."""
    named = asdict(request.wanted) if request.wanted else {}
    return {columns.get(name, name): value for name, value in named.items() if value is not None and name != "days"}


def settled_loads(settled: Settled, watermarks: Watermarks, *, is_release: bool) -> dict[Stream, StreamLoad]:
    """Count the settled records per stream, from the watermarks before the load, which never fall; raises as `load_of`."""
    by_stream: defaultdict[Stream, list[Ordinal]] = defaultdict(list)
    for row in settled.rows.select([*STREAM, "epoch", "first_sequence"]).to_pylist():
        by_stream[stream_of(row)].append((row["epoch"], row["first_sequence"]))
    loads = {}
    for stream, ordinals in by_stream.items():
        load = loads[stream] = load_of(stream, watermarks)
        if is_release:
            load.released = len(ordinals)
            _raise_ordinal(load, ordinals)
        else:
            load.discarded = len(ordinals)
    for row in settled.in_gold.to_pylist():
        loads.setdefault(stream_of(row), load_of(stream_of(row), watermarks))
    return loads


def _raise_ordinal(load: StreamLoad, released: Iterable[Ordinal]) -> None:
    """Raise the load's ordinal to the highest released record. `advance` moves the watermark."""
    ranges = []
    for epoch, sequence in sorted(released):
        if load.ordinal is None or (epoch, sequence) > load.ordinal:
            if load.ordinal is not None and load.ordinal[0] == epoch and sequence > load.ordinal[1] + 1:
                ranges.append((epoch, load.ordinal[1] + 1, sequence - 1))
            load.ordinal = (epoch, sequence)
    load.missing = sum(last - first + 1 for _, first, last in ranges)
    load.missing_ranges = ranges


def erased_loads(meant: DataFrame, settled: Settled, rules: Rules, streams: Streams) -> dict[Stream, StreamLoad]:
    """Count an erasure per stream for ledger rows with unchanged watermarks; raises as `load_of`."""
    read = sequenced(meant, rules.of_sequences).groupBy(*STREAM).agg(F.count_distinct("offset").alias("records")).toArrow()
    watermarks = streams.resolve({*streams_of(read), *streams_of(settled.rows)})
    loads = settled_loads(settled, watermarks, is_release=False)
    for row in read.to_pylist():
        stream = _decided_under(stream_of(row), watermarks)
        loads.setdefault(stream, load_of(stream, watermarks)).erased += row["records"]
    return loads


def _decided_under(stream: Stream, watermarks: Watermarks) -> Stream:
    """Return the stream that counts a record. It differs from the record's if version 0.1 read the producer differently."""
    if stream in watermarks.rows:
        return stream
    others = (each for each in watermarks.rows if each[:2] == stream[:2])
    return min(others, key=lambda each: each[2] or "", default=stream)
