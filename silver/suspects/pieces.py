"""What a load keeps, as pieces: offsets in a row whose sequences rise with them.

A load that came in islands was read once, narrow. In a piece a record's sequence follows from its offset, so the wide copy
need not read it out of each record again, which costs more than all else it does beside copying.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from lakehouse.contracts.silver import STREAM
from lakehouse.spark import frames, interval_join
from silver.model import stream_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from silver.model import Island, Stream

_NUMBERS = ("first_offset", "last_offset", "epoch", "distance")
_PIECE = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("producer", pa.string()), *((name, pa.int64()) for name in _NUMBERS)]
)


def pieces(islands: Iterable[Island], rejects: pa.Table) -> list[Island]:
    """What is left of islands when some records are taken out.

    Args:
        islands: Records of a load, each stream's in offset order.
        rejects: The records that are taken out: spans of a stream's offsets, as in `silver_rejects`.

    >>> from silver.model import Island
    >>> islands = [Island(("t", 0, None), 0, 9, 0, 1, None), Island(("t", 0, None), 10, 14, 0, 8, None)]
    >>> names = ["topic", "partition", "producer", "first_offset", "last_offset"]
    >>> rejects = pa.table([["t"], [0], [None], [10], [12]], names=names)
    >>> [(piece.first_offset, piece.last_offset, piece.first_sequence) for piece in pieces(islands, rejects)]
    [(0, 9, 1), (13, 14, 11)]
    """
    out: dict[Stream, list[tuple[int, int]]] = {}
    for row in rejects.select([*STREAM, "first_offset", "last_offset"]).to_pylist():
        out.setdefault(stream_of(row), []).append((row["first_offset"], row["last_offset"]))
    for taken in out.values():
        taken.sort(reverse=True)  # the next one last
    found = []
    for island in islands:
        if island.problem is not None:
            continue  # records that could not be read
        start, taken = island.first_offset, out.get(island.stream, [])
        while taken and taken[-1][0] <= island.last_offset:
            first, last = taken[-1]
            if start < first:
                found.append(island.part(start, first - 1))
            start = max(start, last + 1)
            if last > island.last_offset:
                break  # it reaches into the next island
            taken.pop()
        if start <= island.last_offset:
            found.append(island.part(start, island.last_offset))
    return found


def numbered(spark: SparkSession, records: DataFrame, found: Sequence[Island]) -> DataFrame:
    """The records that lie in a piece, with what it says of them.

    Args:
        spark: The session.
        records: Bronze records of the load.
        found: The pieces.

    Returns:
        The records, with producer (string), epoch and sequence (bigint).
    """
    rows = [
        {**dict(zip(STREAM, piece.stream, strict=True)), **{name: getattr(piece, name) for name in _NUMBERS}} for piece in found
    ]
    bits = interval_join.bits_of(sum(piece.records for piece in found))
    placed = interval_join.bucketed(frames.of_arrow(spark, pa.Table.from_pylist(rows, _PIECE)), bits=bits)
    within = records.join(F.broadcast(placed), on=interval_join.is_within(records, placed, by_producer=False, bits=bits))
    sequence = (records["offset"] + placed["distance"]).alias("sequence")
    return within.select(*(records[name] for name in records.columns), placed["producer"], placed["epoch"], sequence)
