"""Reads rows of a Delta table on the driver: with Arrow if it is in a local folder, otherwise with Spark.

A Spark query takes some tenths of a second before its first row. Statistics in the log say which files may hold a row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.delta import log_files, tables
from lakehouse.spark import frames

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.contract import Contract
    from lakehouse.table import Table

    Box = Mapping[str, tuple[Any, Any]]
    """The lowest and the highest value of some columns, None without a bound. A row is in the box if all its values are."""

Row = dict[str, Any]
From = tuple[str, Any]
"""A column, and its lowest value to return."""

_CHECKED = ds.ParquetFileFormat(
    # As Spark does, see `lakehouse.spark.session`.
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)
_MOST_FILES, _MOST_BYTES = 100, 32 * 2**20
"""Limits on the files and rows that the driver reads. Above them Spark is faster, and has the memory."""
_DECODED = 4
"""Limit on the decoded size, as a multiple of the size in the files."""
_MOST_PATHS = 32
"""For more paths Spark runs a job to list the files."""
_GLOB = frozenset("[]{}*?\\")
"""Characters that Spark treats as a pattern in a path."""


@dataclass(frozen=True)
class Limits:
    """How many rows are few: at most `rows`, and `bytes` both in the files before compression and of the rows found.

    `at_once` rows are read before their size is checked, because each may have a value of a megabyte. `texts` are columns
    read as dictionaries.
    """

    rows: int = 10_000
    at_once: int = 64
    bytes: int = _MOST_BYTES
    texts: tuple[str, ...] = ()


FEW = Limits()


def read(  # noqa: PLR0913 -- what is read, each by name
    spark: SparkSession,
    table: Table,
    columns: Sequence[str],
    *,
    start: From | None = None,
    version: int | None = None,
    contract: Contract | None = None,
) -> list[Row]:
    """Return some rows of a table, in no particular order; see `read_arrow`."""
    rows: list[Row] = read_arrow(spark, table, columns, start=start, version=version, contract=contract).to_pylist()
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
    """Return rows of a table as Arrow, for tables of many streams. With a `contract`, a missing table gives no rows."""
    boxes: list[Box] = [{start[0]: (start[1], None)}] if start else []
    rows = few(table, columns, boxes, version=version, is_outside=start is None, limits=None)
    if rows is None:
        if contract is not None and not tables.exists(spark, table):
            return frames.arrow_schema(contract).empty_table().select(list(columns))
        whole = spark.read.table(table.sql) if version is None else tables.read(spark, table, version=version)
        asked = whole if start is None else whole.where(F.col(start[0]) >= start[1])
        rows = asked.select(*columns).toArrow()
    return rows


def last(spark: SparkSession, table: Table, columns: Sequence[str], *, by: str) -> list[Row]:
    """Return the rows with the highest value in a column, which must be in `columns`; none if the table is empty."""
    lowest = _highest(spark, table, by)  # may be below a timestamp: the log keeps milliseconds
    rows = None if lowest is None else read_arrow(spark, table, columns, start=(by, lowest))
    found: list[Row] = [] if rows is None else rows.filter(pc.equal(rows[by], pc.max(rows[by]))).to_pylist()
    return found


def highest(spark: SparkSession, table: Table, column: str) -> int:
    """Return the highest number in a column, from the files' statistics if they have it; 0 without rows or table."""
    return _highest(spark, table, column) or 0


def few(  # noqa: PLR0913 -- what is read and how much of it, each by name
    table: Table,
    columns: Sequence[str],
    boxes: Sequence[Box],
    *,
    version: int | None = None,
    is_outside: bool = False,
    limits: Limits | None = FEW,
) -> pa.Table | None:
    """Return the rows in any of the boxes, or outside of all; None if only Spark can read them, or they exceed the limits."""
    if (folder := table.local_folder) is None:
        return None
    with suppress(*log_files.ERRORS):
        found = log_files.opened(folder, version)
        names = _files(found, boxes, is_outside=is_outside)
        nothing = pc.scalar(value=False)
        fields = {name: pc.field(name) for box in boxes for name in box}
        is_in = _any([nothing, *(_all(_ends(fields, fields, box)) for box in boxes)])
        is_asked = ~pc.coalesce(is_in, nothing) if is_outside else is_in
        paths = [str(folder / unquote(name)) for name in names]
        dataset = ds.dataset(paths, schema=pa.schema(found.schema().to_arrow()), format=_CHECKED)
        if limits is None:
            return dataset.to_table(columns=list(columns), filter=is_asked if boxes else None)
        named = dict.fromkeys([*columns, *(column for box in boxes for column in box)])
        return _read_few(dataset, named, is_asked, limits, columns) if len(names) <= _MOST_FILES else None
    return None


def frame(spark: SparkSession, table: Table, *, version: int, without: Sequence[Box] = ()) -> DataFrame:
    """Return a version of a table for several queries: few rows outside `without` as a local relation, else all of it."""
    whole = files(spark, table, version=version, without=without) or tables.read(spark, table, version=version)
    rows = few(table, whole.columns, without, version=version, is_outside=True)
    if rows is None or not rows.num_rows:
        return whole
    return frames.of_arrow(spark, rows, whole.schema).coalesce(1)  # written as one file on any number of cores


def files(spark: SparkSession, table: Table, *, version: int, without: Sequence[Box]) -> DataFrame | None:
    """Return a frame over the few files that may hold rows outside the boxes, without a query of Delta's; or None."""
    if (folder := table.local_folder) is None or _GLOB & set(str(folder)):
        return None
    with suppress(*log_files.ERRORS):
        found = log_files.opened(folder, version)
        paths = [folder / unquote(name) for name in _files(found, without, is_outside=True)]
        if 0 < len(paths) <= _MOST_PATHS and all(path.exists() for path in paths):
            schema = StructType.fromJson(json.loads(found.schema().to_json()))
            return spark.read.schema(schema).parquet(*map(str, paths))
    return None


def boxes_outside(column: str, first: int, last: int) -> list[Box]:
    """Return the boxes of all whole numbers in a column except those from first to last."""
    return [{column: (None, first - 1)}, {column: (last + 1, None)}]


def _highest(spark: SparkSession, table: Table, column: str) -> Any:
    """Return a column's highest value, in a local folder from the log's statistics: timestamps to the millisecond."""
    with suppress(*log_files.ERRORS):
        if (folder := table.local_folder) is not None:
            found = log_files.statistics(log_files.opened(folder), f"max.{column}", f"null_count.{column}", "num_records")
            rows = zip(*(each.to_pylist() for each in found.columns), strict=True)
            values = [value for value, nulls, records in rows if None in (nulls, records) or nulls < records]
            if None not in values:  # as where the log lacks them
                return max(values, default=None)
    whole = tables.open_if_exists(spark, table)
    return None if whole is None else whole.agg(F.max(column).alias("highest")).toArrow()["highest"][0].as_py()


def _files(table: DeltaTable, boxes: Sequence[Box], *, is_outside: bool) -> list[str]:
    """Return the files that may hold a wanted row: files that overlap a box, or, if outside, that no box fully contains."""
    columns = dict.fromkeys(column for box in boxes for column in box)
    named = [f"{statistic}.{column}" for statistic in ("min", "max", "null_count") for column in columns]
    log = log_files.statistics(table, "path", *named)
    paths: list[str] = log["path"].to_pylist()
    if not boxes:
        return paths if is_outside else []

    # Statistics of long texts are truncated, to a lower minimum and a higher maximum, so both comparisons stay safe.
    least, most = ({column: log[f"{end}.{column}"] for column in columns} for end in ("min", "max"))
    lies_in = [_ends(least, most, box) if is_outside else _ends(most, least, box) for box in boxes]
    if is_outside:
        for conditions, box in zip(lies_in, boxes, strict=True):
            conditions += [pc.equal(log[f"null_count.{column}"], 0) for column in box]
    is_in = _any([pc.fill_null(_all(conditions), not is_outside) for conditions in lies_in])
    return [path for path, lies in zip(paths, is_in.to_pylist(), strict=True) if lies is not is_outside]


def _ends(low: Mapping[str, Any], high: Mapping[str, Any], box: Box) -> list[Any]:
    """Return for each end of a box whether a value is on its side. The values to compare are given by column."""
    lowest = [pc.greater_equal(low[column], value) for column, (value, _) in box.items() if value is not None]
    return [*lowest, *(pc.less_equal(high[column], value) for column, (_, value) in box.items() if value is not None)]


def _folded(operation: Callable[[Any, Any], Any], conditions: Sequence[Any]) -> Any:
    """Fold as a balanced tree: an expression over a thousand boxes would nest too deeply."""
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    return operation(_folded(operation, conditions[:middle]), _folded(operation, conditions[middle:]))


_all = partial(_folded, pc.and_kleene)
_any = partial(_folded, pc.or_kleene)


def _read_few(
    dataset: ds.Dataset, named: Mapping[str, None], is_asked: pc.Expression, limits: Limits, columns: Sequence[str]
) -> pa.Table | None:
    """Read the rows; None if they are too many or too large, checked in the files' metadata and while reading.

    A file stores a repeated value once, but each copy is decoded. So rows are read in small batches: Arrow's dataset scan
    decodes a whole row group before it returns a row.
    """
    parts = [part for fragment in dataset.get_fragments() if (part := fragment.subset(is_asked)).row_groups]
    groups = [part.metadata.row_group(group.id) for part in parts for group in part.row_groups]
    chunks = [group.column(nth) for group in groups for nth in range(group.num_columns)]
    stored = sum(each.total_uncompressed_size for each in chunks if each.path_in_schema.partition(".")[0] in named)
    if sum(group.num_rows for group in groups) > limits.rows or stored > limits.bytes:
        return None
    encoded = {name: pa.dictionary(pa.int32(), pa.string()) for name in limits.texts}
    schema = pa.schema([pa.field(name, encoded.get(name, dataset.schema.field(name).type)) for name in named])
    batches, size = [], 0
    for part in parts:
        for batch in _batches(part, schema, limits):
            batches.append(batch)
            size += batch.nbytes
            if size > _DECODED * limits.bytes:
                return None
    found = pa.Table.from_batches(batches, schema).filter(is_asked).select(list(columns)).unify_dictionaries()
    return None if found.nbytes > limits.bytes else found


def _batches(part: ds.ParquetFileFragment, schema: pa.Schema, limits: Limits) -> Iterator[pa.RecordBatch]:
    """Read a file's part in batches; a column that the file lacks is null."""
    groups = [group.id for group in part.row_groups]
    with pq.ParquetFile(part.path, read_dictionary=limits.texts, page_checksum_verification=True) as file:
        there = [name for name in schema.names if name in file.schema_arrow.names]
        for batch in file.iter_batches(limits.at_once, row_groups=groups, columns=there):
            arrays = [
                batch[field.name].cast(field.type) if field.name in there else pa.nulls(len(batch), field.type)
                for field in schema
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
