"""The tables compared by Kafka offset, one bitmap word of 64 offsets at a time. Pure: nothing is read or written here.

Each table is reduced to a row per word: the offsets that it holds, as bits, and a hash over their content. That is exact for
the offsets, misses a changed record once in 2^64, and joins few narrow rows instead of every wide one.

The sources, and the letter that their columns begin with:

- b: Bronze, up to the last decided offset; s: Silver; r: rejects (offset ranges that may cover other producers' offsets)
- p: Silver's rows of published loads; g: gold_records; l: gold_latest
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from lakehouse.contracts.silver import RELEASED
from lakehouse.spark import interval_join
from lakehouse.spark.bitmaps import WORD_BITS, bit, word

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

PLACE = ("topic", "partition", "word")
_COLUMNS = tuple(f"{source}_{what}" for source in "bsrpgl" for what in ("rows", "bits", "content"))
_MOST_WORDS = 20_000

CONTENT = ("timestamp", "key", "value")
"""The columns of a record that must be equal in Bronze and Silver."""

PROBLEMS = (
    "unknown",
    "lost",
    "both",
    "silver_twice",
    "differs",
    "gold_lost",
    "gold_more",
    "gold_twice",
    "gold_differs",
    "latest_unknown",
)
"""What can be wrong with a word; each is a bitmap of the offsets concerned."""


def content(columns: Sequence[str]) -> Column:
    """Hash the offset and some columns; null and empty differ."""
    return F.xxhash64("offset", *_told(columns))


def whole(columns: Sequence[str]) -> Column:
    """Hash some columns and `hash`, the result of `content`, so that a value is hashed only once."""
    return F.xxhash64("hash", *_told(columns))


def _told(columns: Sequence[str]) -> list[Column]:
    return [part for name in columns for part in (F.col(name).isNull(), F.col(name))]


def by_word(source: str, rows: DataFrame, hashed: Column | None = None) -> DataFrame:
    """Aggregate a table's rows by word.

    Args:
        source: The letter that the columns begin with.
        rows: Rows with topic, partition and offset, and what `hashed` reads.
        hashed: The hash to compare, per row.

    Returns:
        topic, partition, word, and the source's rows, bits (of the offsets) and content (bigint).
    """
    found = F.lit(0).cast("bigint") if hashed is None else hashed
    narrow = rows.select("topic", "partition", word("offset").alias("word"), bit("offset").alias("bit"), found.alias("hash"))
    return narrow.groupBy(*PLACE).agg(
        F.count(F.lit(1)).alias(f"{source}_rows"),
        F.bit_or("bit").alias(f"{source}_bits"),
        F.bit_xor("hash").alias(f"{source}_content"),
    )


def silver_by_word(silver: DataFrame, is_published: Column, whole: Column) -> DataFrame:
    """Aggregate Silver's rows by word, all of them and those of published loads, in one pass; see `by_word`.

    Args:
        silver: Rows with topic, partition, offset, load_seq, is_erased, `hash` (see `content`), and what `whole` reads. Erased
            rows are not in Gold.
        is_published: Whether Gold has the row's load.
        whole: The hash to compare with Gold.
    """
    is_in_gold = is_published & ~F.col("is_erased")
    narrow = silver.select(
        "topic",
        "partition",
        word("offset").alias("word"),
        bit("offset").alias("bit"),
        "hash",
        F.when(is_in_gold, bit("offset")).alias("published"),
        F.when(is_in_gold, whole).alias("whole"),
    )
    return narrow.groupBy(*PLACE).agg(
        F.count(F.lit(1)).alias("s_rows"),
        F.bit_or("bit").alias("s_bits"),
        F.bit_xor("hash").alias("s_content"),
        F.count("published").alias("p_rows"),
        F.bit_or("published").alias("p_bits"),
        F.bit_xor("whole").alias("p_content"),
    )


def rejects_by_word(rejects: DataFrame) -> DataFrame:
    """Aggregate the rejects' offsets by word; a block counts as all offsets in its range.

    Args:
        rejects: Rows of `silver_rejects`; released ones are in Silver and left out.
    """
    # Merged, because the blocks of interleaved producers each span nearly all offsets.
    out = interval_join.merged(rejects.where(F.col("state") != RELEASED))
    spanned = out.withColumn("word", F.explode(F.sequence(word("first_offset"), word("last_offset"))))
    start = F.call_function("shiftleft", F.col("word"), F.lit(WORD_BITS))
    first = F.greatest(F.col("first_offset") - start, F.lit(0)).cast("int")
    last = F.least(F.col("last_offset") - start, F.lit(2**WORD_BITS - 1)).cast("int")
    ones = F.lit(-1).cast("bigint")
    bits = F.call_function("shiftleft", ones, first).bitwiseAND(
        F.call_function("shiftrightunsigned", ones, F.lit(2**WORD_BITS - 1) - last)
    )
    return spanned.groupBy(*PLACE).agg(F.bit_or(bits).alias("r_bits"))


def masked(records: DataFrame, silver: DataFrame) -> DataFrame:
    """Add `is_kept` to Bronze's records: whether Silver holds the offset.

    Args:
        records: Rows of `bronze_records`.
        silver: The rows of `silver_by_word`.
    """
    names = {name: f"kept_{name}" for name in PLACE}
    known = silver.select(*PLACE, "s_bits").withColumnsRenamed(names)
    same = (
        (records["topic"] == known["kept_topic"])
        & (records["partition"] == known["kept_partition"])
        & (word("offset") == known["kept_word"])
    )
    is_kept = F.coalesce(F.col("s_bits").bitwiseAND(bit("offset")) != 0, F.lit(False))
    return records.join(known, on=same, how="left").withColumn("is_kept", is_kept).drop(*names.values(), "s_bits")


def compared(words: Sequence[DataFrame], *, has_producers: bool) -> DataFrame:
    """Compare the words of all sources.

    Args:
        words: The rows of `by_word`, `silver_by_word` and `rejects_by_word`, one frame each.
        has_producers: Whether producers share a partition's offsets: a reject's range may then cover kept records.

    Returns:
        A row per partition, whose `word` is null, then one per word with a problem; the first 20,000 rows.
        topic, partition, word; offsets (bigint; Bronze's distinct ones); doubled (bigint; words in which Bronze holds an offset
        twice, so that their content is not compared); silver and gold (bigint; rows); and the columns of `PROBLEMS` (bigint;
        bits, null in a partition's row).
    """
    joined = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), words)
    names = [name for name in _COLUMNS if name in joined.columns]
    merged = joined.groupBy(*PLACE).agg(*(F.max(name).alias(name) for name in names))
    zero = F.lit(0).cast("bigint")
    filled = merged.select(
        *PLACE, *(F.coalesce(name, zero).alias(name) if name in names else zero.alias(name) for name in _COLUMNS)
    )
    judged = filled.select(*PLACE, *_counts(), *(column.alias(name) for name, column in _problems(has_producers).items()))
    is_wrong = reduce(lambda one, other: one | other, (F.col(name) != 0 for name in PROBLEMS))
    counts = ("offsets", "doubled", "silver", "gold")
    grouped = judged.groupingSets([list(PLACE[:2]), list(PLACE)], *PLACE)
    summed = grouped.agg(
        *(F.sum(name).alias(name) for name in counts),
        *(F.when(F.grouping("word") == 0, F.bit_or(name)).alias(name) for name in PROBLEMS),
    )
    found = summed.where(F.col("word").isNull() | is_wrong)
    return found.orderBy(F.col("word").asc_nulls_first(), "topic", "partition").limit(_MOST_WORDS)


def _counts() -> list[Column]:
    doubled = F.col("b_rows") != F.bit_count("b_bits")
    return [
        F.bit_count("b_bits").cast("bigint").alias("offsets"),
        doubled.cast("bigint").alias("doubled"),
        F.col("s_rows").alias("silver"),
        F.col("g_rows").alias("gold"),
    ]


def _problems(has_producers: bool) -> dict[str, Column]:  # noqa: FBT001 -- named by its only caller
    b, s, r, p, g, latest = (F.col(f"{source}_bits") for source in "bsrpgl")
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
