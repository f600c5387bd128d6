"""Compare the tables by Kafka offset, one bitmap word of 64 offsets at a time. Pure.

Each table is aggregated to one row per word: row count, offsets as bits, content hash. Offsets are compared exactly; one
changed record in 2^64 is missed. The join has few narrow rows. A column name starts with the letter of its table:

- b: Bronze, up to the last decided offset; s: Silver; r: rejects (offset ranges that may cover other producers' offsets)
- p: Silver's rows of published loads; g: gold_records; l: gold_latest
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.contracts.silver import RELEASED
from lakehouse.spark import pruning
from lakehouse.spark.bitmaps import WORD_BITS, bit, word

CONTENT = ("timestamp", "key", "value")

_PLACE = ("topic", "partition", "word")
_COLUMNS = tuple(f"{table}_{what}" for table in "bsrpgl" for what in ("rows", "bits", "content"))
_MOST_WORDS = 20_000


def content_hash(columns: Sequence[str], *, of: str = "offset") -> Column:
    """Hash some columns together with the offset, or with a hash of other columns. Null and empty hash differently."""
    return F.xxhash64(of, *(part for name in columns for part in (F.col(name).isNull(), F.col(name))))


def by_word(rows: DataFrame, **hashes: Column) -> DataFrame:
    """Aggregate rows by word, for one or more tables in one pass.

    `hashes` maps each table to the hash of a row: 0 if its content is not compared, null if the table lacks the row.
    """
    named, sums = list[Column](), list[Column]()
    for table, hashed in hashes.items():
        named += [F.when(hashed.isNotNull(), bit(F.col("offset"))).alias(f"{table}_bit"), hashed.alias(f"{table}_hash")]
        sums += [F.count(f"{table}_bit").alias(f"{table}_rows"), F.bit_or(f"{table}_bit").alias(f"{table}_bits")]
        sums.append(F.bit_xor(f"{table}_hash").alias(f"{table}_content"))
    return rows.select("topic", "partition", word("offset").alias("word"), *named).groupBy(*_PLACE).agg(*sums)


def rejects_by_word(rejects: DataFrame) -> DataFrame:
    """Aggregate the offsets of `silver_rejects` by word, with all offsets in a block's range. Skips released rejects."""
    # Merge the ranges: with interleaved producers each block spans nearly all offsets.
    out = pruning.merge_intervals(rejects.where(F.col("state") != RELEASED))
    spanned = out.withColumn("word", F.explode(F.sequence(word("first_offset"), word("last_offset"))))
    start = F.call_function("shiftleft", F.col("word"), F.lit(WORD_BITS))
    first = F.greatest(F.col("first_offset") - start, F.lit(0)).cast("int")
    last = F.least(F.col("last_offset") - start, F.lit(2**WORD_BITS - 1)).cast("int")
    ones = F.lit(-1).cast("bigint")
    up_to_last = F.call_function("shiftrightunsigned", ones, F.lit(2**WORD_BITS - 1) - last)
    bits = F.call_function("shiftleft", ones, first).bitwiseAND(up_to_last)
    return spanned.groupBy(*_PLACE).agg(F.bit_or(bits).alias("r_bits"))


def masked(records: DataFrame, silver: DataFrame) -> DataFrame:
    """Add `is_kept` to Bronze's records: whether Silver holds the offset. `silver` is the result of `by_word` for `s`."""
    known = silver.select(*_PLACE, "s_bits")
    is_kept = F.coalesce(F.col("s_bits").bitwiseAND(bit(F.col("offset"))) != 0, F.lit(False))
    both = records.withColumn("word", word("offset")).join(known, on=list(_PLACE), how="left")
    return both.select(*records.columns, is_kept.alias("is_kept"))


def compared(words: Sequence[DataFrame], *, has_producers: bool) -> DataFrame:
    """Compare the words of all tables. If producers share a partition's offsets, a reject's range may cover kept records.

    Returns one row per partition with a null `word`, then the first words with a problem. Columns: topic, partition, word;
    offsets (distinct, in Bronze); doubled (words with a repeated offset, whose content is not compared); silver and gold
    (row counts); and a bitmap of offsets for each of `_problems`.
    """
    joined = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), words)
    zero = F.lit(0).cast("bigint")
    values = {name: F.coalesce(F.max(name), zero) if name in joined.columns else zero for name in _COLUMNS}
    filled = joined.groupBy(*_PLACE).agg(*(value.alias(name) for name, value in values.items()))
    offsets = F.bit_count("b_bits").cast("bigint")
    doubled = (F.col("b_rows") != offsets).cast("bigint")
    counts = {"offsets": offsets, "doubled": doubled, "silver": F.col("s_rows"), "gold": F.col("g_rows")}
    problems = _problems(has_producers=has_producers)
    marked = filled.select(*_PLACE, *(column.alias(name) for name, column in {**counts, **problems}.items()))
    summed = marked.groupingSets([list(_PLACE[:2]), list(_PLACE)], *_PLACE).agg(
        *(F.sum(name).alias(name) for name in counts),
        *(F.when(F.grouping("word") == 0, F.bit_or(name)).alias(name) for name in problems),
    )
    is_wrong = reduce(or_, (F.col(name) != 0 for name in problems))
    found = summed.where(F.col("word").isNull() | is_wrong)
    return found.orderBy(F.col("word").asc_nulls_first(), "topic", "partition").limit(_MOST_WORDS)


def _problems(*, has_producers: bool) -> dict[str, Column]:
    b, s, r, p, g, latest = (F.col(f"{table}_bits") for table in "bsrpgl")
    zero = F.lit(0).cast("bigint")
    is_single = F.col("b_rows") == F.bit_count("b_bits")
    return {
        "unknown": _less(s, b),
        "lost": _less(_less(b, s), r),
        "both": zero if has_producers else s.bitwiseAND(r),
        "silver_twice": F.when(F.col("s_rows") != F.bit_count(s), s).otherwise(zero),
        "differs": F.when(is_single & (_less(s, b) == 0) & (F.col("s_content") != F.col("b_content")), s).otherwise(zero),
        "gold_lost": _less(p, g),
        "gold_more": _less(g, p),
        "gold_twice": F.when(F.col("g_rows") != F.bit_count(g), g).otherwise(zero),
        "gold_differs": F.when((p == g) & (F.col("p_content") != F.col("g_content")), g).otherwise(zero),
        "latest_unknown": _less(latest, g),
    }


def _less(one: Column, other: Column) -> Column:
    return one.bitwiseAND(F.bitwise_not(other))


def offset_of(row: dict[str, Any], problem: str) -> int:
    """Return the first offset of a word that has a problem.

    >>> offset_of({"word": 2, "lost": 0b1000}, "lost")
    131
    """
    bits = row[problem] & (2**64 - 1)
    first: int = row["word"] * 2**WORD_BITS + (bits & -bits).bit_length() - 1
    return first
