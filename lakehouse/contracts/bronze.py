"""The table that Bronze writes and Silver reads."""

from __future__ import annotations

from lakehouse.contracts.model import ERASED_IN_BRONZE, HEADERS, Column, Contract
from lakehouse.table import BRONZE_RECORDS

BRONZE = Contract(
    BRONZE_RECORDS,
    "A Kafka record as it was read, bytes untouched. A record that was read twice has two rows. Append-only, but for erasures.",
    (
        Column("topic", "string", "Kafka topic"),
        Column("partition", "int", "Kafka partition"),
        Column("offset", "bigint", "Kafka offset within the partition"),
        Column("timestamp", "timestamp", "Kafka timestamp of the record, UTC"),
        Column("timestamp_type", "int", "0: set by the producer (CreateTime), 1: set by the broker (LogAppendTime)"),
        Column("key", "binary", "Record key, bytes untouched; null where the record has none"),
        Column("value", "binary", "Record value, bytes untouched; null for a tombstone"),
        Column("headers", HEADERS, "Record headers in their order, bytes untouched; null where the record has none"),
        Column("ingested_at", "timestamp", "When Bronze read the record, UTC"),
        Column("run_id", "string", "The run that read the record"),
        Column(
            "erased",
            ERASED_IN_BRONZE,
            "Null, but where key, value and headers were erased by request: the load that did it, the partition's last decided "
            "offset by then, and what the extractors had read and the exact look had found",
        ),
    ),
    # The change feed is how Silver counts what each Bronze version added; for an append-only table it stores nothing.
    {"delta.appendOnly": "true", "delta.enableChangeDataFeed": "true"},
    clustered_by=("topic", "partition", "offset"),
)
