"""Summaries of Silver's tables, in few rows, each in one narrow pass. Pure: nothing is read or written here.

Numbers are counted as bits of 64-bit words, as in `lakehouse.spark.bitmaps`: exact, and little is shuffled however many there
are.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from lakehouse.contracts.silver import HELD, IN_ORDER, STREAM
from lakehouse.spark.bitmaps import bit, word

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OF_LOAD = (*STREAM, "load_seq", "epoch", "arrival")
_OF_WORD = (*STREAM, "epoch", "word")


def kept(records: DataFrame) -> DataFrame:
    """Sum up Silver's rows by load, and find sequences that occur twice, in one pass.

    In-order rows are checked by words of 64 sequences: each word's offsets must be above those of the word before. A fall
    within a word is not seen here, but by the gate and `verify --deep`.

    Args:
        records: Rows of `silver_records`.

    Returns:
        topic, partition, producer, load_seq, epoch, arrival, is_word (0 for a row by load, 1 for a word with more rows than
        sequences, whose load_seq and arrival are null), rows, sequences, first_sequence, last_sequence and falls (bigint).
    """
    by_sequence = Window.partitionBy(*STREAM, "load_seq", "arrival").orderBy("epoch", "word")
    words = (
        records.select(*_OF_LOAD, word("sequence").alias("word"), "sequence", "offset")
        .groupBy(*_OF_LOAD, "word")
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.bit_or(bit("sequence")).alias("bits"),
            F.min("sequence").alias("first_sequence"),
            F.max("sequence").alias("last_sequence"),
            F.min("offset").alias("first_offset"),
            F.max("offset").alias("last_offset"),
        )
    )
    falls = (F.col("arrival") == IN_ORDER) & (F.col("first_offset") <= F.lag("last_offset").over(by_sequence))
    # Two groupings of few words, in one: by load, and by word over all loads.
    columns = (*STREAM, "load_seq", "epoch", "arrival", "word")
    grouped = words.withColumn("falls", F.coalesce(falls.cast("bigint"), F.lit(0))).groupingSets(
        [list(_OF_LOAD), list(_OF_WORD)], *columns
    )
    summed = grouped.agg(
        F.grouping("load_seq").alias("is_word"),
        F.sum("rows").alias("rows"),
        F.bit_count(F.bit_or("bits")).cast("bigint").alias("sequences"),
        F.min("first_sequence").alias("first_sequence"),
        F.max("last_sequence").alias("last_sequence"),
        F.sum("falls").alias("falls"),
    )
    return summed.where((F.col("is_word") == 0) | (F.col("rows") != F.col("sequences"))).drop("word")


def parted(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Split the rows of `kept` into sums of a stream and load, as `lakehouse.reconcile` takes them, and repeated sequences."""
    loads: defaultdict[tuple[object, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if not row["is_word"]:
            loads[tuple(row[name] for name in (*STREAM, "load_seq"))].append(row)
    sums = [_sum(place, parts) for place, parts in loads.items()]
    return sums, [row for row in rows if row["is_word"]]


def _sum(place: tuple[object, ...], parts: list[dict[str, Any]]) -> dict[str, Any]:
    in_order = [row for row in parts if row["arrival"] == IN_ORDER]
    firsts = [(row["epoch"], row["first_sequence"]) for row in in_order if None not in (row["epoch"], row["first_sequence"])]
    lasts = [(row["epoch"], row["last_sequence"]) for row in parts if None not in (row["epoch"], row["last_sequence"])]
    return {
        **dict(zip((*STREAM, "load_seq"), place, strict=True)),
        "rows": sum(row["rows"] for row in parts),
        "not_increasing": sum(row["falls"] for row in in_order),
        "first": dict(zip(("epoch", "sequence"), min(firsts), strict=True)) if firsts else None,
        "last": dict(zip(("epoch", "sequence"), max(lasts), strict=True)) if lasts else None,
    }


def rejects(rows: DataFrame, finished: int) -> DataFrame:
    """Sum up the rejects by stream, load, class and state, as of the last finished load.

    Args:
        rows: Rows of `silver_rejects`.
        finished: The last finished load.
    """
    shown = as_of(rows, finished).select(*STREAM, "load_seq", "class", "state", "settled_load_seq", "records")
    return shown.groupBy(*STREAM, "load_seq", "class", "state", "settled_load_seq").agg(F.sum("records").alias("records"))


def as_of(rejects: DataFrame, finished: int) -> DataFrame:
    """Return the rejects of the loads up to `finished`, in the state in which that load left them."""
    is_later = F.coalesce(F.col("settled_load_seq") > finished, F.lit(False))
    known = rejects.where(F.col("load_seq").isNull() | (F.col("load_seq") <= finished))
    return known.withColumns(
        {
            "state": F.when(is_later, F.lit(HELD)).otherwise(F.col("state")),
            "settled_load_seq": F.when(~is_later, F.col("settled_load_seq")),
        }
    )
