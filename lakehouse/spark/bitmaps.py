"""Sets of whole numbers as bitmaps of 64-bit words: few rows, and exact counts even if a number occurs twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from lakehouse.spark import frames

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import Column, DataFrame, SparkSession

WORD_BITS = 6
_IN_WORD = 2**WORD_BITS - 1


def word(number: str) -> Column:
    """Return the bitmap word of a number."""
    return F.shiftright(number, WORD_BITS)


def bit(number: Column) -> Column:
    """Return a number's bit in its bitmap word, as bigint."""
    return F.call_function("shiftleft", F.lit(1).cast("bigint"), number.bitwiseAND(_IN_WORD).cast("int"))


_BLOCK_BITS = 2 * WORD_BITS
"""A block is 4,096 numbers: a row to broadcast, with a bit for each of its 64 words that is not 0, and these words."""


def blocks(places: pa.Table) -> pa.Table:
    """Return offsets (topic, partition, offset), which may repeat, as bitmaps: a row per block, with mask and words."""
    topic = places["topic"].cast(pa.string()).combine_chunks().dictionary_encode()
    partition, offset = (pc.cast(places[name], pa.int64()).to_numpy() for name in ("partition", "offset"))
    place = (topic.indices.to_numpy().astype(np.int64) << 32) + partition
    order = np.lexsort((offset, place))
    place, offset = place[order], offset[order]
    words, nth = _set_bits(place, offset)
    place, word = place[nth], offset[nth] >> WORD_BITS
    masks, first = _set_bits(place, word)
    place, block = place[first], word[first] >> WORD_BITS
    return pa.table(
        {
            "topic": topic.dictionary.take(pa.array(place >> 32)),
            "partition": pa.array(place & 0xFFFFFFFF, pa.int32()),
            "block": block,
            "mask": masks,
            "words": pa.ListArray.from_arrays(pa.array([*first, len(words)], pa.int32()), pa.array(words)),
        }
    )


def _set_bits(place: NDArray[np.int64], number: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the words of sorted numbers, and the index of the first number of each word."""
    starts = np.ones(len(number), bool)
    starts[1:] = (place[1:] != place[:-1]) | (number[1:] >> WORD_BITS != number[:-1] >> WORD_BITS)
    first = np.flatnonzero(starts)
    bits = np.uint64(1) << (number & _IN_WORD).astype(np.uint64)
    return (np.bitwise_or.reduceat(bits, first) if len(first) else bits).view(np.int64), first


def join(spark: SparkSession, records: DataFrame, among: pa.Table, how: str) -> DataFrame:
    """Join records, perhaps many millions, with the row of `blocks` that has their offset. Does not shuffle the records.

    `how` is `left_semi`, `left_anti`, or `left`, which adds a column `block` that is null for records at other offsets.
    """
    found = frames.of_arrow(spark, among)
    number = records["offset"]
    nth = F.shiftright(number.bitwiseAND(2**_BLOCK_BITS - 1), WORD_BITS).cast("int")
    below = F.bitwise_not(F.call_function("shiftleft", F.lit(-1).cast("bigint"), nth))
    word = F.get(found["words"], F.bit_count(found["mask"].bitwiseAND(below)))
    is_set = (found["mask"].bitwiseAND(bit(nth)) != 0) & (word.bitwiseAND(bit(number)) != 0)
    same = records["topic"].between(found["topic"], found["topic"]) & (records["partition"] <= found["partition"])
    is_same = same & (records["partition"] >= found["partition"])
    is_near = _place_key(found, found["block"]) == _place_key(records, F.shiftright(number, _BLOCK_BITS))
    joined = records.join(F.broadcast(found), on=is_near & is_same & is_set, how=how)
    return joined.select(*(records[name] for name in records.columns), found["block"]) if how == "left" else joined


def _place_key(rows: DataFrame, block: Column) -> Column:
    """Return one number for topic, partition and block: Spark looks up one bigint in half the time of three columns."""
    return F.xxhash64(rows["topic"], rows["partition"]).bitwiseXOR(block)
