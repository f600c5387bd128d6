"""Ownership of Bronze: a table property names the only pipeline that may ingest into it.

The ledger refuses another pipeline too, but only after Bronze has committed. The first pipeline would then treat those
records as its own.
"""

from collections.abc import Iterable
from dataclasses import replace

from pyspark.sql import SparkSession

from lakehouse.contracts.bronze import BRONZE, OWNER
from lakehouse.contracts.silver import LOADS
from lakehouse.delta import small_tables, tables
from lakehouse.errors import TableStateError
from lakehouse.run.context import Run
from lakehouse.table import BRONZE_RECORDS, SILVER_LOADS, Table


def create_bronze(spark: SparkSession, run: Run) -> None:
    """Create `bronze_records` as this pipeline's, or check that the existing table is.

    A table without the property belongs to the pipeline that the ledger names, or else to the first pipeline that runs. One
    commit then records the owner. Raises a `TableStateError` if the table is another pipeline's, and as `tables.create`.
    """
    table = run.table(BRONZE_RECORDS)
    owner = read_owner(spark, run)  # first, because adding a column is a commit
    tables.create(spark, table, replace(BRONZE, properties={**BRONZE.properties, OWNER: run.pipeline}))
    if owner is None and read_owner(spark, run) is None:
        tables.set_properties(spark, table, {OWNER: run.pipeline})
        read_owner(spark, run)


def read_owner(spark: SparkSession, run: Run) -> str | None:
    """Return the pipeline that Bronze names, or None; raise a `TableStateError` if Bronze, or else the ledger, is another's."""
    table = run.table(BRONZE_RECORDS)
    owner = tables.properties(spark, table).get(OWNER) if tables.exists(spark, table) else None
    if owner is not None:
        owners = {owner}
    else:
        owners = {row["pipeline"] for row in small_tables.read(spark, run.table(SILVER_LOADS), ("pipeline",), contract=LOADS)}
    require_own(run, owners, where=table)
    return owner


def require_own(run: Run, owners: Iterable[str], *, where: Table) -> None:
    """Raise a `TableStateError` for another owner: a pipeline's name is part of the idempotency key of its writes."""
    if others := set(owners) - {run.pipeline}:
        raise TableStateError(
            "These tables are another pipeline's; nothing was written.",
            where=str(where),
            observed=f"pipeline {', '.join(sorted(others))}",
            expected=f"pipeline {run.pipeline}",
            next_step="Put `pipeline:` back to that name, or point `lakehouse` at a root of its own.",
        )
