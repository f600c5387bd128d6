"""The claim: a load's rows in the ledger, the write-ahead log. It is committed before anything else of the load."""

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
"""Load numbers that a cutover tries: a RESTORE of the ledger leaves an unknown number of them used up."""


def claim(spark: SparkSession, run: Run, rows: DataFrame, load_seq: int, *, records: int = 0) -> None:
    """Step 3. Write a load into the ledger, and check that the claim is this run's.

    Two runs that claim the same load conflict, or Delta silently skips the later one: so the claim is read back.

    Args:
        spark: The session.
        run: The run.
        rows: The load's ledger rows.
        load_seq: The load's number.
        records: How many Bronze records the load decides.

    Raises:
        AnotherWriterError: Another run claimed the load.
        TableStateError: Delta has seen the load's number, but the ledger has no claim under it.
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
    """Claim a load, see `claim`; return False if its number is used up and the ledger has no claim under it."""
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
    """The columns that have the same value in all ledger rows of a load."""
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
    """The ledger rows of a cutover that was claimed but not finished; empty if the last load is not one.

    Args:
        ledger_rows: The ledger's rows of its last loads.
        finished: The last finished load.
    """
    rows = list(ledger_rows)
    last = max((row["load_seq"] for row in rows), default=0)
    return [row for row in rows if row["load_seq"] == last and last > finished and row["kind"] in SWAPS]
