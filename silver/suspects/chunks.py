"""Part blocks of suspects so that only some are compared at a time, however many there are. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lakehouse.contracts.silver import STREAM

if TYPE_CHECKING:
    from collections.abc import Iterator

_PIECE = (*STREAM, "first_offset", "last_offset", "records", "block")


def in_chunks(blocks: pa.Table, most: int) -> Iterator[pa.Table]:
    """Part blocks into chunks of at most `most` records, by stream and offset. A block with more is cut by offsets.

    Its pieces are equally long, and each is a chunk of its own. A piece holds at most `most` records, unless producers take
    turns in the block's partition and not evenly: what lies between the block's records is not known.

    Args:
        blocks: Rows of `silver.model.SEGMENT`.
        most: The most records of a chunk.

    Yields:
        Stream, first_offset, last_offset, records (of a piece, those of its whole block) and `block`, the block's first offset.

    >>> blocks = {"topic": "t", "partition": 0, "producer": "p"}
    >>> spans = [(0, 4, 5), (6, 6, 1), (8, 9, 2), (11, 13, 2)]
    >>> rows = [{**blocks, "first_offset": first, "last_offset": last, "records": number} for first, last, number in spans]
    >>> chunks = in_chunks(pa.Table.from_pylist(rows), 3)
    >>> [list(zip(*(chunk[name].to_pylist() for name in ("first_offset", "last_offset", "block")))) for chunk in chunks]
    [[(0, 2, 0)], [(3, 4, 0)], [(6, 6, 6), (8, 9, 8)], [(11, 13, 11)]]
    """
    ordered = blocks.sort_by([(name, "ascending") for name in (*STREAM, "first_offset")])
    ordered = ordered.append_column("block", ordered["first_offset"]).select(list(_PIECE))
    start = held = 0
    for nth, records in enumerate(ordered["records"].to_pylist()):
        if held + records > most and nth > start:
            yield ordered.slice(start, nth - start)
            start, held = nth, 0
        held += records
        if records > most:
            yield from _pieces(ordered.slice(nth, 1), most)
            start, held = nth + 1, 0
    if start < len(ordered):
        yield ordered.slice(start)


def _pieces(block: pa.Table, most: int) -> Iterator[pa.Table]:
    (row,) = block.to_pylist()
    first, last = row["first_offset"], row["last_offset"]
    pieces = -(-row["records"] // most)
    length = -(-(last - first + 1) // pieces)
    for start in range(first, last + 1, length):
        span = {"first_offset": start, "last_offset": min(start + length - 1, last)}
        yield pa.Table.from_pylist([{**row, **span}], block.schema)
