"""Numpy operations on columns of numbers that Arrow lacks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from tempfile import NamedTemporaryFile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]
NONE = -1


def filled(column: pa.Array | pa.ChunkedArray) -> Numbers:
    """Return a column of whole numbers, with -1 for null."""
    numbers: Numbers = pc.fill_null(column.cast(pa.int64()), NONE).to_numpy()
    return numbers


def codes(column: pa.ChunkedArray) -> tuple[Numbers, pa.Array]:
    """Return the code of each value, -1 for null, and the distinct values. The column may be a dictionary.

    >>> numbers, values = codes(pa.chunked_array([["b", None], ["a", "b"]]))
    >>> numbers.tolist(), values.to_pylist()
    ([0, -1, 1, 0], ['b', 'a'])
    """
    if not pa.types.is_dictionary(column.type):  # as one array: it takes ten times as long to unify many dictionaries
        column = pa.chunked_array([column.combine_chunks()]).dictionary_encode()
    encoded = column.unify_dictionaries().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), pa.array([], column.type))
    return filled(encoded.indices), encoded.dictionary


def row_codes(table: pa.Table, names: Sequence[str]) -> Numbers:
    """Number the distinct rows of some columns, from 0 on; nulls are equal.

    >>> row_codes(pa.table({"a": ["x", "x", None, None], "b": [1, 2, 1, 1]}), ("a", "b")).tolist()
    [0, 1, 2, 2]
    """
    number = np.zeros(len(table), np.int64)
    for name in names:
        code, values = codes(table[name])
        if starts_of(code)[1:].any():  # a column with one value tells no rows apart
            number, _ = codes(pa.chunked_array([number * (len(values) + 1) + code + 1]))
    return number


def share(rows: pa.Table, others: pa.Table, names: Sequence[str]) -> Flags:
    """Return for each row whether its values occur in `others`."""
    code = row_codes(pa.concat_tables([rows.select(names), others.select(names)]), names)
    return np.isin(code[: len(rows)], code[len(rows) :])


def starts_of(*columns: NDArray[np.integer]) -> Flags:
    """Mark each row in which a column differs from the previous row. The first row is marked."""
    starts = np.ones(len(columns[0]), bool)
    starts[1:] = reduce(np.logical_or, (column[1:] != column[:-1] for column in columns))
    return starts


def before_of(column: NDArray[np.integer]) -> NDArray[np.integer]:
    """Return for each row the value of the previous row; -1 for the first row."""
    before = np.empty_like(column)
    before[:1], before[1:] = NONE, column[:-1]
    return before


def lasts_of(starts: Numbers, rows: int) -> Numbers:
    """Return the last row of each group, from the first row of each."""
    return np.append(starts, rows)[1:] - 1


def on_disk(rows: pa.Table) -> pa.Table:
    """Write rows to a temporary file and map it into memory, so that they take no heap on the driver."""
    with NamedTemporaryFile(prefix="tidemark-", suffix=".arrow") as file:
        with pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows)
        file.flush()
        return pa.ipc.open_file(pa.memory_map(file.name)).read_all()
