"""Reads a small Delta table in a local folder without Spark: delta-rs finds its files, Arrow reads them.

A query costs Spark two jobs or more, and each costs more than a few rows. A function returns None for a table that does not
exist or cannot be read here: Spark then says what is wrong, see `lakehouse.delta.small_tables`.
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

ERRORS = (DeltaError, pa.ArrowException, OSError, KeyError)
"""The errors of a table that does not exist or cannot be read here."""
_FORMAT = ds.ParquetFileFormat(
    # As Spark does, see `lakehouse.spark.session`.
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)

_FEATURES = {"2", "appendOnly", "invariants", "changeDataFeed", "domainMetadata", "clustering"}  # 2: all of that version
From = tuple[str, int]
"""A whole-number column, and its lowest value to return."""


def rows(folder: Path, columns: Sequence[str], *, start: From | None = None, version: int | None = None) -> pa.Table | None:
    """Return the table's rows, in no particular order. Files that lie below `start` by the log's statistics are not opened."""
    with suppress(*ERRORS):
        table = opened(folder, version)
        return _read(folder, table, _files(table, start), columns, pc.field(start[0]) >= start[1] if start else None)
    return None


def last(folder: Path, columns: Sequence[str], *, by: str) -> pa.Table | None:
    """Return the rows with the highest value in a column. Opens only files that may hold it by the log's statistics."""
    with suppress(*ERRORS):
        table = opened(folder)
        files = _statistics(table, "path", f"max.{by}")
        known = [value for _, value in files if value is not None]
        # The log keeps timestamps to the millisecond only, for all files alike.
        rows = _read(folder, table, [file for file, value in files if value in (None, max(known, default=None))], columns)
        return rows.filter(pc.equal(rows[by], pc.max(rows[by]))) if rows.num_rows else rows
    return None


def highest(folder: Path, column: str) -> int | None:
    """Return the highest number in a column by the log's statistics, 0 if no row has one; None if the log does not say."""
    with suppress(*ERRORS):
        found = _statistics(opened(folder), f"max.{column}", f"null_count.{column}", "num_records")
        values = [value for value, nulls, records in found if records is None or nulls is None or nulls < records]
        return None if None in values else max(values, default=0)
    return None


def may_hold(folder: Path, column: str, text: str) -> bool | None:
    """Whether a row may have a short text in a column, by the log's statistics; None if the log does not say."""
    with suppress(*ERRORS):
        found = _statistics(opened(folder), f"min.{column}", f"max.{column}")
        return None if any(None in bounds for bounds in found) else any(low <= text <= high for low, high in found)
    return None


def properties(folder: Path) -> dict[str, str] | None:
    """Return the table's properties."""
    with suppress(*ERRORS):
        return dict(DeltaTable(folder).metadata().configuration)
    return None


def has_own_features(folder: Path) -> bool:
    """Whether the table needs only the Delta features of Tidemark's tables, and has that of a change feed if it is on."""
    with suppress(*ERRORS):
        needed, has_feed = DeltaTable(folder).protocol(), (properties(folder) or {}).get("delta.enableChangeDataFeed") == "true"
        features = {*(needed.writer_features or [str(needed.min_writer_version)])}
        return needed.min_reader_version == 1 and features <= _FEATURES and has_feed <= ("changeDataFeed" in features)
    return False


def sizes(folder: Path) -> list[int] | None:
    """Return the bytes of each data file."""
    with suppress(*ERRORS):
        return [size for (size,) in _statistics(DeltaTable(folder), "size_bytes")]
    return None


def described(folder: Path) -> tuple[list[int], dict[str, str], tuple[str, ...]] | None:
    """Return the bytes of each data file, the table's properties and its columns, of one version."""
    with suppress(*ERRORS):
        table = DeltaTable(folder)
        sizes = [size for (size,) in _statistics(table, "size_bytes")]
        return sizes, dict(table.metadata().configuration), tuple(field.name for field in table.schema().fields)
    return None


def unneeded(folder: Path) -> int | None:
    """Count the files that no version within the table's own retention uses."""
    with suppress(*ERRORS):
        # delta-rs also names removed files that a VACUUM has already deleted.
        return sum((folder / unquote(file)).exists() for file in opened(folder).vacuum(dry_run=True, full=True))
    return None


def last_transaction(folder: Path, app_id: str) -> int | None:
    """Return the last version of an application, however old its commit; -1 for none."""
    with suppress(*ERRORS):
        version = DeltaTable(folder).transaction_version(app_id)
        return -1 if version is None else version
    return None


def opened(folder: Path, version: int | None = None) -> DeltaTable:
    """Open a table whose files alone hold its rows: no deletion vectors, no renamed columns; or raise a `DeltaError`."""
    table = DeltaTable(folder, version=version)
    if table.protocol().min_reader_version > 1:
        raise DeltaError("Its files alone do not say what its rows are.")
    return table


def _read(
    folder: Path, table: DeltaTable, files: Sequence[str], columns: Sequence[str], is_asked: pc.Expression | None = None
) -> pa.Table:
    return dataset(folder, table, files).to_table(columns=list(columns), filter=is_asked)


def dataset(folder: Path, table: DeltaTable, files: Sequence[str]) -> ds.Dataset:
    """Return some files of a table, by their names in the log."""
    schema = pa.schema(table.schema().to_arrow())
    return ds.dataset([str(folder / unquote(file)) for file in files], schema=schema, format=_FORMAT)


def _files(table: DeltaTable, start: From | None) -> list[str]:
    if start is None:
        return [file for (file,) in _statistics(table, "path")]
    column, lowest = start
    return [file for file, value in _statistics(table, "path", f"max.{column}") if value is None or value >= lowest]


def _statistics(table: DeltaTable, *names: str) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in statistics(table, *names).columns), strict=True))


def statistics(table: DeltaTable, *names: str) -> pa.Table:
    """Return these statistics of each file; null for those that the log lacks."""
    found = pa.table(table.get_add_actions(flatten=True))
    nothing = pa.nulls(found.num_rows)
    return pa.table({name: found[name] if name in found.column_names else nothing for name in names})
