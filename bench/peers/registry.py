"""The peers, and the inputs of all of them."""

from __future__ import annotations

from dataclasses import dataclass

FROM_BRONZE, TO_TOPIC, FROM_KAFKA = "Bronze to Delta", "Kafka to Kafka", "Kafka to Delta"
"""The ways: from a Delta table, which others have filled; from topic to topic; all the way."""


@dataclass(frozen=True)
class Input:
    """A topic to take in.

    Attributes:
        name: As the tables name it.
        resent_share: Which share of the records is sent for the second time, in blocks of 10,000.
        is_swapped: Whether a block of each partition changes places with the one after it.
    """

    name: str
    resent_share: float = 0.0
    is_swapped: bool = False


CLEAN = Input("no duplicates")
FEW = Input("1 % resent", 0.01)
MANY = Input("20 % resent", 0.2)
SWAPPED = Input("reordered", 0.01, is_swapped=True)

CHECKED = (CLEAN, FEW, MANY, SWAPPED)
"""Every peer takes these in once, in a small edition, and its result is counted."""
TIMED = (FEW, MANY)
"""Every peer is timed on these."""


@dataclass(frozen=True)
class Peer:
    """Something that takes records in.

    Attributes:
        name: In one word.
        title: As the tables name it.
        what: What it is, in a line.
        way: From where to where.
        program: Its process: which worker or Java class, and its arguments.
    """

    name: str
    title: str
    what: str
    way: str
    program: tuple[str, ...]


_SPARK = ("spark",)

PEERS = (
    Peer("copy", "plain copy", "the same rows by the same writer, nothing decided: the floor", FROM_BRONZE, _SPARK),
    Peer("ours", "Tidemark, Silver load", "the load of this project", FROM_BRONZE, _SPARK),
    Peer("drop_duplicates", "Spark dropDuplicates", "batch, on topic, partition and sequence", FROM_BRONZE, _SPARK),
    Peer("row_number", "Spark row_number", "batch, the first row of a window by offset", FROM_BRONZE, _SPARK),
    Peer(
        "within_watermark",
        "Spark dropDuplicatesWithinWatermark",
        "streaming from the Bronze table, RocksDB state store with changelog checkpoints, one hour of delay",
        FROM_BRONZE,
        _SPARK,
    ),
    Peer(
        "merge",
        "Delta MERGE, insert only",
        "on topic, partition and sequence, after dropDuplicates of the new rows; all of them in one MERGE into an empty table, "
        "which is the best case for it",
        FROM_BRONZE,
        _SPARK,
    ),
    Peer(
        "duckdb",
        "DuckDB and delta-rs",
        "no Spark: row_number in DuckDB over Bronze's Parquet files, written by delta-rs",
        FROM_BRONZE,
        ("duckdb",),
    ),
    Peer(
        "copy_from_kafka",
        "bare Structured Streaming copy",
        "a topic as a Delta table, nothing decided: the floor",
        FROM_KAFKA,
        _SPARK,
    ),
    Peer("ours_from_kafka", "Tidemark, Bronze and Silver", "both stages, one after the other", FROM_KAFKA, _SPARK),
    Peer(
        "within_watermark_from_kafka",
        "Spark dropDuplicatesWithinWatermark",
        "the same streaming query, straight from the topic, without a Bronze",
        FROM_KAFKA,
        _SPARK,
    ),
    Peer(
        "streams",
        "Kafka Streams, at least once",
        "the article's idea on today's processor API: a store of the highest sequence of each partition, cached, with its log",
        TO_TOPIC,
        ("streams", "StreamsPeer", "at_least_once"),
    ),
    Peer(
        "streams_exactly_once",
        "Kafka Streams, exactly once",
        "the same with processing.guarantee=exactly_once_v2",
        TO_TOPIC,
        ("streams", "StreamsPeer", "exactly_once_v2"),
    ),
    Peer(
        "flink",
        "Flink, keyed state",
        "DataStream, the highest sequence of each partition in RocksDB, exactly-once sink, a checkpoint every 5 s",
        TO_TOPIC,
        ("flink", "FlinkPeer"),
    ),
)

TO_DELTA = "_to_delta"
"""Ends the name of a peer from topic to topic together with the copy of its topic to Delta."""


def with_copy(peer: Peer) -> Peer:
    """A peer from topic to topic, followed by the bare copy of its topic to Delta."""
    title, what = f"{peer.title}, then copied to Delta", "its time and that of the bare copy of its topic, added"
    return Peer(peer.name + TO_DELTA, title, what, FROM_KAFKA, peer.program)
