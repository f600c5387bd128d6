"""Release and discard: settle records in quarantine, those of Silver and those that expectations kept out of Gold.

A release appends records to Silver as Bronze holds them, marked late. The current config decodes their values; an undecodable
value has a null payload. A sequence that Silver already has stays out. A released jump moves the watermark, since the sequences
that follow it must not be accepted twice.

Silver already has the records that expectations kept out of Gold. A load only records the decision; Gold gets them with the
next published range, see `gold.publish`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from lakehouse.contracts.gold import UNMET
from lakehouse.contracts.silver import (
    DISCARDED,
    HELD,
    QUARANTINED,
    REJECTS,
    RELEASE,
    RELEASED,
    STREAM,
    silver_records,
    stream_of,
)
from lakehouse.delta import tables
from lakehouse.protocol import cutover_fence, gold_rejects
from lakehouse.protocol.gold_rejects import ROW
from lakehouse.spark import frames
from lakehouse.table import GOLD_REJECTS, SILVER_REJECTS
from silver.model import REJECT
from silver.state.ledger import StreamLoad, load_of
from silver.state.tables import before_load
from silver.suspects import moved

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.silver import Ordinal, Stream
    from lakehouse.run.context import Run
    from silver.rules import Rules
    from silver.state.plan import Plan
    from silver.state.request import Request
    from silver.state.watermarks import Watermarks

_SETTLED = "tidemark_settled"
NO_SEQUENCE = "no_sequence"
ALREADY_KEPT = "already_kept"


@dataclass(frozen=True)
class Choice:
    """The rows of `silver_rejects` and `gold_rejects` that a request settles; `left` counts the others by reason."""

    rows: pa.Table = field(default_factory=REJECT.empty_table)
    in_gold: pa.Table = field(default_factory=ROW.empty_table)
    left: Mapping[str, int] = field(default_factory=dict)


def select_rejects(spark: SparkSession, run: Run, request: Request, load_seq: int, rules: Rules) -> Choice:
    """Choose the rejects that a release or discard settles. A repeat of the same load chooses the same.

    A release never adds a sequence twice, across all incarnations with the same numbering.
    """
    meant, in_gold = _held_in_silver(spark, run, request, load_seq), _held_in_gold(spark, run, request, load_seq)
    if request.kind != RELEASE:
        return Choice(meant, in_gold)
    left: Counter[str] = Counter()
    kept = before_load(spark, run, silver_records(), load_seq)
    taken, elsewhere = moved.known_keys(meant, kept, rules), set[tuple[object, ...]]()
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
    return Choice(pa.Table.from_pylist(rows, REJECT), in_gold, left)


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


def stream_loads(choice: Choice, kind: str, watermarks: Watermarks) -> dict[Stream, StreamLoad]:
    """Count the settled records per stream, from the watermarks before the load, which never fall; raises as `load_of`."""
    by_stream: defaultdict[Stream, list[Ordinal]] = defaultdict(list)
    for row in choice.rows.select([*STREAM, "epoch", "first_sequence"]).to_pylist():
        by_stream[stream_of(row)].append((row["epoch"], row["first_sequence"]))
    loads = {}
    for stream, settled in by_stream.items():
        load = load_of(stream, watermarks)
        if kind == RELEASE:
            load.released = len(settled)
            _raise_ordinal(load, settled)
        else:
            load.discarded = len(settled)
        loads[stream] = load
    for row in choice.in_gold.to_pylist():
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


def mark_settled(spark: SparkSession, run: Run, plan: Plan) -> None:
    """Mark the rejects that a load settles as released or discarded, by a MERGE on held rows: a repeat changes nothing.

    Commits to silver_rejects and gold_rejects, where the load settles a row of them. AnotherWriterError if another run marked
    the same rows at the same time, UndoneError if a restore or rebuild has rolled back the load.
    """
    _mark(spark, run, plan, SILVER_REJECTS, plan.settled.select(["topic", "partition", "first_offset", "load_seq"]))
    _mark(spark, run, plan, GOLD_REJECTS, plan.settled_in_gold.select([*gold_rejects.PLACE, "gate_run_id", "load_seq"]))


def _mark(spark: SparkSession, run: Run, plan: Plan, name: str, rows: pa.Table) -> None:
    if not rows.num_rows:
        return
    first, last = (bound.as_py() for bound in pc.min_max(rows["load_seq"]).values())
    names = [each for each in rows.column_names if each != "load_seq"]
    state = RELEASED if plan.request is not None and plan.request.kind == RELEASE else DISCARDED
    is_same = " AND ".join(f"reject.{each} = settled.{each}" for each in names)
    table = run.table(name)
    settled = frames.of_arrow(spark, rows.select(names))
    cutover_fence.guarded(settled, run, plan.load_seq).createOrReplaceTempView(_SETTLED)
    try:
        tables.merge(
            spark,
            f"""
            MERGE INTO {table.sql} AS reject USING {_SETTLED} AS settled
            ON {is_same} AND reject.state = '{HELD}' AND reject.load_seq BETWEEN {first} AND {last}
            WHEN MATCHED THEN UPDATE SET state = '{state}', settled_load_seq = {plan.load_seq}
            """,
            table,
        )
    finally:
        spark.catalog.dropTempView(_SETTLED)
