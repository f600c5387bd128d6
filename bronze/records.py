"""What Bronze keeps of a Kafka record: everything that the source hands over, bytes untouched. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakehouse.contracts.bronze import BRONZE
from lakehouse.contracts.model import ERASED_IN_BRONZE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame


def bronze_records(consumed: DataFrame, run_id: str, stored_as: Mapping[str, str] | None = None) -> DataFrame:
    """The rows of `bronze_records` for the rows of Spark's Kafka source.

    Nothing is decoded, trimmed or dropped: what a producer sent is decided on in Silver, from these bytes.

    Args:
        consumed: One row per Kafka record, as the source gives it with `includeHeaders`: key, value, topic, partition, offset,
            timestamp, timestampType, headers.
        run_id: The run that reads them.
        stored_as: The name in the tables of each topic that has another one than in Kafka, see `bronze_topics`.

    Returns:
        One row per Kafka record, with the contract's columns: topic, partition, offset, timestamp (UTC), timestamp_type
        (0 CreateTime, 1 LogAppendTime), key, value, headers (null where there is none), ingested_at (UTC, one instant per
        micro-batch), run_id, erased (null).

    Raises:
        ContractError: The source's columns are not those.
    """
    renamed = F.coalesce(*(F.when(F.col("topic") == name, F.lit(other)) for name, other in (stored_as or {}).items()), "topic")
    return BRONZE.select(
        consumed.withColumnsRenamed({"timestampType": "timestamp_type"}).withColumns(
            {
                "topic": renamed,
                "ingested_at": F.current_timestamp(),
                "run_id": F.lit(run_id),
                "erased": F.lit(None).cast(ERASED_IN_BRONZE),
            }
        )
    )
