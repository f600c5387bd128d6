"""Decide each record by the running maximum of its stream. A pure function of the records, the watermarks and the rules.

Rule: docs/rule.md. Records are decided in Kafka offset order. A record is in order when its (epoch, sequence) is
above its stream's watermark and above every earlier one of the load. Others of the same epoch are suspects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, Window
from pyspark.sql import functions as F

from lakehouse.contracts.silver import ACCEPTED, FENCED, INVALID, REPLAY, STREAM, SUSPECT
from lakehouse.spark import frames, interval_join

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.window import WindowSpec

SEGMENT_KEYS = (*STREAM, "epoch", "class", "reason", "block")


def classify(records: DataFrame, watermarks: DataFrame, *, has_epochs: bool) -> DataFrame:
    """Give each record its class, by the running maximum of its stream.

    Exact except for `jump`, which no running maximum can decide: if a stream has a `step` above `max_jump`,
    `silver.decide.sequential` decides the stream instead.

    Grain: a record, as given.

    Args:
        records: Rows with topic, partition, offset, producer, epoch, sequence and problem, as `silver.extract.columns`
            returns them; all offsets are above the partition's last decided one.
        watermarks: A row per stream with topic, partition, producer, known_epoch and known_sequence.
        has_epochs: Whether epochs differ. If all are 0, only sequences are compared, at half the cost.

    Returns:
        The records with epoch and sequence (null if they could not be read, or for a replay), `class` and `reason` (string),
        `step` (bigint; how far an accepted sequence is above the highest before it, null for the first of an epoch) and
        `previous` (bigint; sequence of the record before it in its stream and epoch).
    """
    by_offset, earlier = frames.by_offset(), frames.by_offset().rowsBetween(Window.unboundedPreceding, -1)
    known = records.join(F.broadcast(watermarks), on=frames.same_stream(records, watermarks), how="left").select(
        *(records[name] for name in records.columns), "known_epoch", "known_sequence"
    )
    is_replay = F.coalesce(F.lag("offset").over(by_offset) == F.col("offset"), F.lit(False))
    is_read = ~F.col("is_replay") & F.col("problem").isNull()
    told = {f"told_{name}": F.when(~F.col("is_replay"), F.col(name)) for name in ("epoch", "sequence")}
    read = known.withColumn("is_replay", is_replay).withColumns(
        {**told, "epoch": F.when(is_read, F.col("epoch")), "sequence": F.when(is_read, F.col("sequence"))}
    )
    if has_epochs:
        ordinal = F.when(F.col("sequence").isNotNull(), F.struct("epoch", "sequence"))
        watermark = F.when(F.col("known_sequence").isNotNull(), _ordinal("known_epoch", "known_sequence"))
        highest, before = _highest(ordinal, watermark, earlier), _before(ordinal, watermark, earlier)
        compared = read.withColumns({"_highest": highest, "_before": before}).withColumns(
            {
                "highest_epoch": F.col("_highest.epoch"),
                "highest": F.col("_highest.sequence"),
                "before_epoch": F.col("_before.epoch"),
                "before": F.col("_before.sequence"),
            }
        )
    else:
        sequence, watermark = F.col("sequence"), F.col("known_sequence")
        zero = F.lit(0).cast("bigint")
        compared = read.withColumns(
            {"highest": _highest(sequence, watermark, earlier), "before": _before(sequence, watermark, earlier)}
        ).withColumns({"highest_epoch": zero, "before_epoch": zero})
    is_same_epoch = F.col("epoch") == F.col("highest_epoch")
    is_accepted = F.col("class") == ACCEPTED
    return (
        compared.withColumn("class", _class())
        .withColumns(
            {
                "reason": F.when(F.col("class") == INVALID, F.col("problem")),
                "step": F.when(is_accepted & is_same_epoch, F.col("sequence") - F.col("highest")),
                "previous": F.when(F.col("epoch") == F.col("before_epoch"), F.col("before")),
            }
        )
        .select(
            *STREAM,
            "offset",
            *(F.col(f"told_{name}").alias(name) for name in ("epoch", "sequence")),
            *("class", "reason", "step", "previous"),
        )
    )


def segments(classified: DataFrame) -> DataFrame:
    """Sum up the classified records: one row per stream and epoch for the accepted ones, and one per block of the others.

    Grain: all accepted records of a stream and epoch; or a block of the others: a single record if it waits for a decision, an
    unbroken run of replays, or of suspects with rising sequences.

    Args:
        classified: What `classify` returns.

    Returns:
        topic, partition, producer, epoch, class, reason, block (bigint; numbers the blocks of a stream, 0 for accepted),
        records, first_offset, last_offset, first_sequence, last_sequence, jumps_forward, jumps_backward and max_step
        (all bigint).
    """
    sequence, previous = F.col("sequence"), F.col("previous")
    return (
        classified.withColumn("block", _block())
        .groupBy(*SEGMENT_KEYS)
        .agg(
            *interval_join.summed(),
            F.count_if(sequence - previous > 1).alias("jumps_forward"),
            F.count_if(sequence < previous).alias("jumps_backward"),
            F.max("step").alias("max_step"),
        )
    )


def _highest(ordinal: Column, watermark: Column, earlier: WindowSpec) -> Column:
    return F.greatest(F.max(ordinal).over(earlier), watermark)


def _before(ordinal: Column, watermark: Column, earlier: WindowSpec) -> Column:
    return F.coalesce(F.last(ordinal, ignorenulls=True).over(earlier), watermark)


def _class() -> Column:
    """The class by the running maximum; a null `highest` means that nothing was accepted before."""
    epoch, highest_epoch = F.col("epoch"), F.col("highest_epoch")
    return (
        F.when(F.col("is_replay"), REPLAY)
        .when(F.col("problem").isNotNull(), INVALID)
        .when(F.col("highest").isNull() | (epoch > highest_epoch), ACCEPTED)
        .when(epoch < highest_epoch, FENCED)
        .when(F.col("sequence") > F.col("highest"), ACCEPTED)
        .otherwise(SUSPECT)
    )


def _block() -> Column:
    """Number the blocks of a stream: a new one starts where a run of suspects or replays breaks."""
    by_offset = frames.by_offset()
    rises = (F.lag("epoch").over(by_offset) == F.col("epoch")) & (F.lag("sequence").over(by_offset) < F.col("sequence"))
    continues = (F.lag("class").over(by_offset) == F.col("class")) & (
        (F.col("class") == REPLAY) | ((F.col("class") == SUSPECT) & rises)
    )
    starts = F.when(F.coalesce(continues, F.lit(False)), 0).otherwise(1)
    number = F.sum(starts).over(by_offset.rowsBetween(Window.unboundedPreceding, 0))
    return F.when(F.col("class") == ACCEPTED, F.lit(0).cast("bigint")).otherwise(number)


def _ordinal(epoch: str, sequence: str) -> Column:
    return F.struct(F.col(epoch).alias("epoch"), F.col(sequence).alias("sequence"))
