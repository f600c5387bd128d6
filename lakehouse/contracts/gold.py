"""The tables that Gold publishes."""

from __future__ import annotations

from lakehouse.contracts.contract import Column, Contract
from lakehouse.contracts.silver import COUNTS, record_columns
from lakehouse.table import GOLD_LATEST, GOLD_LATEST_BY_STREAM, GOLD_RECORDS, GOLD_REJECTS, GOLD_STREAM_HEALTH

_GATE_RUN = Column("gate_run_id", "string", "The gate run that let the record's load out")


def gold_records(payload_type: str | None = None) -> Contract:
    """Return the contract of `gold_records`: Silver's columns and the gate run that published each record."""
    return Contract(GOLD_RECORDS, "A published record.", (*record_columns(payload_type), _GATE_RUN))


def gold_latest(payload_type: str | None = None) -> Contract:
    """Return the contract of `gold_latest`: the latest published record of each topic and key."""
    grain = (
        "The latest published record of a topic and key: the highest (epoch, sequence) of each stream, of these the greatest "
        "(timestamp, partition, offset). A record without a key is not here; a tombstone is, its value null."
    )
    return Contract(GOLD_LATEST, grain, (*record_columns(payload_type), _GATE_RUN))


def gold_latest_by_stream(payload_type: str | None = None) -> Contract:
    """Return the contract of `gold_latest_by_stream`: what `gold_latest` chooses from if more than one stream has a key."""
    grain = "The published record of a topic, key and stream with the highest (epoch, sequence), of keys in several streams."
    return Contract(GOLD_LATEST_BY_STREAM, grain, (*record_columns(payload_type), _GATE_RUN))


UNMET = "unmet"
"""The label of a record that Silver accepted and an operator's expectation kept out of Gold. Not a class of a load."""

REJECTS = Contract(
    GOLD_REJECTS,
    "A record that Silver holds and an expectation kept out of Gold, as one gate run found it. The row holds where that gate "
    "run let the record's load out: where gold_stream_health names both.",
    (
        Column("topic", "string", "Kafka topic"),
        Column("partition", "int", "Kafka partition"),
        Column("producer", "string", "Producer within the partition; null where none is configured"),
        Column("offset", "bigint", "Kafka offset within the partition"),
        Column("epoch", "bigint", "Epoch of the sequence; 0 where none is configured"),
        Column("sequence", "bigint", "Sequence within the stream and epoch"),
        Column("load_seq", "bigint", "The load that brought the record into Silver"),
        Column("reason", "string", "The expectations that it does not meet, with their columns"),
        Column("gate_run_id", "string", "The gate run that found it"),
        Column("state", "string", "held: waits for a decision; released: goes to Gold; discarded: does not"),
        Column("settled_load_seq", "bigint", "The load that released or discarded it; null where nobody did"),
    ),
)

STREAM_HEALTH = Contract(
    GOLD_STREAM_HEALTH,
    "A stream in a published load, for dashboards.",
    (
        Column("load_seq", "bigint", "Number of the load"),
        Column("topic", "string", "Kafka topic"),
        Column("partition", "int", "Kafka partition"),
        Column("producer", "string", "Producer within the partition; null where none is configured or none could be read"),
        Column("records", "bigint", "Bronze records of the stream in the load"),
        *COUNTS,
        Column("missing", "bigint", "Sequences that the accepted records stepped over"),
        Column("jumps_forward", "bigint", "Records more than one above the record before them"),
        Column("jumps_backward", "bigint", "Records below the record before them"),
        Column("undecodable", "bigint", "Accepted records whose value could not be decoded"),
        Column("epoch", "bigint", "Epoch of the watermark after the load"),
        Column("high_watermark", "bigint", "High watermark after the load"),
        Column("last_offset", "bigint", "Last Kafka offset decided by the load"),
        Column("newest_record_at", "timestamp", "Latest Kafka timestamp among the accepted records, UTC"),
        Column("claimed_at", "timestamp", "When the load was claimed, UTC"),
        Column("gate_run_id", "string", "The gate run that let the load out"),
        Column("published_at", "timestamp", "When the load was published, UTC"),
    ),
)
