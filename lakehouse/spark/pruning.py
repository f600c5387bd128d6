"""Filters for the records of some blocks, and for others with their sequences: few ranges, however many blocks. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql import functions as F

from lakehouse.spark import interval_join

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa
    from pyspark.sql import Column

Key = TypeVar("Key")

_MOST_SPANS = 128

Place = tuple[str, int, int, int]
"""topic, partition, first and last offset, inclusive"""
Range = tuple[str, int, int, int, int]
"""topic, partition, epoch, first and last sequence, inclusive"""


def ranges(blocks: pa.Table) -> list[Range]:
    """Sequence ranges that cover some blocks, merged if they overlap; few, however many blocks there are.

    >>> import pyarrow as pa
    >>> names = ["topic", "partition", "epoch", "first_sequence", "last_sequence"]
    >>> ranges(pa.table([["t"] * 3, [0] * 3, [0] * 3, [5, 1, 2], [9, 6, 3]], names=names))
    [('t', 0, 0, 1, 9)]
    """
    by_place: defaultdict[tuple[str, int, int], list[tuple[int, int]]] = defaultdict(list)
    for row in blocks.select(["topic", "partition", "epoch", "first_sequence", "last_sequence"]).to_pylist():
        by_place[row["topic"], row["partition"], row["epoch"]].append((row["first_sequence"], row["last_sequence"]))
    return [(*place, first, last) for place, found in _few(by_place).items() for first, last in found]


def sequence_filter(wanted: Iterable[Range], of: str = "sequence") -> Column:
    """Whether a row's sequence, the column `of`, is in one of some ranges."""
    return interval_join.any_of(
        interval_join.at(topic, partition, f"epoch = {epoch} AND {of} BETWEEN {first} AND {last}")
        for topic, partition, epoch, first, last in wanted
    )


def offset_filter(wanted: Iterable[Place]) -> Column:
    """Whether a record is at some offsets, or near them: a condition that Delta's and Parquet's statistics can prune by."""
    by_place: defaultdict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for topic, partition, first, last in wanted:
        by_place[topic, partition].append((first, last))
    found = [
        interval_join.at(*place, f"offset BETWEEN {first} AND {last}")
        for place, spans_ in _few(by_place).items()
        for first, last in spans_
    ]
    return interval_join.any_of(found) if found else F.lit(False)


def _few(spans_of: Mapping[Key, list[tuple[int, int]]]) -> dict[Key, list[tuple[int, int]]]:
    """Merge overlapping ranges of each key; if too many remain, take one range per key, from first to last."""
    merged = {key: _merged(sorted(found)) for key, found in spans_of.items()}
    if sum(map(len, merged.values())) > _MOST_SPANS:
        return {key: [(found[0][0], found[-1][1])] for key, found in merged.items()}
    return merged


def _merged(found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged = found[:1]
    for first, last in found[1:]:
        if first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged
