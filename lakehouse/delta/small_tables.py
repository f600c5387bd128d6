"""The small tables that hold a pipeline's state, as rows on the driver: without Spark if they are in a local folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from lakehouse.delta import local_files, tables
from lakehouse.spark import frames

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakehouse.contracts.contract import Contract
    from lakehouse.delta.local_files import From
    from lakehouse.table import Table

Row = dict[str, Any]


def read(
    spark: SparkSession, table: Table, columns: Sequence[str], *, start: From | None = None, version: int | None = None
) -> list[Row]:
    """Return some rows of a table, in no particular order; see `read_arrow`."""
    rows: list[Row] = read_arrow(spark, table, columns, start=start, version=version).to_pylist()
    return rows


def read_arrow(  # noqa: PLR0913 -- what is read, each by name
    spark: SparkSession,
    table: Table,
    columns: Sequence[str],
    *,
    start: From | None = None,
    version: int | None = None,
    contract: Contract | None = None,
) -> pa.Table:
    """Return rows of a table as Arrow, for tables of many streams. With a `contract`, a table that does not exist has none."""
    folder = table.local_folder
    rows = local_files.rows(folder, columns, start=start, version=version) if folder is not None else None
    if rows is None:
        if contract is not None and not tables.exists(spark, table):
            return frames.arrow_schema(contract).empty_table().select(list(columns))
        whole = spark.read.table(table.sql) if version is None else tables.read(spark, table, version=version)
        asked = whole if start is None else whole.where(F.col(start[0]) >= start[1])
        rows = asked.select(*columns).toArrow()
    return rows


def last(spark: SparkSession, table: Table, columns: Sequence[str], *, by: str) -> list[Row]:
    """Return the rows with the highest value in a column, which must be one of those read; none if the table is empty."""
    folder = table.local_folder
    rows = local_files.last(folder, columns, by=by) if folder is not None else None
    if rows is None:
        whole = spark.read.table(table.sql).select(*columns)
        highest = whole.select(F.max(by).alias(by)).toArrow()[by][0].as_py()
        rows = whole.where(F.col(by) == F.lit(highest)).toArrow()
    found: list[Row] = rows.to_pylist()
    return found


def may_hold(spark: SparkSession, table: Table, column: str, text: str) -> bool:
    """Whether a row may have a short text in a column that is never null; False is certain. The table must exist."""
    if (folder := table.local_folder) is not None and (found := local_files.may_hold(folder, column, text)) is not None:
        return found
    return not spark.read.table(table.sql).where(F.col(column) == text).isEmpty()


def highest(spark: SparkSession, table: Table, column: str) -> int:
    """Return the highest number in a column, by the files' statistics if they say; 0 if there is none, or no table."""
    if (folder := table.local_folder) is not None and (found := local_files.highest(folder, column)) is not None:
        return found
    rows = tables.found(spark, table)
    return 0 if rows is None else int(rows.agg(F.coalesce(F.max(column), F.lit(0))).collect()[0][0])
