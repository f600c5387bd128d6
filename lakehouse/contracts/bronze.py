"""The tables that Bronze writes: the records, which Silver reads, and the history of their topics."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from lakehouse.contracts.contract import ERASED_IN_BRONZE, HEADERS, LOST, Column, Contract, sql_text
from lakehouse.table import BRONZE_RECORDS, BRONZE_TOPICS

Value = TypeVar("Value")

BRONZE = Contract(
    BRONZE_RECORDS,
    "A Kafka record as read, bytes untouched. A record that was read twice has two rows. Append-only, except for erasures.",
    (
        Column("topic", "string", "Kafka topic; `name@2`, `name@3` ... if it was recreated, see bronze_topics"),
        Column("partition", "int", "Kafka partition"),
        Column("offset", "bigint", "Kafka offset within the partition"),
        Column("timestamp", "timestamp", "Kafka timestamp of the record, UTC; null if it is no valid time, see timestamp_ms"),
        Column("timestamp_type", "int", "0: set by the producer (CreateTime), 1: set by the broker (LogAppendTime)"),
        Column("key", "binary", "Record key, bytes untouched; null if the record has none"),
        Column("value", "binary", "Record value, bytes untouched; null for a tombstone"),
        Column("headers", HEADERS, "Record headers in their order, bytes untouched; null if the record has none"),
        Column("ingested_at", "timestamp", "When Bronze read the record, UTC"),
        Column("run_id", "string", "The run that read the record"),
        Column("erased", ERASED_IN_BRONZE, "If contents were erased: the load, and what extractors had read; else null"),
        Column("timestamp_ms", "bigint", "Kafka's timestamp in ms since 1970, if timestamp is null", is_added_later=True),
        # Read from the record's bytes at ingest.
        Column("producer", "string", "Producer; null if none is configured", is_added_later=True),
        Column("epoch", "bigint", "Epoch; 0 if none is configured, null if it or sequence is unreadable", is_added_later=True),
        Column("sequence", "bigint", "Sequence; null if it is unreadable", is_added_later=True),
        Column("problem", "string", "Why producer, epoch or sequence is unreadable; null if none is", is_added_later=True),
        Column("rules_fingerprint", "string", "Fingerprint of the extractors; null if none was applied", is_added_later=True),
    ),
    # Silver counts a Bronze version's rows from the change feed; an append-only table stores nothing for it.
    {"delta.appendOnly": "true", "delta.enableChangeDataFeed": "true"},
    clustered_by=("topic", "partition", "offset"),
)

EXTRACTED = ("producer", "epoch", "sequence", "problem")
"""The columns of `bronze_records` that are read from each record's bytes."""
OWNER = "tidemark.pipeline"
"""The property of `bronze_records` that names the only pipeline that may ingest into it."""
FINGERPRINT = "rules_fingerprint"
"""The column that identifies the sources of EXTRACTED, see `lakehouse.extract.sources`."""

BEGUN = "begun"
RECREATED = "recreated"
EXPIRED = "expired"
GROWN = "grown"
CORRUPT = "corrupt"
UNREADABLE = "unreadable"
"""Causes of a row in `bronze_topics`, see its column `cause`."""
SAME = "same"
NEW = "new"
"""Whether an incarnation continues the numbering of the one before."""

TOPICS = Contract(
    BRONZE_TOPICS,
    "An event of a topic: reading began, a person accepted a break, or a run skipped it. The last row of a topic is valid.",
    (
        Column("topic", "string", "Kafka topic"),
        Column("incarnation", "int", "1, and one more each time that the topic was recreated and accepted"),
        Column("stored_as", "string", "The topic in all tables: its name, from the second incarnation on name@incarnation"),
        Column("topic_id", "string", "Kafka's id of the topic; null if the broker or the client does not return it"),
        Column("checkpoint", "int", "Number of the first checkpoint that may continue from here"),
        Column(
            "cause",
            "string",
            "begun: first read, read again, or read with more partitions; recreated: another topic of the same name; expired: "
            "Kafka lost records; corrupt: records cannot be decoded; unreadable: a run skipped it; grown: all records are read "
            "that Kafka had when the senders knew the added partitions",
        ),
        Column("lost", LOST, "For expired, corrupt and unreadable: offsets that were not read, both ends inclusive; else null"),
        Column("known_since", "timestamp", "When the row was written, UTC"),
        Column("load_seq", "bigint", "The load of silver_loads that accepted the break; null if none was needed"),
        Column("reason", "string", "Why it was accepted, in that person's words; for unreadable, the cause; else null"),
        Column("accepted_by", "string", "Who accepted it; else null"),
        Column(
            "starting_offsets",
            "array<struct<partition:int,offset:bigint>>",
            "First offset to read of each partition; one that is not listed starts at 0, or Bronze has records of it. Null if "
            "an earlier row of the incarnation has it, and in rows of 0.2",
            is_added_later=True,
        ),
        Column("numbering", "string", "For recreated: same numbering as before, or new; else null", is_added_later=True),
    ),
)


@dataclass(frozen=True, order=True)
class LostRange:
    """Offsets of a partition that Bronze skips, both ends inclusive: they expired, or cannot be decoded."""

    partition: int
    first_offset: int
    last_offset: int


def plain_topic(stored_as: str) -> str:
    """Return the Kafka topic of a topic name in the tables.

    >>> plain_topic("incidents@2"), plain_topic("incidents")
    ('incidents', 'incidents')
    """
    return stored_as.partition("@")[0]  # a Kafka topic's name contains no @


def is_of_topics(topics: Iterable[str]) -> str:
    """Return the SQL condition that a row's `topic` is an incarnation of one of these Kafka topics.

    >>> is_of_topics(["t", "u"])
    "topic = 't' OR startswith(topic, 't@') OR topic = 'u' OR startswith(topic, 'u@')"
    """
    parts = (f"topic = {sql_text(name)} OR startswith(topic, {sql_text(name + '@')})" for name in topics)
    return " OR ".join(parts) or "false"


def of_last_incarnations(stored: Mapping[tuple[str, int], Value]) -> dict[tuple[str, int], Value]:
    """Return the values of each topic's last incarnation, by Kafka topic and partition.

    >>> of_last_incarnations({("t", 0): 90, ("t", 1): 70, ("t@2", 0): 5, ("u", 0): 3})
    {('t', 0): 5, ('u', 0): 3}
    """
    by_incarnation = sorted({topic for topic, _ in stored}, key=lambda topic: int(topic.partition("@")[2] or 1))
    last = {plain_topic(topic): topic for topic in by_incarnation}.values()
    return {(plain_topic(topic), partition): value for (topic, partition), value in stored.items() if topic in last}
