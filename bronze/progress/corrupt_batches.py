"""Finds batches of a log that cannot be decoded. Uses Spark's source, which has every login, also over Spark Connect."""

from __future__ import annotations

from bisect import bisect_left
from functools import partial
from typing import TYPE_CHECKING

from bronze.kafka.errors import corrupt_batch, failure, malformed_timestamp
from bronze.kafka.source import range_options
from lakehouse.contracts.bronze import LostRange
from lakehouse.delta.errors import SPARK_ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from bronze.kafka.errors import Corrupt
    from lakehouse.settings.pipeline import Kafka


def first(
    spark: SparkSession, kafka: Kafka, place: tuple[str, int], span: tuple[int, int], met: Corrupt | None = None
) -> LostRange | None:
    """Return the offsets of the first corrupt batch in a span of a partition, or None. `met` is that batch, if it is known.

    The end of a batch is unknown until the batch is decoded. So a binary search over the span finds it, with reads of
    single offsets.

    Raises:
        SourceError: The partition cannot be read for another reason.
    """
    start, end = span
    failed = partial(_failed, spark, kafka, place)
    met = met or failed(start, end)
    if met is None:
        return None
    begin = met.offset
    if begin is None:
        begin = _least(start, end, lambda offset: failed(start, offset + 1) is not None)
    begin = max(start, begin)

    def is_past(offset: int) -> bool:
        found = failed(offset, offset + 1)
        return found is None or found.offset != met.offset

    after = _least(begin, end, is_past)
    return LostRange(place[1], begin, after - 1) if after > begin else None  # another replica leads by now


def _least(start: int, end: int, holds: Callable[[int], bool]) -> int:
    """Return the least offset from which on a condition holds, or the end."""
    return start + bisect_left(range(start, end), 1, key=lambda offset: int(holds(offset)))


def _failed(spark: SparkSession, kafka: Kafka, place: tuple[str, int], start: int, end: int) -> Corrupt | None:
    """Return the corrupt batch on which a read of an offset range fails, or None."""
    records = spark.read.format("kafka").options(**range_options(kafka, {place: (start, end)})).load()
    try:
        records.agg({"offset": "max"}).collect()
    except SPARK_ERRORS as error:
        met = corrupt_batch(error)
        if met is None and malformed_timestamp(error) is None:
            raise failure(error, kafka, "") from None
        return met
    return None
