"""Whose Bronze it is: a property of the table names the pipeline that reads into it, and nobody else may.

The ledger refuses another pipeline too, but only once Bronze has committed: the first pipeline would take those records for its
own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakehouse.contracts.bronze import BRONZE
from lakehouse.delta import small_tables, tables
from lakehouse.errors import TableStateError
from lakehouse.table import BRONZE_RECORDS, SILVER_LOADS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from lakehouse.table import Table

_PROPERTY = "tidemark.pipeline"


def create_bronze(spark: SparkSession, run: Run) -> None:
    """Create `bronze_records` where it is not there, as this pipeline's; make sure that it is this pipeline's where it is.

    Commits nothing where it is another's. A table that was made before the name was kept with it belongs to the pipeline that
    the ledger names, or else to the first that comes: it is noted then, in one commit.

    Raises:
        TableStateError: It is another pipeline's.
        ContractError: The table is there with other columns.
    """
    table = run.table(BRONZE_RECORDS)
    owner = require(spark, run)  # before a column is added, which is a commit
    if owner is None:
        require_own(run, _claimers(spark, run), where=table)
    tables.create(spark, table, replace(BRONZE, properties={**BRONZE.properties, _PROPERTY: run.pipeline}))
    if owner is None and require(spark, run) is None:
        tables.set_property(spark, table, _PROPERTY, run.pipeline)
        require(spark, run)


def require(spark: SparkSession, run: Run) -> str | None:
    """Make sure that Bronze, where it is there, is not another pipeline's; commits nothing.

    Returns:
        The pipeline that it names; None where it names none, or is not there.

    Raises:
        TableStateError: It is another pipeline's.
    """
    table = run.table(BRONZE_RECORDS)
    if not tables.exists(spark, table):
        return None
    owner = tables.properties(spark, table).get(_PROPERTY)
    require_own(run, _claimers(spark, run) if owner is None else {owner}, where=table)
    return owner


def require_own(run: Run, owners: Iterable[str], *, where: Table) -> None:
    """Make sure that tables that name these pipelines are not another's.

    A pipeline's name is part of what keeps a repeated write from counting twice.

    Raises:
        TableStateError: They are.
    """
    if others := set(owners) - {run.pipeline}:
        raise TableStateError(
            "These tables are another pipeline's; nothing was written.",
            where=str(where),
            observed=f"pipeline {', '.join(sorted(others))}",
            expected=f"pipeline {run.pipeline}",
            next_step="Put `pipeline:` back to that name, or point `lakehouse` at a root of its own.",
        )


def _claimers(spark: SparkSession, run: Run) -> set[str]:
    """The pipelines that the ledger names."""
    ledger = run.table(SILVER_LOADS)
    if not tables.exists(spark, ledger):
        return set()
    return {row["pipeline"] for row in small_tables.read(spark, ledger, ("pipeline",))}
