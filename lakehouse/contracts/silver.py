"""The tables that Silver writes: records, watermarks, rejects and the ledger of loads."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from lakehouse.contracts.contract import ERASED, HEADERS, RANGES, Column, Contract
from lakehouse.table import SILVER_LOADS, SILVER_RECORDS, SILVER_REJECTS, SILVER_WATERMARKS

if TYPE_CHECKING:
    from pyspark.sql import Row

ACCEPTED = "accepted"
DUPLICATE = "duplicate"
LATE = "late"
COLLISION = "collision"
INVALID = "invalid"
JUMP = "jump"
FENCED = "fenced"
REPLAY = "replay"

CLASSES = (ACCEPTED, DUPLICATE, LATE, COLLISION, INVALID, JUMP, FENCED, REPLAY)

WHY = {
    ACCEPTED: "its sequence was above the watermark and above every earlier one of its load",
    DUPLICATE: "its sequence was known already, with the same key and value",
    LATE: "its sequence was below the watermark and had never come before",
    COLLISION: "its sequence was known already, with another key or value",
    INVALID: "sequence, producer or epoch could not be read",
    JUMP: "its sequence was further above the watermark than its topic's max_jump",
    FENCED: "its epoch was below its stream's, and its sequence had never come before",
}
"""The rule of each class, in words. A replay has no rule: it has the class of its first copy."""

SUSPECT = "suspect"
"""A record that is not in order, until a comparison by content gives it a class."""

Quarantined = Literal["late", "collision", "invalid", "jump", "fenced"]
QUARANTINED: tuple[str, ...] = get_args(Quarantined)
"""The classes whose records wait for an operator's decision, one row each in `silver_rejects`."""

UNDECODABLE = "value_undecodable"
TOMBSTONE = "value_tombstone"
VALUE_REASONS = {
    UNDECODABLE: "its value is not in the format that `value` names",
    TOMBSTONE: "it is a tombstone: it has no value to read the sequence from, and `value.tombstones` skips it",
}
SKIPPED = {TOMBSTONE: "skips_tombstones"}
"""The reasons of records that are discarded and open no breaker, each with the field of `silver.rules.Reading` that sets it."""

PROBLEMS = {
    "missing": "there is no such header, path or byte range, or the extractor returned nothing",
    "null": "it is null",
    "disagrees": "the record has its header more than once, with different values",
    "repeated": "an object has a key of its path more than once",
    "not_json": "the value is not one document of strict JSON",
    "empty": "it is empty",
    "too_long": "it is longer than 1,024 bytes",
    "not_utf8": "its bytes are not UTF-8",
    "not_text": "it is a fraction, an object or an array, whose text Spark does not keep",
    "not_a_whole_number": "it is not a whole number in ASCII digits, or not as wide as its encoding",
    "not_decoded": "the value could not be decoded with its schema",
    "no_position": "the value has no position of Debezium's connector for that database: see transforms.unwrap.add.fields",
    "no_total_order": "the value has no transaction.total_order: set provide.transaction.metadata=true in the connector",
    "out_of_range": "it is below 0, or above the highest number of its encoding",
}
"""Why a sequence, producer or epoch could not be read. The reason of an invalid record is `sequence_missing`, for example."""

IN_ORDER = "in_order"
HELD = "held"
RELEASED = "released"
DISCARDED = "discarded"

RECORDS = "records"
RELEASE = "release"
DISCARD = "discard"
RESET = "reset"
ERASE = "erase"
ACCEPT = "accept"
RESTORE: Final = "restore"
REBUILD: Final = "rebuild"
RETIRE: Final = "retire"
"""The kinds of loads: records from Bronze, an operator's request, or maintenance (`retire`)."""

CUTOVERS = (RESTORE, REBUILD)
"""The kinds of loads that replace the state of all Silver tables at once."""


def problem_in_words(reason: str) -> str | None:
    """Return the meaning of an invalid record's reason; None if it is unknown.

    >>> problem_in_words("producer_empty"), problem_in_words("value_undecodable")
    ('its producer could not be read: it is empty', 'its value is not in the format that `value` names')
    """
    role, _, problem = reason.partition("_")
    return f"its {role} could not be read: {PROBLEMS[problem]}" if problem in PROBLEMS else VALUE_REASONS.get(reason)


def is_retired(row: Mapping[str, Any]) -> bool:
    """Whether a ledger row removed its stream from silver_watermarks. Streams without a producer are never removed.

    >>> is_retired({"kind": "retire", "producer": "a"}), is_retired({"kind": "retire", "producer": None})
    (True, False)
    """
    return row["kind"] == RETIRE and row["producer"] is not None


def first_load(kinds: Mapping[int, str]) -> int:
    """Return the first load that the ledger should hold: load 1, or the first load of the last rebuild.

    A restore to one of a rebuild's loads removes the row of the rebuild, so another first load may follow from it too.

    >>> [first_load({first: "records", 8: kind}) for first, kind in ((1, "release"), (4, "rebuild"), (4, "restore"))]
    [1, 4, 4]
    """
    return 1 if set(CUTOVERS).isdisjoint(kinds.values()) else min(kinds)


def is_rebuilt(kinds: Mapping[int, str], published: int) -> bool:
    """Whether Silver was rebuilt after Gold published its last load (0: none), so that Gold has none of the ledger's loads.

    >>> is_rebuilt({4: "records", 7: "rebuild"}, 3), is_rebuilt({4: "records", 8: "restore"}, 3)
    (True, True)
    >>> is_rebuilt({4: "records", 8: "restore"}, 4), is_rebuilt({1: "records", 8: "restore"}, 0)
    (False, False)
    """
    return first_load(kinds) > max(published, 1)


def lacking(kinds: Mapping[int, str], last: int, *, first: int = 1) -> list[int]:
    """Return the loads that the ledger lacks from `first_load` on, last first.

    A restore or rebuild rolled back the loads right before it, so these may be missing.

    >>> lacking({1: "records", 4: "restore", 6: "records"}, 6)
    [5]
    >>> lacking({7: "records", 8: "rebuild"}, 8), lacking({4: "records", 8: "restore"}, 8)
    ([], [])
    """
    found, is_undone = [], False
    for load_seq in range(last, max(first, first_load(kinds)) - 1, -1):
        if load_seq in kinds:
            is_undone = kinds[load_seq] in CUTOVERS
        elif not is_undone:
            found.append(load_seq)
    return found


KEPT = (ACCEPTED, "late_accepted", RELEASED)
"""The ledger's counts that add up to the new rows of Silver."""

STREAM = ("topic", "partition", "producer")
"""The columns that identify a stream. Producer is null if none is configured, and for records that name none."""
PARTITION = ("topic", "partition")
PLACE = (*PARTITION, "offset")  # identifies a record of Kafka
Partition = tuple[str, int]  # topic, partition
Stream = tuple[str, int, str | None]  # topic, partition, producer
Ordinal = tuple[int, int]  # epoch, sequence: the order of the records of a stream


def stream_of(row: "Mapping[str, Any] | Row") -> Stream:
    """Return the stream of a row."""
    return row["topic"], row["partition"], row["producer"]


def stream_text(stream: Stream) -> str:
    """Return a stream as text for messages."""
    topic, partition, producer = stream
    return f"topic {topic}, partition {partition}" + (f", producer {producer}" if producer is not None else "")


STREAM_COLUMNS = (
    Column("topic", "string", "Kafka topic"),
    Column("partition", "int", "Kafka partition"),
    Column("producer", "string", "Producer within the partition; null if none is configured or none could be read"),
)
EPOCH = Column("epoch", "bigint", "Epoch of the sequence; 0 if none is configured")


def record_columns(payload_type: str | None) -> tuple[Column, ...]:
    """Return the columns of a kept record that Silver and Gold share, with `payload` if it has a SQL type."""
    meaning = "Decoded value; null if the value is null or cannot be decoded"
    payload = Column("payload", payload_type or "", meaning, is_checked=False)
    return (
        *STREAM_COLUMNS,
        EPOCH,
        Column("sequence", "bigint", "Sequence within the stream and epoch"),
        Column("offset", "bigint", "Kafka offset within the partition"),
        Column("timestamp", "timestamp", "Kafka timestamp of the record, UTC"),
        Column("load_seq", "bigint", "The load that brought the record, see silver_loads"),
        Column("arrival", "string", "in_order: above the watermark on arrival; late: released or accepted below it"),
        Column("key", "binary", "Record key, bytes untouched"),
        Column("value", "binary", "Record value, bytes untouched"),
        Column("headers", HEADERS, "Record headers in their order, bytes untouched"),
        *((payload,) if payload_type else ()),
    )


def silver_records(payload_type: str | None = None) -> Contract:
    """Return the contract of `silver_records`; see `record_columns` for the payload."""
    meaning = "If key, value and headers were erased: the load that erased them, and the last decided offset then; else null"
    columns = (*record_columns(payload_type), Column("erased", ERASED, meaning))
    clustered_by = ("topic", "partition", "sequence")  # suspects are looked up by these
    return Contract(SILVER_RECORDS, "A record, kept once.", columns, clustered_by=clustered_by)


WATERMARKS = Contract(
    SILVER_WATERMARKS,
    "A stream and its highest accepted sequence: one row per partition, or one per producer in a partition.",
    (
        *STREAM_COLUMNS,
        Column("epoch", "bigint", "Epoch of the high watermark; null until a record was accepted"),
        Column("high_watermark", "bigint", "Highest accepted sequence of the epoch, inclusive; null until there is one"),
        Column("last_offset", "bigint", "Last Kafka offset decided in this stream, inclusive"),
        Column("declared_epoch", "bigint", "Epoch of the next records, set by `watermark reset --new-epoch`; else null"),
        Column("load_seq", "bigint", "The load that changed the row last"),
        Column("rules_fingerprint", "string", "Fingerprint of the extractors of the watermark"),
        Column("updated_at", "timestamp", "When the row was changed last, UTC"),
    ),
)

WATERMARK_IN_LOADS = {
    "epoch": "epoch_after",
    "high_watermark": "high_watermark_after",
    **{name: name for name in ("last_offset", "declared_epoch", "load_seq", "rules_fingerprint")},
}
"""A watermark's columns, and their names in the ledger, where a load's rows hold the watermarks after it."""
WATERMARK = (*STREAM, *WATERMARK_IN_LOADS)
"""The columns of silver_watermarks that are compared with the ledger."""

REJECTS = Contract(
    SILVER_REJECTS,
    "A record that was kept out of Silver, or an unbroken block of duplicates: offsets and sequences rise within it.",
    (
        *STREAM_COLUMNS,
        EPOCH,
        Column("class", "string", "duplicate, late, collision, invalid, jump or fenced"),
        Column("reason", "string", "The reason, for example sequence_missing"),
        Column("first_offset", "bigint", "Kafka offset of the first record"),
        Column("last_offset", "bigint", "Kafka offset of the last record, inclusive"),
        Column("first_sequence", "bigint", "Sequence of the first record; null if it could not be read"),
        Column("last_sequence", "bigint", "Sequence of the last record, inclusive"),
        Column("records", "bigint", "Number of records"),
        Column("load_seq", "bigint", "The load that kept them out"),
        Column("state", "string", "held: waits for a decision; released; discarded: a duplicate, or given up by a decision"),
        Column("content_sha256", "string", "For late, collision and jump: SHA-256 of key and value, or erased:...; else null"),
        Column("settled_load_seq", "bigint", "The load that released or discarded the record; null if none did"),
    ),
)

COUNTS = tuple(Column(name, "bigint", f"Records of the class {name}") for name in CLASSES)

LOADS = Contract(
    SILVER_LOADS,
    "A stream in a load. The ledger, and the write-ahead log: a load's rows are written before its other changes.",
    (
        Column("load_seq", "bigint", "Number of the load, from 1; loads that a restore or rebuild rolled back are removed"),
        *STREAM_COLUMNS,
        Column("kind", "string", "records, retire; by a person: release, discard, reset, accept, erase, restore, rebuild"),
        Column("pipeline", "string", "The pipeline that claimed the load"),
        Column("bronze_after_version", "bigint", "Delta version of Bronze before the load's first one; -1: none"),
        Column("bronze_to_version", "bigint", "Delta version of Bronze that the load ends with, inclusive"),
        Column("records", "bigint", "Bronze records of this stream in the load"),
        *COUNTS,
        Column("late_accepted", "bigint", "Late records that Silver accepted, by policies.late"),
        Column(RELEASED, "bigint", "Records of earlier loads that a release moved from quarantine into Silver"),
        Column(DISCARDED, "bigint", "Records of earlier loads that a discard or an erasure gave up"),
        Column("erased", "bigint", "Records of earlier loads whose key, value and headers were erased"),
        Column("epoch_before", "bigint", "Epoch of the watermark before the load"),
        Column("high_watermark_before", "bigint", "High watermark before the load; null if there was none"),
        Column("epoch_after", "bigint", "Epoch of the watermark after the load"),
        Column("high_watermark_after", "bigint", "High watermark after the load; null if there is none"),
        Column("last_offset_before", "bigint", "Last offset of the partition decided before; null if there was none"),
        Column("last_offset", "bigint", "Last offset of this stream decided by the load, inclusive"),
        Column("declared_epoch", "bigint", "Declared epoch of the stream after the load, see silver_watermarks"),
        Column("jumps_forward", "bigint", "Records more than one above the record before them in the stream"),
        Column("jumps_backward", "bigint", "Records below the record before them in the stream"),
        Column("missing", "bigint", "Sequences that the accepted records skipped"),
        Column("missing_ranges", RANGES, "Missing sequences of a contiguous stream, both ends inclusive; else null"),
        Column("rules_fingerprint", "string", "Fingerprint of the extractors"),
        Column("rules", "string", "The rules of the load as JSON; a repeat uses them"),
        Column("request", "string", "A person's request as JSON; a repeat uses it; else null"),
        Column("reason", "string", "Why the person requested it, in their words; else null"),
        Column("requested_by", "string", "Who requested it; else null"),
        Column("run_id", "string", "The run that claimed the load"),
        Column("claimed_at", "timestamp", "When the load was claimed, UTC"),
    ),
)

_NOT_COMPARED = ("missing_ranges", "rules", "request", "reason", "requested_by", "claimed_at")
LEDGER = tuple(each.name for each in LOADS.columns if each.name not in _NOT_COMPARED and not each.is_added_later)
"""The ledger's columns that the gate and `verify` compare with other tables."""
