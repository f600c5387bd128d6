"""A cutover (class `Swap`): a load that replaces the state of all of Silver's tables, whatever state they are in.

A restore takes them back to an earlier load. A rebuild replaces all loads with those of a shadow. Load numbers are never
reused: the cutover's own load, and the shadow's before it, are numbered above every number that any of the tables has seen,
because Delta remembers the transactions of rows that are gone.

3. claim:   append the ledger's rows: the shadow's loads under their new numbers, then the cutover's own, one per stream with
            the watermark it will have. From here on any run can finish the cutover, whatever the tables hold.
   fence:   block all earlier claims, see `lakehouse.protocol.swap_fence`.
4. silver:  remove the rows of rolled-back loads; add the shadow's.
5. rejects: the same. What a rolled-back load had settled is held again.
   ledger:  remove the rows of rolled-back loads.
6. advance: overwrite the watermark table with the cutover's rows. Last.

Gold follows: at once after a restore, with the next gate that passes after a rebuild (`pipelines.recover.restore`,
`gold.publish`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql import functions as F

from lakehouse.contracts.silver import ERASE, HELD, LOADS, STREAM, WATERMARK_IN_LOADS, WATERMARKS, is_retired
from lakehouse.delta import small_tables, tables
from lakehouse.delta.tables import Transaction
from lakehouse.errors import TableStateError
from lakehouse.protocol import swap_fence
from lakehouse.run.crash_points import crash_point
from lakehouse.spark import frames
from lakehouse.table import (
    GATE_DECISIONS,
    GOLD_RECORDS,
    GOLD_STREAM_HEALTH,
    SILVER_LOADS,
    SILVER_RECORDS,
    SILVER_REJECTS,
    SILVER_WATERMARKS,
)
from silver.state import ledger
from silver.state.claim import MOST_TRIES, shared_columns, try_claim
from silver.state.ledger import load_of
from silver.state.watermarks import Watermarks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.run.context import Run
    from silver.rules import Rules
    from silver.state.plan import BronzeRange
    from silver.state.request import Request, Swap

_UP_TO = r'(?<="up_to_load_seq": )[0-9]+'
"""The load that a request names, in its JSON; a text of a person's has its quotes escaped there."""
_NUMBERED = (SILVER_RECORDS, SILVER_REJECTS, SILVER_LOADS, SILVER_WATERMARKS, GOLD_RECORDS, GOLD_STREAM_HEALTH)


def highest_load(spark: SparkSession, run: Run) -> int:
    """Return the highest load number in any of the tables; 0 if there is none."""
    seen = max(small_tables.highest(spark, run.table(name), "load_seq") for name in _NUMBERED)
    return max(seen, small_tables.highest(spark, run.table(GATE_DECISIONS), "last_load_seq"))


def marks_after(loads: DataFrame, load_seq: int) -> Watermarks:
    """Return the watermarks after a load, from the ledger, without the streams retired by then.

    Args:
        loads: Rows of `silver_loads`.
        load_seq: The load.
    """
    names = [*STREAM, "kind", *dict.fromkeys(WATERMARK_IN_LOADS.values())]
    last = F.max_by(F.struct(*names), "load_seq").alias("last")
    rows = loads.where(F.col("load_seq") <= load_seq).groupBy(*STREAM).agg(last).select("last.*").toArrow().to_pylist()
    return Watermarks({}).after(row for row in rows if not is_retired(row))


def claim(  # noqa: PLR0913 -- what a claim is made of, each by name
    spark: SparkSession,
    run: Run,
    request: Request,
    *,
    marks: Watermarks,
    rules: Rules,
    pinned: BronzeRange,
    first_free: int,
    before: DataFrame | None = None,
) -> int:
    """Step 3. Claim a cutover; commits to silver_loads.

    Args:
        spark: The session.
        run: The run.
        request: The request. A restore's claim rolls back every load between `keep_to` and its own number.
        marks: The watermarks after the cutover.
        rules: The rules that they were made with.
        pinned: The Bronze range: empty, at the Bronze version that the last load behind `marks` ended with.
        first_free: The first free load number.
        before: The shadow's rows of `silver_loads`; None for a restore.

    Returns:
        The cutover's load number.

    Raises:
        AnotherWriterError: Another run claimed the same load first.
        TableStateError: The ledger accepts none of the next numbers.
    """
    loads = {stream: load_of(stream, marks) for stream in marks.rows}
    for load_seq in range(first_free, first_free + MOST_TRIES):
        asked = replace(request, swap=undoing_up_to(request.swap, load_seq - 1)) if request.swap else request
        shared = shared_columns(run, rules, pinned, load_seq=load_seq, request=asked)
        rows = frames.of_contract(spark, ledger.rows(loads, marks, shared, rules), LOADS)
        if before is not None and request.swap is not None:
            # A shadow's load numbers are not claimed one by one, so no other run may have claimed one.
            rows = swap_fence.unclaimed(before.select(*LOADS.names).union(rows), run, request.swap.undo_to)
        if try_claim(spark, run, rows, load_seq):
            crash_point("swap.claimed")
            return load_seq
    raise TableStateError(
        "The ledger takes no claim.",
        where=str(run.table(SILVER_LOADS)),
        observed=f"Delta skipped the loads {first_free} to {first_free + MOST_TRIES - 1}: it knows their transactions already",
        expected="a number that is free",
        next_step="Move the silver_, gate_ and gold_ tables away, keep Bronze, and run again: all is decided anew from Bronze.",
    )


def unfinished(run: Run, claimed: Row | Mapping[str, Any]) -> TableStateError:
    """Return the error for whatever must wait for an unfinished cutover. Takes a row of its claim."""
    return TableStateError(
        "Silver's tables are being put into another state, and that is not finished.",
        where=str(run.table(SILVER_LOADS)),
        observed=f"load {claimed['load_seq']}, a {claimed['kind']}, is claimed",
        next_step="Finish it first: `tidemark run --stage silver`.",
    )


def carry_out(spark: SparkSession, run: Run, load_seq: int, swap: Swap) -> None:
    """Steps 4 to 6. Apply a claim; a repeat is safe. Commits to all of Silver's tables.

    Raises:
        AnotherWriterError: Another run is finishing the same cutover.
        TableStateError: The shadow is gone.
    """
    undone = spark.read.table(run.table(SILVER_LOADS).sql).where(_undone(swap))
    may_erase = undone.where(F.col("kind") == ERASE).limit(1).count() > 0
    swap_fence.close(spark, run, load_seq, is_noted=swap.shadow is None, with_bronze=may_erase)
    crash_point("swap.fenced")
    if swap.shadow is None:
        _cut(spark, run, swap)
    else:
        _replace(spark, run, load_seq, swap, swap.shadow)
    tables.delete(spark, run.table(SILVER_LOADS), _undone(swap))
    crash_point("swap.loads")
    loads = spark.read.table(run.table(SILVER_LOADS).sql).where(F.col("load_seq") == load_seq)
    columns = [F.col(other).alias(name) for name, other in WATERMARK_IN_LOADS.items()]
    marks = loads.select(*STREAM, *columns, F.current_timestamp().alias("updated_at")).select(*WATERMARKS.names)
    _overwrite(run, marks, SILVER_WATERMARKS, load_seq)
    run.report.event("silver.swapped", load_seq=load_seq, keep_to=swap.keep_to, undo_to=swap.undo_to, shadow=swap.shadow)
    crash_point("swap.advanced")


def _cut(spark: SparkSession, run: Run, swap: Swap) -> None:
    """Delete the rows of rolled-back loads; set what they settled back to held."""
    tables.delete(spark, run.table(SILVER_RECORDS), _undone(swap))
    crash_point("swap.records")
    rejects = run.table(SILVER_REJECTS)
    tables.delete(spark, rejects, _undone(swap))
    again = f"UPDATE {rejects.sql} SET state = '{HELD}', settled_load_seq = NULL WHERE {_undone(swap, 'settled_load_seq')}"  # noqa: S608 -- names and numbers, nothing from a record
    tables.merge(spark, again, rejects)
    crash_point("swap.rejects")


def _replace(spark: SparkSession, run: Run, load_seq: int, swap: Swap, shadow: str) -> None:
    """Overwrite all rows with the shadow's. Delta skips a repeat, even after later loads."""
    table = in_shadow(run, shadow).table(SILVER_RECORDS)
    if not tables.exists(spark, table):
        raise TableStateError(
            "A rebuild was claimed and not finished, and what it was to put in place is gone.",
            where=str(table),
            observed="no table",
            expected="the shadow that the claim names",
            next_step="Rebuild once more: `tidemark rebuild --apply` takes the place of the unfinished one.",
        )
    for name in (SILVER_RECORDS, SILVER_REJECTS):
        _overwrite(run, renumbered(spark, run, swap, shadow, name), name, load_seq)
        crash_point(f"swap.{name.removeprefix('silver_')}")


def _overwrite(run: Run, rows: DataFrame, name: str, load_seq: int) -> None:
    tables.overwrite(rows, run.table(name), transaction=Transaction(run.app_id(name), load_seq))


def undoing_up_to(swap: Swap, load_seq: int) -> Swap:
    """Let a restore also roll back claims under numbers that it found used up. Before a rebuild these are its shadow's."""
    return swap if swap.shadow is not None else replace(swap, undo_to=load_seq)


def _undone(swap: Swap, column: str = "load_seq") -> str:
    return f"{column} > {swap.keep_to} AND {column} <= {swap.undo_to}"


def renumbered(spark: SparkSession, run: Run, swap: Swap, shadow: str, name: str) -> DataFrame:
    """Return a shadow's table with its loads numbered on from those it replaces, also where a request names one."""
    rows = spark.read.table(in_shadow(run, shadow).table(name).sql)
    numbers = [column for column in ("load_seq", "settled_load_seq") if column in rows.columns]
    numbered = rows.withColumns({column: F.col(column) + swap.undo_to for column in numbers})
    if "request" not in rows.columns:
        return numbered
    named = (F.regexp_extract("request", _UP_TO, 0).try_cast("bigint") + swap.undo_to).cast("string")
    return numbered.withColumn("request", F.coalesce(F.regexp_replace("request", _UP_TO, named), "request"))


def in_shadow(run: Run, shadow: str) -> Run:
    """Return the same run over a shadow of Silver's tables: Bronze is shared, and what the run writes is not visible."""
    return replace(run, lakehouse=replace(run.lakehouse, shadow=shadow))
