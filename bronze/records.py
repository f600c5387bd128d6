"""Build the rows of Bronze: all columns of the Kafka source with unchanged bytes, and the extracted columns. Pure.

A Kafka timestamp is any 64-bit number; -1 means none. Every engine reads the years 1 to 9999. For other numbers, and for
-1, `timestamp` is null and `timestamp_ms` holds the number.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakehouse.contracts.bronze import BRONZE, EXTRACTED, FINGERPRINT
from lakehouse.contracts.contract import ERASED_IN_BRONZE
from lakehouse.extract.columns import extract, fingerprint

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lakehouse.extract.sources import Sources

_NO_TIMESTAMP = -1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_FIRST_MS = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MILLISECOND
_LAST_MS = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MILLISECOND
_GREGORIAN_MS = (datetime(1582, 10, 15, tzinfo=UTC) - _EPOCH) // _MILLISECOND


def timestamp_columns(milliseconds: int) -> dict[str, object]:
    """Return `timestamp` and `timestamp_ms` of a record, from Kafka's timestamp.

    >>> timestamp_columns(1_795_254_019_000)["timestamp"].isoformat(), timestamp_columns(2**63 - 1)
    ('2026-11-21T09:40:19+00:00', {'timestamp': None, 'timestamp_ms': 9223372036854775807})
    >>> times = [0, -1, _FIRST_MS, _FIRST_MS - 1, _LAST_MS, _LAST_MS + 1]
    >>> [timestamp_columns(each)["timestamp"] is not None for each in times]
    [True, False, True, False, True, False]
    """
    if _FIRST_MS <= milliseconds <= _LAST_MS and milliseconds != _NO_TIMESTAMP:
        return {"timestamp": _EPOCH + milliseconds * _MILLISECOND, "timestamp_ms": None}
    return {"timestamp": None, "timestamp_ms": milliseconds}


def bronze_records(
    consumed: DataFrame, run_id: str, stored_as: Mapping[str, str] | None = None, sources: Sources | None = None
) -> DataFrame:
    """Turn the rows of Spark's Kafka source into rows of `bronze_records`. Nothing is trimmed or dropped.

    Grain: a Kafka record. Columns: topic (as in `stored_as` if the name differs), partition, offset, timestamp (UTC; null if it
    is no time), timestamp_type (0 CreateTime, 1 LogAppendTime), key, value, headers (null if there are none), ingested_at (UTC,
    one instant per micro-batch), run_id, erased (null), timestamp_ms (null if it is a time), and those of `with_extracted`.

    Raises:
        ContractError: The source has other columns.
    """
    renamed = F.coalesce(*(F.when(F.col("topic") == name, F.lit(other)) for name, other in (stored_as or {}).items()), "topic")
    milliseconds = _kafka_milliseconds()
    is_none = ~milliseconds.between(_FIRST_MS, _LAST_MS) | (milliseconds == _NO_TIMESTAMP)
    records = consumed.withColumnsRenamed({"timestampType": "timestamp_type"}).withColumns(
        {
            "topic": renamed,
            "ingested_at": F.current_timestamp(),
            "run_id": F.lit(run_id),
            "erased": F.lit(None).cast(ERASED_IN_BRONZE),
            "timestamp": F.when(~is_none, F.timestamp_millis(milliseconds)),
            "timestamp_ms": F.when(is_none, milliseconds),
        }
    )
    return BRONZE.select(with_extracted(records, sources))


def with_extracted(records: DataFrame, sources: Sources | None) -> DataFrame:
    """Add producer (string), epoch and sequence (bigint), problem and rules_fingerprint (string): null if not extracted.

    Silver runs custom extractors and reads fields of Avro or Protobuf values; without `sources` it extracts everything. If the
    function or the schema registry failed here, Bronze would stop.
    """
    if sources is None or sources.is_left_to_silver:
        return records.withColumns({name: F.lit(None).cast(BRONZE.type_of(name)) for name in (*EXTRACTED, FINGERPRINT)})
    return extract(records, sources, is_ingest=True).withColumn(FINGERPRINT, fingerprint(sources))


def _kafka_milliseconds() -> Column:
    """Recover Kafka's number from the column `timestamp` of Spark's source.

    The source uses `java.sql.Timestamp`: before 15 October 1582 it reads a Julian date as the Gregorian date with the same
    name. This reverses that, except that a 29 February that only the Julian calendar has becomes the next day.
    """
    day = {"y": "year(timestamp) + 4800L", "m": "month(timestamp)", "d": "day(timestamp)"}
    years = "({y} - IF({m} < 3, 1, 0))".format(**day)
    days_before_month = "floor((153 * ({m} + IF({m} < 3, 9, -3)) + 2) / 5)".format(**day)
    julian_day = f"{day['d']} + {days_before_month} + 365 * {years} + floor({years} / 4) - 32083 - 2440588"
    julian = F.expr(f"({julian_day}) * 86400000L + pmod(unix_millis(timestamp), 86400000L)")
    milliseconds = F.unix_millis("timestamp")
    return F.when(milliseconds < _GREGORIAN_MS, julian).otherwise(milliseconds)
