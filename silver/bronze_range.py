"""The pinned Bronze range of a load: whole Bronze versions, and the offsets that they brought to each partition."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse import delta, frames
from lakehouse.table import BRONZE_RECORDS
from silver.ledger import Arrivals

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.run import Run


@dataclass(frozen=True)
class BronzeRange:
    """The Bronze versions (after_version, to_version], and what they hold of each partition.

    Attributes:
        after_version: The version that the load before ended with; -1 before the first.
        to_version: The last version of the range, inclusive.
        arrivals: A row per partition that the range touches.
    """

    after_version: int
    to_version: int
    arrivals: tuple[Arrivals, ...]


def pin(
    spark: SparkSession,
    run: Run,
    *,
    after_version: int,
    last_offsets: Mapping[tuple[str, int], int],
    to_version: int | None = None,
) -> BronzeRange:
    """Pin the Bronze versions after one, up to the latest or a given one, and count what they added to each partition.

    The count comes from the change feed, which names what a version appended whatever was compacted since. Where a version
    is gone from the log, what lies above each partition's last offset is counted instead; re-read records are not seen then.
    """
    bronze = run.table(BRONZE_RECORDS)
    to_version = delta.version(spark, bronze) if to_version is None else to_version
    if to_version <= after_version:
        return BronzeRange(after_version, to_version, ())
    offsets = [(*partition, offset) for partition, offset in last_offsets.items()]
    decided = frames.of_tuples(spark, offsets, "topic string, partition int, above bigint")
    counted = delta.collect_appended(
        spark, bronze, after_version=after_version, to_version=to_version, summary=partial(_counted, decided=decided)
    )
    if counted is None:
        run.report.event("silver.versions_gone", after_version=after_version, to_version=to_version)
        everything = delta.read(spark, bronze, version=to_version)
        counted = _counted(everything, decided=decided, is_new_only=True).collect()
    arrivals = [
        Arrivals(row["topic"], row["partition"], row["records"], row["replayed"], row["above"], row["to_offset"])
        for row in counted
    ]
    return BronzeRange(after_version, to_version, tuple(sorted(arrivals, key=lambda row: (row.topic, row.partition))))


def read(spark: SparkSession, run: Run, bronze_range: BronzeRange) -> DataFrame:
    """The range's records that are not decided yet, whole.

    Bronze is read as of the range's last version, by the offsets that the range brought: Delta's file statistics leave out
    what was decided before, and columns that are not selected are not read.

    Grain: a Bronze record above its partition's last decided offset; one that was read twice comes twice.
    """
    spans = [_span(arrived) for arrived in bronze_range.arrivals if arrived.records > arrived.replayed]
    return delta.read(spark, run.table(BRONZE_RECORDS), version=bronze_range.to_version).where(_any(spans))


def _counted(records: DataFrame, *, decided: DataFrame, is_new_only: bool = False) -> DataFrame:
    """Count the records of each partition, and those of them that were decided before."""
    is_new = F.col("above").isNull() | (F.col("offset") > F.col("above"))
    compared = records.select("topic", "partition", "offset").join(F.broadcast(decided), on=["topic", "partition"], how="left")
    counted = compared.where(is_new) if is_new_only else compared
    return counted.groupBy("topic", "partition", "above").agg(
        F.count(F.lit(1)).alias("records"), F.count_if(~is_new).alias("replayed"), F.max("offset").alias("to_offset")
    )


def _span(arrived: Arrivals) -> Column:
    in_partition = (F.col("topic") == arrived.topic) & (F.col("partition") == arrived.partition)
    up_to = in_partition & (F.col("offset") <= arrived.to_offset)
    return up_to if arrived.above is None else up_to & (F.col("offset") > arrived.above)


def _any(conditions: Sequence[Column]) -> Column:
    """A balanced OR: a chain of a thousand would overflow the planner's stack."""
    if not conditions:
        return F.lit(False)
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    return _any(conditions[:middle]) | _any(conditions[middle:])
