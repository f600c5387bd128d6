"""The peers, and the inputs of all of them."""

from __future__ import annotations

from dataclasses import dataclass

FROM_BRONZE, TO_TOPIC, FROM_KAFKA = "Bronze to Delta", "Kafka to Kafka", "Kafka to Delta"
"""The ways: from a Delta table, which others have filled; from topic to topic; all the way."""


@dataclass(frozen=True)
class Input:
    """A topic to take in. `resent_share` of its records come again; `is_swapped` is for late blocks (`swap_blocks`)."""

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
    """Something that takes records in. `program` is its worker or its Java class, with arguments."""

    name: str
    title: str
    way: str
    program: tuple[str, ...] = ("spark",)


PEERS = (
    Peer("copy", "plain copy", FROM_BRONZE),
    Peer("ours", "Tidemark, Silver load", FROM_BRONZE),
    Peer("drop_duplicates", "Spark dropDuplicates", FROM_BRONZE),
    Peer("row_number", "Spark row_number", FROM_BRONZE),
    Peer("within_watermark", "Spark dropDuplicatesWithinWatermark", FROM_BRONZE),
    Peer("merge", "Delta MERGE, insert only", FROM_BRONZE),
    Peer("duckdb", "DuckDB and delta-rs", FROM_BRONZE, ("duckdb",)),
    Peer("copy_from_kafka", "bare Structured Streaming copy", FROM_KAFKA),
    Peer("ours_from_kafka", "Tidemark, Bronze and Silver", FROM_KAFKA),
    Peer("within_watermark_from_kafka", "Spark dropDuplicatesWithinWatermark", FROM_KAFKA),
    Peer("streams", "Kafka Streams, at least once", TO_TOPIC, ("streams", "StreamsPeer", "at_least_once")),
    Peer("streams_exactly_once", "Kafka Streams, exactly once", TO_TOPIC, ("streams", "StreamsPeer", "exactly_once_v2")),
    Peer("flink", "Flink, keyed state", TO_TOPIC, ("flink", "FlinkPeer")),
)

COPIER = "copy_from_kafka"
TO_DELTA = "_to_delta"
"""Ends the name of a peer from topic to topic together with the copy of its topic to Delta."""


def with_copy(peer: Peer) -> Peer:
    """A peer from topic to topic, followed by the bare copy of its topic to Delta."""
    return Peer(peer.name + TO_DELTA, f"{peer.title}, then copied to Delta", FROM_KAFKA, peer.program)
