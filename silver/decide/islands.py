"""Find the islands in a load's narrow records: consecutive offsets whose sequences rise one by one.

Producers send and resend like this, so millions of records form few islands, found by one aggregation: no record is sorted or
shuffled. That finds one island for each distance of sequence and offset. A stream that comes back to a distance is decided
record by record, see `silver.decide.running_max`; where it has to be read in offset order, `runs` finds its islands by a sort.
"""

from __future__ import annotations

from functools import reduce
from itertools import groupby, pairwise
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from lakehouse.contracts.silver import STREAM, stream_of
from lakehouse.spark import frames
from lakehouse.spark.bitmaps import bit, word
from silver.model import Island, by_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from pyspark.sql import Column, DataFrame, GroupedData, SparkSession

    from lakehouse.contracts.silver import Stream

_KEYS = (*STREAM, "epoch", "problem", "distance")


def find_islands(records: DataFrame) -> DataFrame:
    """Group narrow records by the distance of their sequence from their offset.

    A row is an island if `records`, `offsets` and the length of its offset range are equal. The offsets are counted as bits
    of 64-bit words, which is exact even if Bronze holds an offset twice.

    Grain: a distance of a stream and epoch; or an invalid record.

    Args:
        records: Rows with topic, partition, producer, offset, epoch, sequence and problem.

    Returns:
        topic, partition, producer, epoch, problem, distance (bigint; sequence minus offset, or the offset if there is no
        sequence), records, offsets (distinct ones), first_offset and last_offset (all bigint).
    """
    distance = F.coalesce(F.col("sequence") - F.col("offset"), F.col("offset"))
    words = (
        records.withColumns({"distance": distance, "word": word("offset")})
        .groupBy(*_KEYS, "word")
        .agg(
            F.count(F.lit(1)).alias("records"),
            F.bit_or(bit("offset")).alias("bits"),
            F.min("offset").alias("first_offset"),
            F.max("offset").alias("last_offset"),
        )
    )
    return words.groupBy(*_KEYS).agg(
        F.sum("records").alias("records"),
        F.sum(F.bit_count("bits")).alias("offsets"),
        F.min("first_offset").alias("first_offset"),
        F.max("last_offset").alias("last_offset"),
    )


def runs(records: DataFrame) -> DataFrame:
    """Sort the records of each stream by offset, and cut them wherever an island ends.

    Grain: an island; a record at an offset that came before, as one in a Bronze that holds it twice, is one of its own.

    Args:
        records: As for `find_islands`.

    Returns:
        topic, partition, producer, run (bigint; numbers the islands of a stream), first_offset, last_offset, epoch,
        first_sequence (all bigint) and problem.
    """
    is_again = F.coalesce(F.col("offset") == _before("offset"), F.lit(False))
    same = (F.col(name).eqNullSafe(_before(name)) for name in ("epoch", "problem"))
    goes_on = reduce(
        and_, (*(F.col(name) - _before(name) == 1 for name in ("offset", "sequence")), *same, ~_before("is_again"))
    )
    return _cut(records.withColumn("is_again", is_again), goes_on).agg(
        F.min("offset").alias("first_offset"),
        F.max("offset").alias("last_offset"),
        F.min("epoch").alias("epoch"),
        F.min("sequence").alias("first_sequence"),
        F.min("problem").alias("problem"),
    )


def rises(records: DataFrame) -> DataFrame:
    """Sort the records of each stream by offset, and cut them wherever another number than the next one comes.

    Other streams' records may lie between: where producers take turns, these are few, and islands as many as records.

    Grain: records of a stream in a row whose sequences rise one by one; or those in a row whose sequence could not be read.

    Args:
        records: Rows with topic, partition, producer, offset, epoch and sequence; each offset once.

    Returns:
        topic, partition, producer, run (bigint; numbers the rows of a stream), first_offset, epoch, first_sequence and records
        (all bigint).
    """
    rises_on = (F.col("sequence") - _before("sequence") == 1) & (F.col("epoch") == _before("epoch"))
    goes_on = F.when(F.col("sequence").isNull(), _before("sequence").isNull()).otherwise(rises_on)
    return _cut(records, goes_on).agg(
        F.min("offset").alias("first_offset"),
        F.min("epoch").alias("epoch"),
        F.min("sequence").alias("first_sequence"),
        F.count(F.lit(1)).alias("records"),
    )


def _cut(records: DataFrame, goes_on: Column) -> GroupedData:
    """Group the records of each stream by runs: a record goes on with that of the record before it, or begins one."""
    number = F.sum(F.when(F.col("goes_on"), 0).otherwise(1)).over(frames.by_offset().rowsBetween(Window.unboundedPreceding, 0))
    return records.withColumn("goes_on", goes_on).withColumn("run", number).groupBy(*STREAM, "run")


def _before(name: str) -> Column:
    """A column of the record before."""
    return F.lag(name).over(frames.by_offset())


def split(rows: Iterable[Mapping[str, Any]]) -> tuple[list[Island], set[Stream]]:
    """Separate the streams that come in islands from those that do not.

    Args:
        rows: The rows of `find_islands`.

    Returns:
        The islands of the former, one stream after another, each in offset order; and the latter.
    """
    found = sorted(((_island(row), row) for row in rows), key=lambda pair: _place(pair[0]))
    chained: list[Island] = []
    odd: set[Stream] = set()
    for stream, pairs in groupby(found, key=lambda pair: pair[0].stream):
        of_stream = list(pairs)
        in_order = all(before.last_offset < after.first_offset for (before, _), (after, _) in pairwise(of_stream))
        if in_order and all(row["records"] == row["offsets"] == island.records for island, row in of_stream):
            chained += (island for island, _ in of_stream)
        else:
            odd.add(stream)
    return chained, odd


def part(spark: SparkSession, records: DataFrame, most: int) -> tuple[list[Island], DataFrame | None]:
    """Separate the streams that come in islands from the records of the others.

    Args:
        spark: The session.
        records: As for `find_islands`.
        most: The most islands that the driver takes; if there are more, no stream is taken to come in them.

    Returns:
        The islands as `split` returns them; and the records of the other streams, None if there are none.
    """
    found = find_islands(records).limit(most + 1).toArrow()
    if len(found) > most:
        return [], records
    chained, odd = split(found.to_pylist())
    return chained, frames.of_streams(spark, records, odd) if odd else None


def _place(island: Island) -> tuple[tuple[str, int, bool, str], int]:
    return by_name(island.stream), island.first_offset


def _island(row: Mapping[str, Any]) -> Island:
    stream, epoch, problem = stream_of(row), row["epoch"], row["problem"]
    first, last, distance = row["first_offset"], row["last_offset"], row["distance"]
    sequence = None if epoch is None else distance + first
    return Island(stream, first, last, epoch, sequence, problem)
