"""Recognize blocks that were resent as a whole by their checksums, without comparing individual records.

A block of suspects that has as many records as its range of sequences has numbers is a copy if just as many records of the
range were kept, with the same content. Hashes of sequence and content are summed up on both sides: equal sums mean equal
records. The hashes have a fresh salt each time: if they were known, other records with the same sums could be crafted.
"""

from __future__ import annotations

from secrets import token_hex
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from lakehouse.contracts.silver import STREAM
from lakehouse.spark import frames, interval_join
from silver.model import tuples_of
from silver.suspects.content_hash import content

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_HALF = 2**32 - 1
_BLOCK = (*STREAM, "block")
_HASHES = ("hash", "other_hash")


def can_be(blocks: pa.Table, fewest: int) -> pa.Array:
    """Whether each block has as many records as its range of sequences has numbers, and at least `fewest`."""
    numbers = pc.add(pc.subtract(blocks["last_sequence"], blocks["first_sequence"]), 1)
    return pc.and_(pc.greater_equal(blocks["records"], fewest), pc.equal(blocks["records"], numbers))


def are_copies(blocks: pa.Table, both: DataFrame) -> list[bool]:
    """Whether each block is a copy of kept records.

    Args:
        blocks: Rows of `silver.model.SEGMENT`, for which `can_be` holds.
        both: Their records, and those that Silver and the load itself kept with their sequences: stream, sequence, `content`,
            `block` (the block's first offset), and `is_sent`, false for those kept.
    """
    salted = {name: F.xxhash64(F.lit(token_hex()), "sequence", "content") for name in _HASHES}
    sums = both.withColumns(salted).groupBy(*_BLOCK, "is_sent").agg(F.count(F.lit(1)), *_sums()).toArrow().to_pylist()
    found = {(*(row.pop(name) for name in (*_BLOCK, "is_sent")),): row for row in sums}
    places = tuples_of(blocks, (*STREAM, "first_offset"))
    return [found[*place, True] == found.get((*place, False)) for place in places]


def sent(within: DataFrame) -> DataFrame:
    """The records of some blocks, each with its block's first offset as `block`, as `are_copies` takes them."""
    return within.select(*STREAM, "sequence", content(within), "block", F.lit(True).alias("is_sent"))


def of_sequences(spark: SparkSession, blocks: pa.Table, kept: DataFrame) -> DataFrame:
    """The kept records with some blocks' sequences, as `are_copies` takes them.

    Args:
        spark: The session.
        blocks: The blocks.
        kept: Records that were kept, ideally few with other sequences.
    """
    asked = blocks.select([*STREAM, "epoch", "first_sequence", "last_sequence", "first_offset"])
    wanted = interval_join.bucketed(frames.of_arrow(spark, asked), of="sequence")
    is_like = interval_join.is_within(kept, wanted, by_producer=True, of="sequence") & (kept["epoch"] == wanted["epoch"])
    like = kept.join(F.broadcast(wanted), on=is_like)
    named = [kept[name] for name in (*STREAM, "sequence")]
    return like.select(*named, content(kept), wanted["first_offset"].alias("block"), F.lit(False).alias("is_sent"))


def _sums() -> list[Column]:
    """Sums of both hashes, each in two halves: sums of whole hashes would overflow."""
    hashes = [F.col(name) for name in _HASHES]
    return [F.sum(half) for each in hashes for half in (F.shiftright(each, 32), each.bitwiseAND(F.lit(_HALF)))]
