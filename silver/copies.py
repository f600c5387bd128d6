"""Blocks that were sent again as a whole, told by two sums each: no record of them is compared with another one.

A block of suspects that has as many records as its range of sequences has numbers is a copy where just as many records of the
range were kept, with the same content. Both sides are summed up by hashes of sequence and content: equal sums, equal records.
The hashes are salted anew each time: who knew them could make other records that come to the same sums.
"""

from __future__ import annotations

from secrets import token_hex
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from lakehouse import frames
from lakehouse.contracts.silver import STREAM
from silver import spans

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_FEWEST = 100
"""Suspects of a block that it takes: smaller ones are compared record by record."""
_HALF = 2**32 - 1
_BLOCK = (*STREAM, "block")
_HASHES = ("hash", "other_hash")


def can_be(blocks: pa.Table) -> pa.Array:
    """Whether a block is large, and has as many records as its sequences have numbers."""
    numbers = pc.add(pc.subtract(blocks["last_sequence"], blocks["first_sequence"]), 1)
    return pc.and_(pc.greater_equal(blocks["records"], _FEWEST), pc.equal(blocks["records"], numbers))


def are_copies(spark: SparkSession, blocks: pa.Table, suspects: DataFrame, kept: DataFrame) -> list[bool]:
    """Whether each block is a copy of what was kept.

    Args:
        spark: The session.
        blocks: Rows of `silver.segments.SEGMENT`, for which `can_be` holds.
        suspects: Their records: key, `block` (the block's first offset) and `content_sha256`.
        kept: What Silver and the load itself kept of their sequences, and perhaps more: key and `content_sha256`.
    """
    named = blocks.select([*STREAM, "epoch", "first_sequence", "last_sequence", "first_offset"])
    wanted = spans.bucketed(frames.of_arrow(spark, named), of="sequence")
    is_like = spans.is_within(kept, wanted, by_producer=True, of="sequence") & (kept["epoch"] == wanted["epoch"])
    like = kept.join(F.broadcast(wanted), on=is_like).select(
        *(kept[name] for name in (*STREAM, "sequence", "content_sha256")), wanted["first_offset"].alias("block")
    )
    both = suspects.select(*like.columns, F.lit(True).alias("is_sent")).unionByName(like.withColumn("is_sent", F.lit(False)))
    salted = {name: F.xxhash64(F.lit(token_hex()), "sequence", "content_sha256") for name in _HASHES}
    sums = both.withColumns(salted).groupBy(*_BLOCK, "is_sent").agg(F.count(F.lit(1)), *_sums()).toArrow().to_pylist()
    found = {(*(row.pop(name) for name in (*_BLOCK, "is_sent")),): row for row in sums}
    places = zip(*(blocks[name].to_pylist() for name in (*STREAM, "first_offset")), strict=True)
    return [found[*place, True] == found.get((*place, False)) for place in places]


def _sums() -> list[Column]:
    """Of both hashes of each record, by halves: a sum of whole ones would overflow."""
    hashes = [F.col(name) for name in _HASHES]
    return [F.sum(half) for each in hashes for half in (F.shiftright(each, 32), each.bitwiseAND(F.lit(_HALF)))]
