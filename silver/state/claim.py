"""The claim: a load's rows in the ledger, the write-ahead log. It is committed before anything else of the load."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql import functions as F

from lakehouse.contracts.silver import CUTOVERS, LOADS, RECORDS
from lakehouse.delta import tables
from lakehouse.delta.tables import Transaction
from lakehouse.errors import AnotherWriterError
from lakehouse.run.crash_points import crash_point
from lakehouse.table import SILVER_LOADS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.run.context import Run
    from silver.rules import Rules
    from silver.state.plan import BronzeRange
    from silver.state.request import Request

SHARED = (
    *("load_seq", "kind", "pipeline", "bronze_after_version", "bronze_to_version", "rules_fingerprint", "rules", "request"),
    *("reason", "requested_by", "run_id", "claimed_at"),
)


def try_claim(spark: SparkSession, run: Run, rows: DataFrame, load_seq: int, *, records: int = 0) -> bool:
    """Step 3. Append a load's ledger rows; False if its number is used up and the ledger has no claim under it.

    Two runs that claim the same load conflict, or Delta silently skips the later one: so the claim is read back.

    Raises:
        AnotherWriterError: Another run claimed the load.
    """
    table, transaction = run.table(SILVER_LOADS), Transaction(run.app_id(SILVER_LOADS), load_seq)
    tables.append(rows, table, LOADS, transaction=transaction, metadata=run.run_id)
    last = tables.last_append(table, transaction)
    if last and last.metadata:
        standing = {last.metadata}
    else:
        claims = spark.read.table(table.sql).where(F.col("load_seq") == load_seq).select("run_id").collect()
        standing = {row["run_id"] for row in claims}
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


def shared_columns(
    run: Run, rules: Rules, pinned: BronzeRange, *, load_seq: int, request: Request | None = None
) -> dict[str, Any]:
    """Return the ledger columns that all rows of a load share."""
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


_Row = TypeVar("_Row", bound="Mapping[str, Any]")


def open_cutover(ledger: Iterable[_Row], finished: int) -> list[_Row]:
    """Return the ledger's rows of its last load if that is an unfinished cutover; otherwise empty."""
    rows = list(ledger)
    last = max((row["load_seq"] for row in rows), default=0)
    return [row for row in rows if row["load_seq"] == last and last > finished and row["kind"] in CUTOVERS]
