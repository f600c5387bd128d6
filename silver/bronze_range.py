"""The pinned Bronze range of a load: whole Bronze versions, and the offsets that were decided before them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse import delta, frames
from lakehouse.table import BRONZE_RECORDS
from silver.ledger import Arrivals
from silver.spans import any_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.run import Run


Partition = tuple[str, int]
"""topic, partition"""


@dataclass(frozen=True)
class BronzeRange:
    """The Bronze versions (after_version, to_version], and where the decided records of each partition end.

    Attributes:
        after_version: The version that the load before ended with; -1 before the first.
        to_version: The last version of the range, inclusive.
        above: The last decided offset of each partition before the load.
        appended: Records that the versions added, by their commits; None where a commit does not say.
    """

    after_version: int
    to_version: int
    above: Mapping[Partition, int]
    appended: int | None


def pin(
    spark: SparkSession,
    run: Run,
    *,
    after_version: int,
    above: Mapping[Partition, int],
    to_version: int | None = None,
) -> BronzeRange:
    """Pin the Bronze versions after one, up to the latest or a given one."""
    to_version, appended = delta.appended(spark, run.table(BRONZE_RECORDS), after_version=after_version, to_version=to_version)
    return BronzeRange(after_version, to_version, above, appended)


def read(spark: SparkSession, run: Run, bronze_range: BronzeRange) -> DataFrame:
    """The range's records that are not decided yet, whole.

    Bronze is read as of the range's last version, above the offsets that were decided before: Delta's file statistics leave
    out what lies below, and columns that are not selected are not read.

    Grain: a Bronze record above its partition's last decided offset; one that was read twice comes twice.
    """
    records = delta.read(spark, run.table(BRONZE_RECORDS), version=bronze_range.to_version)
    decided = [_is_decided(partition, offset) for partition, offset in bronze_range.above.items()]
    return records.where(~any_of(decided)) if decided else records


def arrivals(spark: SparkSession, run: Run, bronze_range: BronzeRange, decided: Mapping[Partition, int]) -> list[Arrivals]:
    """Count what the range holds of each partition.

    Where the range's commits added as many records as were decided, nothing was read again and the count is done. Else the
    change feed is counted, which names what a version added whatever was compacted since. Where a version is gone from the
    log, the decided records are all that is known; re-read ones are not seen then.

    Args:
        spark: The session.
        run: The run.
        bronze_range: The range.
        decided: Records of each partition that were read from the range and decided.
    """
    above = bronze_range.above
    all_new = [Arrivals(*partition, records, 0, above.get(partition)) for partition, records in decided.items()]
    if bronze_range.appended == sum(decided.values()):
        return all_new
    offsets = [(*partition, offset) for partition, offset in above.items()]
    known = frames.of_tuples(spark, offsets, "topic string, partition int, above bigint")
    counted = delta.collect_appended(
        spark,
        run.table(BRONZE_RECORDS),
        after_version=bronze_range.after_version,
        to_version=bronze_range.to_version,
        summary=partial(_counted, decided=known),
    )
    if counted is None:
        run.report.event("silver.versions_gone", after_version=bronze_range.after_version, to_version=bronze_range.to_version)
        return all_new
    arrived = [Arrivals(row["topic"], row["partition"], row["records"], row["replayed"], row["above"]) for row in counted]
    # Decided, and not brought by the range: the partition's watermark was put back, and its records are older.
    unbrought = decided.keys() - {(each.topic, each.partition) for each in arrived}
    return arrived + [Arrivals(*partition, 0, 0, above.get(partition)) for partition in sorted(unbrought)]


def _counted(records: DataFrame, *, decided: DataFrame) -> DataFrame:
    """Count the records of each partition, and those of them that were decided before."""
    compared = records.select("topic", "partition", "offset").join(F.broadcast(decided), on=["topic", "partition"], how="left")
    is_replay = F.coalesce(F.col("offset") <= F.col("above"), F.lit(False))
    return compared.groupBy("topic", "partition", "above").agg(
        F.count(F.lit(1)).alias("records"), F.count_if(is_replay).alias("replayed")
    )


def _is_decided(partition: Partition, offset: int) -> Column:
    return (F.col("topic") == partition[0]) & (F.col("partition") == partition[1]) & (F.col("offset") <= offset)
