"""A swap: a load that puts all of Silver's tables into another state, whatever state they are in.

A restore takes them back to an earlier load. A rebuild puts the loads of a shadow in the place of all others. Numbers never
come twice: the swap's own load, and the shadow's before it, are numbered above all that any of the tables has seen, because
Delta remembers the transactions of rows that are gone.

3. claim:   append the ledger's rows: the shadow's loads under their new numbers, then the swap's own, one for each stream, with
            the watermark that it is to have. From here on the swap is finished, whoever does it, whatever the tables say.
   fence:   nothing that was claimed before is carried out any more, see `lakehouse.protocol.swap_fence`.
4. silver:  the undone loads' rows go; the shadow's come.
5. rejects: the same. What an undone load had settled waits again.
   ledger:  the undone loads' rows go.
6. advance: the watermark table holds the swap's rows, and no others. Last.

Gold follows: at once in a restore, with the next gate that passes after a rebuild (`pipelines.recover.restore`,
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

_NUMBERED = (SILVER_RECORDS, SILVER_REJECTS, SILVER_LOADS, SILVER_WATERMARKS, GOLD_RECORDS, GOLD_STREAM_HEALTH)


def highest_load(spark: SparkSession, run: Run) -> int:
    """The highest number of a load that any of the tables has seen; 0 where none is there."""
    seen = max(small_tables.highest(spark, run.table(name), "load_seq") for name in _NUMBERED)
    return max(seen, small_tables.highest(spark, run.table(GATE_DECISIONS), "last_load_seq"))


def marks_after(loads: DataFrame, load_seq: int) -> Watermarks:
    """The watermarks as the ledger's loads up to one have left them, without the streams that were retired by then.

    Args:
        loads: Rows of `silver_loads`.
        load_seq: The last load that counts.
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
    """Step 3. Claim a swap; commits to silver_loads.

    Args:
        spark: The session.
        run: The run.
        request: What is asked for. Of a restore the claim says that all loads up to its own number go.
        marks: The watermarks after the swap.
        rules: The rules that they were made by.
        pinned: The Bronze range, of no records, that ends where the last load before the swap ended.
        first_free: The first number that is not taken.
        before: Rows of `silver_loads` that come with the swap: a shadow's.

    Returns:
        The swap's number.

    Raises:
        AnotherWriterError: Another run claimed the same load first.
        TableStateError: The ledger takes none of the next numbers.
    """
    loads = {stream: load_of(stream, marks) for stream in marks.rows}
    for load_seq in range(first_free, first_free + MOST_TRIES):
        asked = replace(request, swap=undoing_up_to(request.swap, load_seq - 1)) if request.swap else request
        shared = shared_columns(run, rules, pinned, load_seq=load_seq, request=asked)
        rows = frames.of_contract(spark, ledger.rows(loads, marks, shared, rules), LOADS)
        if before is not None and request.swap is not None:
            # The numbers of a shadow's loads are not claimed one by one: nobody else may have taken one.
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
    """The error of what cannot be done before a swap is finished. Takes a row of its claim."""
    return TableStateError(
        "Silver's tables are being put into another state, and that is not finished.",
        where=str(run.table(SILVER_LOADS)),
        observed=f"load {claimed['load_seq']}, a {claimed['kind']}, is claimed",
        next_step="Finish it first: `tidemark run --stage silver`.",
    )


def carry_out(spark: SparkSession, run: Run, load_seq: int, swap: Swap) -> None:
    """Steps 4 to 6: what a claim says, done or done again. Commits to all of Silver's tables.

    Raises:
        AnotherWriterError: Another run is finishing the same swap.
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
    """Take the undone loads' rows out; let wait again what they settled."""
    tables.delete(spark, run.table(SILVER_RECORDS), _undone(swap))
    crash_point("swap.records")
    rejects = run.table(SILVER_REJECTS)
    tables.delete(spark, rejects, _undone(swap))
    again = f"UPDATE {rejects.sql} SET state = '{HELD}', settled_load_seq = NULL WHERE {_undone(swap, 'settled_load_seq')}"  # noqa: S608 -- names and numbers, nothing from a record
    tables.merge(spark, again, rejects)
    crash_point("swap.rejects")


def _replace(spark: SparkSession, run: Run, load_seq: int, swap: Swap, shadow: str) -> None:
    """Put the shadow's rows in the place of all there are. A repeat is skipped by Delta, also after later loads."""
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
    """A restore also undoes what was claimed under numbers that it found used up. Those before a rebuild are its shadow's."""
    return swap if swap.shadow is not None else replace(swap, undo_to=load_seq)


def _undone(swap: Swap, column: str = "load_seq") -> str:
    return f"{column} > {swap.keep_to} AND {column} <= {swap.undo_to}"


def renumbered(spark: SparkSession, run: Run, swap: Swap, shadow: str, name: str) -> DataFrame:
    """A shadow's table, its loads numbered on from those that it replaces."""
    rows = spark.read.table(in_shadow(run, shadow).table(name).sql)
    numbers = [column for column in ("load_seq", "settled_load_seq") if column in rows.columns]
    return rows.withColumns({column: F.col(column) + swap.undo_to for column in numbers})


def in_shadow(run: Run, shadow: str) -> Run:
    """The same run over a shadow of Silver's tables: Bronze is the same, nothing that it writes is seen."""
    return replace(run, lakehouse=replace(run.lakehouse, shadow=shadow))
