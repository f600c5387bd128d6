"""The tables that Bronze writes: the records, which Silver reads, and the history of their topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from lakehouse.contracts.contract import ERASED_IN_BRONZE, HEADERS, LOST, STARTS, Column, Contract, sql_text
from lakehouse.table import BRONZE_RECORDS, BRONZE_TOPICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Value = TypeVar("Value")

BRONZE = Contract(
    BRONZE_RECORDS,
    "A Kafka record as it was read, bytes untouched. A record that was read twice has two rows. Append-only, but for erasures.",
    (
        Column("topic", "string", "Kafka topic; `name@2`, `name@3` ... where it was created anew, see bronze_topics"),
        Column("partition", "int", "Kafka partition"),
        Column("offset", "bigint", "Kafka offset within the partition"),
        Column("timestamp", "timestamp", "Kafka timestamp of the record, UTC; null where it is none, see timestamp_ms"),
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
        Column(
            "timestamp_ms",
            "bigint",
            "What Kafka has as the timestamp, in milliseconds since 1970, where that is no time in the years 1 to 9999, or -1 "
            "(none); else null",
            is_added_later=True,
        ),
        *(
            Column(name, kind, f"{comment}; read at ingest, see rules_fingerprint", is_added_later=True)
            for name, kind, comment in (
                ("producer", "string", "Producer; null if none is configured"),
                ("epoch", "bigint", "Epoch; 0 if none is configured, null if it or the sequence could not be read"),
                ("sequence", "bigint", "Sequence; null if it could not be read"),
                ("problem", "string", "What could not be read and why; null if all could"),
            )
        ),
        Column(
            "rules_fingerprint",
            "string",
            "Identifies the sources that producer, epoch, sequence and problem were read from; null if they were not read",
            is_added_later=True,
        ),
    ),
    # From the change feed Silver counts what each Bronze version added; an append-only table stores nothing for it.
    {"delta.appendOnly": "true", "delta.enableChangeDataFeed": "true"},
    clustered_by=("topic", "partition", "offset"),
)

EXTRACTED = ("producer", "epoch", "sequence", "problem")
"""The columns of `bronze_records` that are read from each record's bytes."""
OWNER = "tidemark.pipeline"
"""The property of `bronze_records` that names the only pipeline that may ingest into it."""
FINGERPRINT = "rules_fingerprint"
"""The column that identifies the sources of these, see `lakehouse.extract.sources`."""

BEGUN = "begun"
RECREATED = "recreated"
EXPIRED = "expired"
GROWN = "grown"
CORRUPT = "corrupt"
UNREADABLE = "unreadable"
"""Causes of a row in `bronze_topics`: reading began, an operator accepted a break, the records before a growth are read, or a
run skipped the topic."""
SAME = "same"
NEW = "new"
"""Whether a new incarnation continues the numbering of the one before."""

TOPICS = Contract(
    BRONZE_TOPICS,
    "A topic from a moment on: when reading it began, after each break that a person accepted, and when it was first skipped. "
    "Its last row holds.",
    (
        Column("topic", "string", "Kafka topic"),
        Column("incarnation", "int", "1, and one more each time that the topic was created anew and accepted"),
        Column("stored_as", "string", "The topic in all tables: its name, from the second incarnation on name@incarnation"),
        Column("topic_id", "string", "Kafka's id of the topic; null where the broker or the client could not tell it"),
        Column("checkpoint", "int", "Number of the first checkpoint that may go on from here"),
        Column(
            "cause",
            "string",
            "begun: read first, or again, or with more partitions; recreated: the topic is another one; expired: Kafka lost "
            "records; corrupt: records cannot be decoded; unreadable: a run skipped it; grown: what was there when the senders "
            "knew the added partitions is read",
        ),
        Column("lost", LOST, "Of expired, corrupt and unreadable: offsets that were not read, both ends inclusive; else null"),
        Column("known_since", "timestamp", "When this was written, UTC"),
        Column("load_seq", "bigint", "The load of silver_loads that accepted it; null where nobody had to"),
        Column("reason", "string", "Why it was accepted, in that person's words; of unreadable, why it was; else null"),
        Column("accepted_by", "string", "Who accepted it; else null"),
        Column(
            "starting_offsets",
            STARTS,
            "The offset where reading of each partition starts, decided once; a partition that is not listed starts at 0, or "
            "Bronze had records of it. Null where the row before of the same incarnation says it, and in rows of 0.2",
            is_added_later=True,
        ),
        Column(
            "numbering",
            "string",
            "Of recreated: same, where the incarnation continues the numbering of the one before; new, where its numbers say "
            "nothing about the old ones; else null",
            is_added_later=True,
        ),
    ),
)


@dataclass(frozen=True, order=True)
class LostRange:
    """Offsets of a partition that Bronze goes on without, both ends inclusive: they expired, or cannot be decoded."""

    partition: int
    first_offset: int
    last_offset: int


def plain_topic(stored_as: str) -> str:
    """Return the Kafka topic of a topic name in the tables; policies use it.

    >>> plain_topic("incidents@2"), plain_topic("incidents")
    ('incidents', 'incidents')
    """
    return stored_as.partition("@")[0]  # a Kafka topic's name contains no @


def is_of_topics(topics: Iterable[str]) -> str:
    """Return the SQL condition that a row's `topic` is any incarnation of some Kafka topics.

    >>> is_of_topics(["t", "u"])
    "topic = 't' OR startswith(topic, 't@') OR topic = 'u' OR startswith(topic, 'u@')"
    """
    parts = (f"topic = {sql_text(name)} OR startswith(topic, {sql_text(name + '@')})" for name in topics)
    return " OR ".join(parts) or "false"


def of_last_incarnations(stored: Mapping[tuple[str, int], Value]) -> dict[tuple[str, int], Value]:
    """Return the values of each topic's last incarnation, by its name in Kafka: offsets of earlier ones belong to another log.

    >>> of_last_incarnations({("t", 0): 90, ("t", 1): 70, ("t@2", 0): 5, ("u", 0): 3})
    {('t', 0): 5, ('u', 0): 3}
    """
    numbers = {topic: int(topic.partition("@")[2] or 1) for topic, _ in stored}
    last: dict[str, int] = {}
    for topic, number in numbers.items():
        last[plain_topic(topic)] = max(number, last.get(plain_topic(topic), 0))
    return {
        (plain_topic(topic), partition): value
        for (topic, partition), value in stored.items()
        if numbers[topic] == last[plain_topic(topic)]
    }
