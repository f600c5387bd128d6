"""Columns of numbers: what Arrow lacks, by numpy."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]
    Flags = NDArray[np.bool_]

NONE = -1
"""No number: offsets, epochs and sequences are 0 or more."""


def filled(column: pa.Array | pa.ChunkedArray) -> Numbers:
    """A column of whole numbers, -1 for null."""
    numbers: Numbers = pc.fill_null(column.cast(pa.int64()), NONE).to_numpy()
    return numbers


def codes(column: pa.ChunkedArray) -> tuple[Numbers, pa.Array]:
    """The number of each value among the distinct ones, -1 for null; and these. The column may be a dictionary.

    >>> numbers, values = codes(pa.chunked_array([["b", None], ["a", "b"]]))
    >>> numbers.tolist(), values.to_pylist()
    ([0, -1, 1, 0], ['b', 'a'])
    """
    is_encoded = pa.types.is_dictionary(column.type)
    encoded = (column if is_encoded else column.dictionary_encode()).unify_dictionaries().combine_chunks()
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
        number, _ = codes(pa.chunked_array([number * (len(values) + 1) + code + 1]))
    return number


def starts_of(*columns: NDArray[np.integer]) -> Flags:
    """Where any of the columns differs from the row before; true for the first row."""
    starts = np.ones(len(columns[0]), bool)
    starts[1:] = reduce(np.logical_or, (column[1:] != column[:-1] for column in columns))
    return starts


def before_of(column: NDArray[np.integer]) -> NDArray[np.integer]:
    """The value of the row before; -1 for the first row."""
    before = np.empty_like(column)
    before[:1], before[1:] = NONE, column[:-1]
    return before


def segment_of(rows: pa.Table, segments: pa.Table, of: Sequence[str]) -> Numbers:
    """The number of the segment that each row lies in, -1 for none. Segments with the same names do not overlap.

    Args:
        rows: Rows with some names and an offset.
        segments: Rows with these names, first_offset and last_offset.
        of: The names.

    >>> segments = pa.table({"of": ["a", "b", "a"], "first_offset": [5, 0, 0], "last_offset": [6, 9, 3]})
    >>> segment_of(pa.table({"of": ["a", "a", "a", "c"], "offset": [6, 4, 0, 0]}), segments, ["of"]).tolist()
    [0, -1, 2, -1]
    """
    count = len(segments)
    code = row_codes(pa.concat_tables([segments.select(of), rows.select(of)]), of)
    first, last, offset = filled(segments["first_offset"]), filled(segments["last_offset"]), filled(rows["offset"])
    is_row = np.arange(len(code)) >= count
    order = np.lexsort((is_row, np.concatenate([first, offset]), code))
    nearest = np.maximum.accumulate(np.where(is_row[order], NONE, np.arange(len(order))))
    found = np.full(len(code), NONE, np.int64)
    found[order] = np.where(nearest == NONE, NONE, order[nearest])
    found = found[count:]
    known = np.append(code[:count], NONE)[found], np.append(last, NONE)[found]
    return np.where((known[0] == code[count:]) & (known[1] >= offset), found, NONE)


def lasts_of(starts: Numbers, rows: int) -> Numbers:
    """The last row of each group, from the first row of each."""
    return np.append(starts, rows)[1:] - 1
