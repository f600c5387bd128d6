"""Sets of whole numbers as bitmaps of 64-bit words: few rows, and exact counts even if a number occurs twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from lakehouse.spark import frames

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

WORD_BITS = 6
_IN_WORD = 2**WORD_BITS - 1


def word(number: str) -> Column:
    """The bitmap word that a number is in."""
    return F.shiftright(number, WORD_BITS)


def bit(number: str) -> Column:
    """A number's bit in its bitmap word, as bigint."""
    return bit_of(F.col(number))


def bit_of(number: Column) -> Column:
    """The same of a column."""
    return F.call_function("shiftleft", F.lit(1).cast("bigint"), number.bitwiseAND(_IN_WORD).cast("int"))


_BLOCK_BITS = 12
"""A block is 4,096 offsets: a row of 64 words to broadcast, however many of them are wanted."""


def at_offsets(spark: SparkSession, records: DataFrame, wanted: pa.Table) -> DataFrame:
    """The records at some offsets, perhaps millions of them. Each record is looked up in the bitmap of its block.

    Args:
        spark: The session.
        records: Rows with topic, partition and offset.
        wanted: The offsets: topic, partition and offset, each perhaps more than once.
    """
    blocks = frames.of_arrow(spark, _blocks(wanted))
    block = _block_key(records, F.shiftright(records["offset"], _BLOCK_BITS))
    nth = F.shiftright(records["offset"].bitwiseAND(2**_BLOCK_BITS - 1), WORD_BITS).cast("int")
    found = F.get(blocks["words"], nth).bitwiseAND(bit_of(records["offset"])) != 0
    same = records["topic"].between(blocks["topic"], blocks["topic"]) & (records["partition"] <= blocks["partition"])
    is_same = same & (records["partition"] >= blocks["partition"]) & (_block_key(blocks, blocks["block"]) == block)
    return records.join(F.broadcast(blocks), on=is_same & found, how="left_semi")


def _block_key(rows: DataFrame, block: Column) -> Column:
    """One number for topic, partition and block: Spark looks up one bigint in half the time of three columns."""
    return F.xxhash64(rows["topic"], rows["partition"]).bitwiseXOR(block)


def _blocks(wanted: pa.Table) -> pa.Table:
    """A row per block with a wanted offset: topic, partition, block and its 64 words."""
    rows = wanted.sort_by([(name, "ascending") for name in ("topic", "partition", "offset")])
    offset = rows["offset"].to_numpy()
    numbered = rows.select(["topic", "partition"]).append_column("block", pa.array(offset >> _BLOCK_BITS))
    differs = [pc.not_equal(column[1:], column[:-1]).to_numpy() for column in numbered.itercolumns()]
    starts = np.append(len(offset) > 0, np.logical_or.reduce(differs))[: len(offset)]
    nth = np.cumsum(starts) - 1
    blocks = numbered.filter(pa.array(starts))
    words = np.zeros((len(blocks), 2 ** (_BLOCK_BITS - WORD_BITS)), np.uint64)
    place = (offset & (2**_BLOCK_BITS - 1)) >> WORD_BITS
    np.bitwise_or.at(words, (nth, place), np.uint64(1) << (offset & _IN_WORD).astype(np.uint64))
    arrays = pa.FixedSizeListArray.from_arrays(pa.array(words.view(np.int64).ravel()), words.shape[1])
    return blocks.append_column("words", arrays.cast(pa.list_(pa.int64())))
