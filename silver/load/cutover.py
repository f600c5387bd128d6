"""A cutover: a load that replaces all of Silver's tables, whatever state they are in, for a restore or rebuild.

The new loads are numbered above every number in any table, because Delta remembers the transactions of removed rows. The claim
has the ledger's rows of the shadow's loads, then the cutover's own, one per stream with the watermark it will have. It first
blocks all earlier claims (`lakehouse.protocol.cutover_fence`), then removes the rolled-back loads from records, rejects and
ledger, or overwrites records and rejects with the shadow's. The watermarks come last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from lakehouse.contracts.silver import ERASE, HELD, LOADS, STREAM, WATERMARK_IN_LOADS, WATERMARKS, is_retired
from lakehouse.delta import small_tables, tables
from lakehouse.delta.tables import Transaction
from lakehouse.errors import TableStateError
from lakehouse.protocol import cutover_fence
from lakehouse.run.crash_points import crash_point
from lakehouse.spark import frames
from lakehouse.table import GATE_DECISIONS, GOLD_RECORDS, GOLD_STREAM_HEALTH, SILVER_LOADS, SILVER_RECORDS, SILVER_REJECTS
from silver.state import ledger
from silver.state.ledger import load_of, shared_columns, try_claim
from silver.state.watermarks import Watermarks, last_rows

if TYPE_CHECKING:
    from lakehouse.run.context import Run
    from silver.rules import Rules
    from silver.state.request import Cutover, Request

MOST_TRIES = 20
"""How many load numbers a cutover tries: after a RESTORE of the ledger some are already used."""
_UP_TO = r'(?<="up_to_load_seq": )[0-9]+'  # the load that a request names, in its JSON
_NUMBERED = (SILVER_RECORDS, SILVER_REJECTS, SILVER_LOADS, WATERMARKS.name, GOLD_RECORDS, GOLD_STREAM_HEALTH)


def highest_load(spark: SparkSession, run: Run) -> int:
    """Return the highest load number in any of the tables; 0 if there is none."""
    seen = max(small_tables.highest(spark, run.table(name), "load_seq") for name in _NUMBERED)
    return max(seen, small_tables.highest(spark, run.table(GATE_DECISIONS), "last_load_seq"))


def marks_after(loads: DataFrame, load_seq: int) -> Watermarks:
    """Return the watermarks after a load, from the rows of `silver_loads`, without retired streams."""
    rows = last_rows(loads.where(F.col("load_seq") <= load_seq))
    return Watermarks({}).after(row for row in rows if not is_retired(row))


def claim_and_apply(  # noqa: PLR0913 -- the parts of a claim, each by name
    spark: SparkSession,
    run: Run,
    request: Request,
    cutover: Cutover,
    *,
    marks: Watermarks,
    rules: Rules,
    bronze_version: int,
    first_free: int,
    before: DataFrame | None = None,
) -> int:
    """Claim a cutover under the first free load number, apply it, and return that number; commits to all of Silver's tables.

    `marks` are the watermarks after the cutover, made with `rules` at that version of Bronze; `before` are a shadow's rows of
    `silver_loads`. AnotherWriterError if another run claimed the same load first. Raises as `apply_cutover`.
    """
    loads, versions = {stream: load_of(stream, marks) for stream in marks.rows}, (bronze_version, bronze_version)
    for load_seq in range(first_free, first_free + MOST_TRIES):
        # A restore also rolls back claims under the numbers that it tried. In a rebuild these belong to its shadow.
        claimed = cutover if cutover.shadow is not None else replace(cutover, undo_to=load_seq - 1)
        shared = shared_columns(run, rules, versions, load_seq=load_seq, request=replace(request, cutover=claimed))
        rows = frames.of_contract(spark, ledger.rows(loads, marks, shared, rules), LOADS)
        if before is not None:
            # A shadow's load numbers are not claimed one by one, so no other run may have claimed one.
            rows = cutover_fence.unclaimed(before.select(*LOADS.names).union(rows), run, cutover.undo_to)
        if try_claim(spark, run, rows, load_seq):
            crash_point("swap.claimed")
            apply_cutover(spark, run, load_seq, claimed)
            return load_seq
    raise TableStateError(
        "The ledger accepts no claim.",
        where=str(run.table(SILVER_LOADS)),
        observed=f"Delta skipped the loads {first_free} to {first_free + MOST_TRIES - 1}: it knows their transactions already",
        expected="a free load number",
        next_step="Move the silver_, gate_ and gold_ tables away, keep Bronze, and run again: it decides all of Bronze.",
    )


def unfinished(run: Run, claimed: Row | Mapping[str, Any]) -> TableStateError:
    """Return the error for a command that must wait for an unfinished cutover. Takes a row of its claim."""
    return TableStateError(
        "A restore or rebuild of Silver is unfinished.",
        where=str(run.table(SILVER_LOADS)),
        observed=f"load {claimed['load_seq']}, a {claimed['kind']}, is claimed",
        next_step="Finish it first: `tidemark run --stage silver`.",
    )


def apply_cutover(spark: SparkSession, run: Run, load_seq: int, cutover: Cutover) -> None:
    """Apply a claim; a repeat is safe. Commits to all of Silver's tables.

    AnotherWriterError if another run is finishing the same cutover, TableStateError if the shadow is gone.
    """
    loads = run.table(SILVER_LOADS)
    is_erase = F.col("kind") == ERASE
    may_erase = spark.read.table(loads.sql).where(_undone(cutover)).where(is_erase).limit(1).count() > 0
    cutover_fence.close(spark, run, load_seq, write_marker=cutover.shadow is None, with_bronze=may_erase)
    crash_point("swap.fenced")
    if cutover.shadow is None:
        _cut(spark, run, cutover)
    else:
        _replace(spark, run, load_seq, cutover)
    tables.delete(spark, loads, _undone(cutover))
    crash_point("swap.loads")
    own = spark.read.table(loads.sql).where(F.col("load_seq") == load_seq)
    columns = [F.col(other).alias(name) for name, other in WATERMARK_IN_LOADS.items()]
    marks = own.select(*STREAM, *columns, F.current_timestamp().alias("updated_at")).select(*WATERMARKS.names)
    _overwrite(run, marks, WATERMARKS.name, load_seq)
    run.report.event("silver.swapped", load_seq=load_seq, **vars(cutover))
    crash_point("swap.advanced")


def _cut(spark: SparkSession, run: Run, cutover: Cutover) -> None:
    tables.delete(spark, run.table(SILVER_RECORDS), _undone(cutover))
    crash_point("swap.records")
    rejects = run.table(SILVER_REJECTS)
    tables.delete(spark, rejects, _undone(cutover))
    again = f"UPDATE {rejects.sql} SET state = '{HELD}', settled_load_seq = NULL WHERE {_undone(cutover, 'settled_load_seq')}"  # noqa: S608 -- names and numbers, nothing from a record
    tables.merge(spark, again, rejects)
    crash_point("swap.rejects")


def _replace(spark: SparkSession, run: Run, load_seq: int, cutover: Cutover) -> None:
    shadow = in_shadow(run, cutover)
    table = shadow.table(SILVER_RECORDS)
    if not tables.exists(spark, table):
        raise TableStateError(
            "The shadow of the claimed rebuild does not exist.",
            where=str(table),
            observed="no table",
            expected="the shadow that the claim names",
            next_step="Rebuild again: `tidemark rebuild --apply` replaces the unfinished one.",
        )
    for name in (SILVER_RECORDS, SILVER_REJECTS):
        _overwrite(run, renumbered(spark, shadow, cutover, name), name, load_seq)
        crash_point(f"swap.{name.removeprefix('silver_')}")


def _overwrite(run: Run, rows: DataFrame, name: str, load_seq: int) -> None:
    tables.overwrite(rows, run.table(name), transaction=Transaction(run.app_id(name), load_seq))


def _undone(cutover: Cutover, column: str = "load_seq") -> str:
    return f"{column} > {cutover.keep_to} AND {column} <= {cutover.undo_to}"


def renumbered(spark: SparkSession, shadow: Run, cutover: Cutover, name: str) -> DataFrame:
    """Return a shadow's table with its load numbers, also in requests, moved above those it replaces."""
    rows = spark.read.table(shadow.table(name).sql)
    numbers = [column for column in ("load_seq", "settled_load_seq") if column in rows.columns]
    numbered = rows.withColumns({column: F.col(column) + cutover.undo_to for column in numbers})
    if "request" not in rows.columns:
        return numbered
    named = (F.regexp_extract("request", _UP_TO, 0).try_cast("bigint") + cutover.undo_to).cast("string")
    return numbered.withColumn("request", F.coalesce(F.regexp_replace("request", _UP_TO, named), "request"))


def in_shadow(run: Run, cutover: Cutover) -> Run:
    """Return the same run over the shadow of Silver's tables, with shared Bronze."""
    return replace(run, lakehouse=replace(run.lakehouse, shadow=cutover.shadow))
