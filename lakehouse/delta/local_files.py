"""A small Delta table in a local folder, read without Spark: by delta-rs, which finds its files, and Arrow, which reads them.

A query of a few rows costs Spark two jobs or more, for the table's log and for its files, and each of them more than the rows.
What cannot be read here, for whatever reason, is left to Spark, which says what is wrong: see `lakehouse.delta.small_tables`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_ERRORS = (DeltaError, pa.ArrowException, OSError, KeyError)
_FORMAT = ds.ParquetFileFormat(
    # As Spark's own reading does, see `lakehouse.spark.session`.
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)

From = tuple[str, int]
"""A whole-number column, and its lowest value that is asked for."""


def rows(folder: Path, columns: Sequence[str], *, start: From | None = None, version: int | None = None) -> pa.Table | None:
    """The table's rows, in no order.

    Args:
        folder: The table's folder.
        columns: The columns.
        start: Which rows; all where it is None. Files below it are not opened, by the log's statistics.
        version: The table's version; the latest where it is None.

    Returns:
        The rows; None where the table is not there or cannot be read here.
    """
    with suppress(*_ERRORS):
        table = _open(folder, version)
        return _read(folder, table, _files(table, start), columns, pc.field(start[0]) >= start[1] if start else None)
    return None


def last(folder: Path, columns: Sequence[str], *, by: str) -> pa.Table | None:
    """The rows whose value in a column is the highest; opens the files that may hold it, by the log's statistics.

    Returns:
        The rows, none where the table has none; None where the table is not there or cannot be read here.
    """
    with suppress(*_ERRORS):
        table = _open(folder)
        files = _statistics(table, "path", f"max.{by}")
        known = [value for _, value in files if value is not None]
        # Of a timestamp the log says the millisecond only, of all files alike.
        rows = _read(folder, table, [file for file, value in files if value in (None, max(known, default=None))], columns)
        return rows.filter(pc.equal(rows[by], pc.max(rows[by]))) if rows.num_rows else rows
    return None


def highest(folder: Path, column: str) -> int | None:
    """The highest number in a column, by the log's statistics; 0 where the table has no row.

    Returns:
        The number; None where the table is not there, or its log does not say it.
    """
    with suppress(*_ERRORS):
        found = _statistics(_open(folder), f"max.{column}", f"null_count.{column}", "num_records")
        values = [value for value, nulls, records in found if records is None or nulls is None or nulls < records]
        return None if None in values else max(values, default=0)
    return None


def may_hold(folder: Path, column: str, text: str) -> bool | None:
    """Whether a row may have a short text in a column, by the log's statistics.

    Returns:
        False where no file can hold it; None where the table is not there, or its log does not say it.
    """
    with suppress(*_ERRORS):
        found = _statistics(_open(folder), f"min.{column}", f"max.{column}")
        return None if any(None in bounds for bounds in found) else any(low <= text <= high for low, high in found)
    return None


def properties(folder: Path) -> dict[str, str] | None:
    """The table's properties; None where it is not there or its log cannot be read here."""
    with suppress(*_ERRORS):
        return dict(DeltaTable(folder).metadata().configuration)
    return None


def last_transaction(folder: Path, app_id: str) -> int | None:
    """The last version of an application that the table knows, however far back its commit is; -1 for none.

    Returns:
        The version; None where the table is not there or its log cannot be read here.
    """
    with suppress(*_ERRORS):
        version = DeltaTable(folder).transaction_version(app_id)
        return -1 if version is None else version
    return None


def _open(folder: Path, version: int | None = None) -> DeltaTable:
    """A table whose files hold its rows as they are: no deletion vector takes any out, no column has another name.

    Raises:
        DeltaError: It is not there, or another one.
    """
    table = DeltaTable(folder, version=version)
    if table.protocol().min_reader_version > 1:
        raise DeltaError("Its files alone do not say what its rows are.")
    return table


def _read(
    folder: Path, table: DeltaTable, files: Sequence[str], columns: Sequence[str], is_asked: pc.Expression | None = None
) -> pa.Table:
    schema = pa.schema(table.schema().to_arrow())
    paths = [str(folder / unquote(file)) for file in files]
    return ds.dataset(paths, schema=schema, format=_FORMAT).to_table(columns=list(columns), filter=is_asked)


def _files(table: DeltaTable, start: From | None) -> list[str]:
    if start is None:
        return [file for (file,) in _statistics(table, "path")]
    column, lowest = start
    return [file for file, value in _statistics(table, "path", f"max.{column}") if value is None or value >= lowest]


def _statistics(table: DeltaTable, *names: str) -> list[tuple[Any, ...]]:
    """What the log says of each file; None for what it does not say."""
    found = pa.table(table.get_add_actions(flatten=True))
    nothing = [None] * found.num_rows
    columns = [found[name].to_pylist() if name in found.column_names else nothing for name in names]
    return list(zip(*columns, strict=True))
