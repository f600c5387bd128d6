"""Reads a few rows of a Delta table in a local folder without Spark, if its statistics show that few files hold them.

A query costs Spark some tenths of a second before it reads a row. More rows, or unreadable ones, are left to Spark.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.types import StructType

from lakehouse.delta import local_files, tables
from lakehouse.spark import frames

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    import pyarrow.dataset as ds
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.table import Table

    Box = Mapping[str, tuple[Any, Any]]
    """The lowest and the highest value of some columns. A row is in the box if each of its values is one of them or between."""

_MOST_FILES, _MOST_BYTES = 100, 32 * 2**20
"""The most that is opened, read or found. Beyond that Spark is the faster reader, and has the memory."""
_DECODED = 4
"""Limit on the decoded size, as a multiple of the size in the files."""
_MOST_PATHS = 32
"""For more paths Spark runs a job to list the files."""
_GLOB = frozenset("[]{}*?\\")
"""Characters that Spark takes for a pattern in a path."""
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class Limits:
    """How many rows are few: at most `rows`, and `bytes` both in the files before compression and of the rows found.

    `at_once` rows are read before their size is checked: each may have a value of a megabyte. `texts` are columns that are
    read as dictionaries.
    """

    rows: int = 10_000
    at_once: int = 64
    bytes: int = _MOST_BYTES
    texts: tuple[str, ...] = ()


def within(table: Table, columns: Sequence[str], boxes: Sequence[Box]) -> pa.Table | None:
    """Return the rows in any of the boxes, as of the latest version; None if they cannot be read here, or are not few."""
    return _few(table, columns, boxes, None, is_outside=False, limits=Limits())


def outside(
    table: Table, columns: Sequence[str], boxes: Sequence[Box], *, version: int, limits: Limits | None = None
) -> pa.Table | None:
    """Return the rows in none of the boxes, as of one version; otherwise as `within`."""
    return _few(table, columns, boxes, version, is_outside=True, limits=limits or Limits())


def frame(spark: SparkSession, table: Table, *, version: int, without: Sequence[Box] = ()) -> DataFrame:
    """Return a version of a table for several queries: few rows outside `without` as a local relation, else all of it."""
    whole = files(spark, table, version=version, without=without) or tables.read(spark, table, version=version)
    rows = outside(table, whole.columns, without, version=version)
    if rows is None or not rows.num_rows:
        return whole
    return frames.of_arrow(spark, rows, whole.schema).coalesce(1)  # written as one file, on however many cores


def files(spark: SparkSession, table: Table, *, version: int, without: Sequence[Box]) -> DataFrame | None:
    """Return the few files that may hold rows outside the boxes as a frame that needs no query of Delta's; or None."""
    if (folder := table.local_folder) is None or _GLOB & set(str(folder)):
        return None
    with suppress(*local_files.ERRORS):
        found = local_files.opened(folder, version)
        paths = [folder / unquote(name) for name in _files(found, without, is_outside=True)]
        if 0 < len(paths) <= _MOST_PATHS and all(path.exists() for path in paths):
            schema = StructType.fromJson(json.loads(found.schema().to_json()))
            return spark.read.schema(schema).parquet(*map(str, paths))
    return None


def but(column: str, first: int, last: int) -> list[Box]:
    """Return the boxes of all whole numbers in a column except those from first to last."""
    return [{column: (_LOWEST, first - 1)}, {column: (last + 1, _HIGHEST)}]


def _few(  # noqa: PLR0913 -- what is asked for and how much of it, each by name
    table: Table, columns: Sequence[str], boxes: Sequence[Box], version: int | None, *, is_outside: bool, limits: Limits
) -> pa.Table | None:
    if (folder := table.local_folder) is None:
        return None
    with suppress(*local_files.ERRORS):
        found = local_files.opened(folder, version)
        files = _files(found, boxes, is_outside=is_outside)
        if len(files) > _MOST_FILES:
            return None
        nothing = pc.scalar(value=False)
        is_in = _any([nothing, *(_all(_ends(pc.field, pc.field, box)) for box in boxes)])
        is_asked = ~pc.coalesce(is_in, nothing) if is_outside else is_in
        return _read(local_files.dataset(folder, found, files), columns, boxes, is_asked, limits)
    return None


def _files(table: DeltaTable, boxes: Sequence[Box], *, is_outside: bool) -> list[str]:
    """Return the files that may hold a wanted row: those that reach into a box, or that no box holds as a whole."""
    columns = dict.fromkeys(column for box in boxes for column in box)
    named = [f"{statistic}.{column}" for statistic in ("min", "max", "null_count") for column in columns]
    log = local_files.statistics(table, "path", *named)
    paths: list[str] = log["path"].to_pylist()
    if not boxes:
        return paths if is_outside else []

    def least(column: str) -> pa.ChunkedArray:
        return log[f"min.{column}"]

    def most(column: str) -> pa.ChunkedArray:
        return log[f"max.{column}"]

    # Statistics of long texts are cut, to a lower minimum and a higher maximum: safe both ways.
    ends = (least, most) if is_outside else (most, least)
    lies_in = [_ends(*ends, box) for box in boxes]
    if is_outside:
        for conditions, box in zip(lies_in, boxes, strict=True):
            conditions += [pc.equal(log[f"null_count.{column}"], 0) for column in box]
    is_in = _any([pc.fill_null(_all(conditions), not is_outside) for conditions in lies_in])
    return [path for path, lies in zip(paths, is_in.to_pylist(), strict=True) if lies is not is_outside]


def _ends(low: Callable[[str], Any], high: Callable[[str], Any], box: Box) -> list[Any]:
    """Return for each end of a box whether a value is on its side. The values to compare are given by column."""
    lowest = [pc.greater_equal(low(column), value) for column, (value, _) in box.items()]
    return [*lowest, *(pc.less_equal(high(column), value) for column, (_, value) in box.items())]


def _all(conditions: Sequence[Any]) -> Any:
    return _folded(pc.and_kleene, conditions)


def _any(conditions: Sequence[Any]) -> Any:
    return _folded(pc.or_kleene, conditions)


def _folded(operation: Callable[[Any, Any], Any], conditions: Sequence[Any]) -> Any:
    """Fold as a balanced tree: an expression over a thousand boxes would nest too deeply."""
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    return operation(_folded(operation, conditions[:middle]), _folded(operation, conditions[middle:]))


def _read(
    dataset: ds.Dataset, columns: Sequence[str], boxes: Sequence[Box], is_asked: pc.Expression, limits: Limits
) -> pa.Table | None:
    """Read the rows; None if they are too many or too large, by the files' metadata or while reading.

    A repeated value is kept once in a file, but decoded each time. Rows are read in small batches: Arrow's scan of a dataset
    decodes a whole part of a file before it gives a row.
    """
    parts = [part for fragment in dataset.get_fragments() if (part := fragment.subset(is_asked)).row_groups]
    groups = [group for part in parts for group in part.row_groups]
    names = dict.fromkeys([*columns, *(column for box in boxes for column in box)])
    if (
        sum(group.num_rows for group in groups) > limits.rows
        or sum(_uncompressed_bytes(part, names) for part in parts) > limits.bytes
    ):
        return None
    encoded = {name: pa.dictionary(pa.int32(), pa.string()) for name in limits.texts}
    schema = pa.schema([pa.field(name, encoded.get(name, dataset.schema.field(name).type)) for name in names])
    batches, read = [], 0
    for part in parts:
        for batch in _batches(part, schema, limits):
            batches.append(batch)
            read += batch.nbytes
            if read > _DECODED * limits.bytes:
                return None
    found = pa.Table.from_batches(batches, schema).filter(is_asked).select(list(columns)).unify_dictionaries()
    return None if found.nbytes > limits.bytes else found


def _uncompressed_bytes(part: ds.ParquetFileFragment, names: Collection[str]) -> int:
    groups = [part.metadata.row_group(group.id) for group in part.row_groups]
    chunks = (group.column(nth) for group in groups for nth in range(group.num_columns))
    return sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema.partition(".")[0] in names)


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
