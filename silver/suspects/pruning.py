"""Filters for the records that suspects are compared with: few ranges of offsets or sequences, however many suspects. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql import functions as F

from lakehouse.contracts.silver import STREAM
from lakehouse.spark import interval_join
from silver.model import stream_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import Column

    from silver.model import Island, Stream

Key = TypeVar("Key")

_MOST_SPANS = 128

Place = tuple[str, int, int, int]
"""topic, partition, first and last offset, inclusive"""
Range = tuple[str, int, int, int, int]
"""topic, partition, epoch, first and last sequence, inclusive"""


def matching_offsets(kept: Iterable[Island], blocks: pa.Table) -> Iterator[dict[str, Any]]:
    """Offset ranges of accepted records with the blocks' sequences.

    Args:
        kept: Accepted records, as islands: in each stream and epoch their sequences rise.
        blocks: Rows of `silver.model.SEGMENT`.

    Yields:
        Offset ranges: topic, partition, producer, first_offset, last_offset, and `block`, the block's first offset.

    >>> import pyarrow as pa
    >>> from silver.model import Island
    >>> names = ["topic", "partition", "producer", "epoch", "first_sequence", "last_sequence", "first_offset"]
    >>> blocks = pa.table([["t"], [0], [None], [0], [91], [120], [200]], names=names)
    >>> [tuple(span.values()) for span in matching_offsets([Island(("t", 0, None), 100, 199, 0, 1, None)], blocks)]
    [('t', 0, None, 190, 199, 200)]
    """
    by_place: defaultdict[tuple[Stream, int | None], list[Island]] = defaultdict(list)
    for piece in kept:
        by_place[piece.stream, piece.epoch].append(piece)
    for row in blocks.select([*STREAM, "epoch", "first_sequence", "last_sequence", "first_offset"]).to_pylist():
        pieces = by_place[stream_of(row), row["epoch"]]
        for nth in range(bisect_left(pieces, row["first_sequence"], key=attrgetter("last_sequence")), len(pieces)):
            piece = pieces[nth]
            first = max(piece.first_offset, row["first_sequence"] - piece.distance)
            last = min(piece.last_offset, row["last_sequence"] - piece.distance)
            if first > last:
                break  # this island's sequences are higher than the block's, and so are those of the islands after it
            stream = {name: row[name] for name in STREAM}
            yield {**stream, "first_offset": first, "last_offset": last, "block": row["first_offset"]}


def ranges(blocks: pa.Table) -> list[Range]:
    """Sequence ranges that cover some blocks, merged if they overlap; few, however many blocks there are.

    >>> import pyarrow as pa
    >>> names = ["topic", "partition", "epoch", "first_sequence", "last_sequence"]
    >>> ranges(pa.table([["t", "t"], [0, 0], [0, 0], [5, 1], [9, 6]], names=names))
    [('t', 0, 0, 1, 9)]
    """
    by_place: defaultdict[tuple[str, int, int], list[tuple[int, int]]] = defaultdict(list)
    for row in blocks.select(["topic", "partition", "epoch", "first_sequence", "last_sequence"]).to_pylist():
        by_place[row["topic"], row["partition"], row["epoch"]].append((row["first_sequence"], row["last_sequence"]))
    return [(*place, first, last) for place, found in _few(by_place).items() for first, last in found]


def sequence_filter(wanted: Iterable[Range]) -> Column:
    """Whether a record's sequence is in one of some ranges."""
    return interval_join.any_of(
        interval_join.at(topic, partition, f"epoch = {epoch} AND sequence BETWEEN {first} AND {last}")
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
