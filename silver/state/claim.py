"""The claim: a load's rows in the ledger, the write-ahead log. It stands before anything else of the load is written."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql import Row
from pyspark.sql import functions as F

from lakehouse.contracts.silver import LOADS, RECORDS, SWAPS
from lakehouse.delta import tables
from lakehouse.delta.tables import Transaction
from lakehouse.errors import AnotherWriterError, TableStateError
from lakehouse.run.crash_points import crash_point
from lakehouse.table import (
    SILVER_LOADS,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.run.context import Run
    from lakehouse.table import Table
    from silver.rules import Rules
    from silver.state.plan import BronzeRange
    from silver.state.request import Request

MOST_TRIES = 20
"""Numbers that a swap tries: those that a RESTORE of the ledger took back are used up, and nothing says how many they are."""


def claim(spark: SparkSession, run: Run, rows: DataFrame, load_seq: int, *, records: int = 0) -> None:
    """Step 3. Write a load into the ledger, and make sure that the claim which stands is this run's.

    Two runs that claim the same load conflict, or the later one is skipped by Delta without a word: hence the reading back.

    Args:
        spark: The session.
        run: The run.
        rows: The load's rows of the ledger.
        load_seq: The load's number.
        records: How many Bronze records it is of.

    Raises:
        AnotherWriterError: The load is another run's.
        TableStateError: Delta has seen the number, and no claim stands under it.
    """
    if not try_claim(spark, run, rows, load_seq, records=records):
        raise TableStateError(
            f"Load {load_seq} was claimed before, and its claim is gone; nothing was written.",
            where=str(run.table(SILVER_LOADS)),
            observed=f"Delta skipped the claim: the table knows transaction {load_seq} already",
            expected="a claim",
            next_step="The ledger was put back by RESTORE, which keeps the transactions' numbers. `tidemark restore --to "
            f"{load_seq - 1}` takes up from there under a number that is free.",
        )


def try_claim(spark: SparkSession, run: Run, rows: DataFrame, load_seq: int, *, records: int = 0) -> bool:
    """Claim a load, see `claim`; False where its number is used up and no claim stands under it."""
    table, transaction = run.table(SILVER_LOADS), Transaction(run.app_id(SILVER_LOADS), load_seq)
    tables.append(rows, table, LOADS, transaction=transaction, metadata=run.run_id)
    last = tables.last_append(table, transaction)
    standing = {last.metadata} if last and last.metadata else _claimers(spark, table, load_seq)
    if standing and standing != {run.run_id}:
        raise AnotherWriterError(
            f"Another run claimed load {load_seq} first; nothing of this one was written.",
            where=str(table),
            observed=", ".join(sorted(standing)),
            expected=run.run_id,
            next_step="Nothing to do: the next run continues from what the other one wrote.",
        )
    if standing:
        run.report.event("silver.claimed", load_seq=load_seq, records=records)
        crash_point("silver.claimed")
    return bool(standing)


def _claimers(spark: SparkSession, table: Table, load_seq: int) -> set[str]:
    claims = spark.read.table(table.sql).where(F.col("load_seq") == load_seq).select("run_id").collect()
    return {row["run_id"] for row in claims}


def shared_columns(
    run: Run, rules: Rules, pinned: BronzeRange, *, load_seq: int, request: Request | None = None
) -> dict[str, object]:
    """What all ledger rows of a load share."""
    return {
        "load_seq": load_seq,
        "kind": request.kind if request else RECORDS,
        "pipeline": run.pipeline,
        "bronze_after_version": pinned.after_version,
        "bronze_to_version": pinned.to_version,
        "rules_fingerprint": rules.fingerprint,
        "rules": rules.to_json(),
        "request": request.to_json() if request else None,
        "reason": request.reason if request else None,
        "requested_by": request.requested_by if request else None,
        "run_id": run.run_id,
        "claimed_at": datetime.now(UTC),
    }


_Row = TypeVar("_Row", Row, dict[str, Any])


def open_claim(ledger_rows: Iterable[_Row], finished: int) -> list[_Row]:
    """The rows of a swap that was claimed and not finished; none where there is none.

    Args:
        ledger_rows: The last loads of the ledger.
        finished: The last finished load.
    """
    rows = list(ledger_rows)
    last = max((row["load_seq"] for row in rows), default=0)
    return [row for row in rows if row["load_seq"] == last and last > finished and row["kind"] in SWAPS]
