"""The tables that Gold publishes."""

from lakehouse.contracts.contract import Column, Contract
from lakehouse.contracts.silver import COUNTS, EPOCH, STREAM_COLUMNS, record_columns
from lakehouse.table import GOLD_LATEST, GOLD_LATEST_BY_STREAM, GOLD_RECORDS, GOLD_REJECTS, GOLD_STREAM_HEALTH

_GRAINS = {
    GOLD_RECORDS: "A published record.",
    GOLD_LATEST: "The latest published record of a topic and key: the highest (epoch, sequence) of each stream, of these the "
    "greatest (timestamp, partition, offset). Tombstones are included, with a null value; records without a key are not.",
    GOLD_LATEST_BY_STREAM: "The published record of a topic, key and stream with the highest (epoch, sequence), for keys in "
    "several streams.",
}
RECORD_TABLES = tuple(_GRAINS)


def of_records(payload_type: str | None = None, name: str = GOLD_RECORDS) -> Contract:
    """Return the contract of a table of published records: Silver's columns and the gate run."""
    gate_run = Column("gate_run_id", "string", "The gate run that admitted the record's load to Gold")
    return Contract(name, _GRAINS[name], (*record_columns(payload_type), gate_run))


UNMET = "unmet"
"""The label of a record that an operator's expectation kept out of Gold. Not a class of a load."""

REJECTS = Contract(
    GOLD_REJECTS,
    "A record of Silver that an expectation kept out of Gold in a gate run. The row is valid if that gate run admitted the "
    "record's load, so that gold_stream_health names both.",
    (
        *STREAM_COLUMNS,
        Column("offset", "bigint", "Kafka offset within the partition"),
        EPOCH,
        Column("sequence", "bigint", "Sequence within the stream and epoch"),
        Column("load_seq", "bigint", "The load that brought the record into Silver"),
        Column("reason", "string", "The expectations that it does not meet, with their columns"),
        Column("gate_run_id", "string", "The gate run that found it"),
        Column("state", "string", "held: waits for a decision; released: goes to Gold; discarded: does not"),
        Column("settled_load_seq", "bigint", "The load that released or discarded it; null if none did"),
    ),
)

STREAM_HEALTH = Contract(
    GOLD_STREAM_HEALTH,
    "A stream in a published load, for dashboards.",
    (
        Column("load_seq", "bigint", "Number of the load"),
        *STREAM_COLUMNS,
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
        Column("gate_run_id", "string", "The gate run that admitted the load to Gold"),
        Column("published_at", "timestamp", "When the load was published, UTC"),
    ),
)
