"""Conditions on places of records: filters by a bounded number of ranges of offsets or sequences. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import Window
from pyspark.sql import functions as F

from lakehouse.contracts.contract import sql_text

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

_MOST_SPANS = 128

Range = tuple[str, int, int, int, int]
"""topic, partition, epoch, first and last sequence, inclusive"""


def ranges(blocks: pa.Table) -> list[Range]:
    """Return few sequence ranges that cover some blocks, merged if they overlap.

    >>> import pyarrow as pa
    >>> names = ["topic", "partition", "epoch", "first_sequence", "last_sequence"]
    >>> ranges(pa.table([["t"] * 3, [0] * 3, [0] * 3, [5, 1, 2], [9, 6, 3]], names=names))
    [('t', 0, 0, 1, 9)]
    """
    return list(_few(blocks, ["topic", "partition", "epoch"], "sequence"))


def at(topic: str, partition: int, condition: str) -> str:
    r"""A condition within a partition, as SQL.

    >>> print(at("it's", 0, "offset <= 5"))
    topic = 'it\'s' AND partition = 0 AND offset <= 5
    """
    return f"topic = {sql_text(topic)} AND partition = {partition} AND {condition}"


def any_of(conditions: Iterable[str]) -> Column:
    """Whether any of the conditions holds. Uses SQL: a thousand conditions are one call, and Spark's parser balances them."""
    return F.expr(" OR ".join(f"({each})" for each in conditions))


def sequence_filter(wanted: Iterable[Range], of: str = "sequence") -> Column:
    """Whether a row's sequence, the column `of`, is in any of the ranges."""
    return any_of(
        at(topic, partition, f"epoch = {epoch} AND {of} BETWEEN {first} AND {last}")
        for topic, partition, epoch, first, last in wanted
    )


def offset_filter(spans: pa.Table) -> Column:
    """Whether a record is at or near some offsets: a condition that Delta's and Parquet's statistics can prune by."""
    found = [
        at(topic, partition, f"offset BETWEEN {first} AND {last}")
        for topic, partition, first, last in _few(spans, ["topic", "partition"], "offset")
    ]
    return any_of(found) if found else F.lit(False)


def _few(spans: pa.Table, place: list[str], of: str) -> Iterator[tuple[Any, ...]]:
    """Merge overlapping spans of each place. If too many remain, take one span per place, from first to last."""
    if not spans.num_rows:
        return
    group = np.zeros(spans.num_rows, np.int64)
    for name in place:
        encoded = spans[name].combine_chunks().dictionary_encode()
        group = group * len(encoded.dictionary) + encoded.indices.to_numpy()
    firsts, lasts = (spans[f"{end}_{of}"].to_numpy() for end in ("first", "last"))
    order = np.lexsort((firsts, group))
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    merged = [_merged(firsts[rows], lasts[rows]) for rows in np.split(order, starts[1:])]
    is_many = sum(map(len, merged)) > _MOST_SPANS
    places = spans.select(place).take(order[starts]).to_pylist()
    for row, found in sorted(zip((tuple(each.values()) for each in places), merged, strict=True)):
        for reach in [(found[0][0], found[-1][1])] if is_many else found:
            yield *row, *reach


def _merged(firsts: np.ndarray[Any, Any], lasts: np.ndarray[Any, Any]) -> list[tuple[int, int]]:
    """Merge spans, sorted by their first number, that overlap or touch."""
    reached = np.maximum.accumulate(lasts)
    starts = np.append(True, firsts[1:] - 1 > reached[:-1])
    ends = np.append(starts[1:], True)
    return list(zip(firsts[starts].tolist(), reached[ends].tolist(), strict=True))


def merge_intervals(spans: DataFrame) -> DataFrame:
    """Merge intervals that may overlap: topic, partition, first_offset and last_offset (bigint)."""
    by_offset = Window.partitionBy("topic", "partition").orderBy("first_offset", "last_offset")
    reached = F.max("last_offset").over(by_offset.rowsBetween(Window.unboundedPreceding, -1))
    starts = F.when(F.col("reached") >= F.col("first_offset"), 0).otherwise(1)
    nth = F.sum("starts").over(by_offset.rowsBetween(Window.unboundedPreceding, 0))
    places = spans.select("topic", "partition", "first_offset", "last_offset")
    numbered = places.withColumn("reached", reached).withColumn("starts", starts).withColumn("nth", nth)
    whole = (F.min("first_offset").alias("first_offset"), F.max("last_offset").alias("last_offset"))
    return numbered.groupBy("topic", "partition", "nth").agg(*whole).drop("nth")
