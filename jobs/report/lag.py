"""How far each partition is behind: Silver behind Bronze, and behind Kafka if the brokers can be queried."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakehouse.settings.pipeline import Kafka

    Rows = list[dict[str, Any]]


def ends(kafka: Kafka | None, bronze: Rows, topics: Rows) -> dict[str, Any]:
    """Find where each partition ends.

    Args:
        kafka: Where the topics are; None to leave the brokers out.
        bronze: Rows of the view `lag`.
        topics: Rows of `bronze_topics`.

    Returns:
        `kafka`: whether it was asked, and why not. `partitions`, by topic (as the tables name it) and partition:
        decided_offset, bronze_offset and end_offset (the one that the next record gets; None if Kafka was not asked or has no
        such partition), each None if there is none; lag (offsets up to Kafka's end, or to Bronze's if Kafka gives none; None
        if neither is known).
    """
    places = {(row["topic"], row["partition"]): _place(row) for row in bronze}
    why = _add_kafka(places, kafka, bronze, topics) if kafka else "--offline"
    return {"kafka": {"asked": why is None, "why": why}, "partitions": [places[place] for place in sorted(places)]}


def _place(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "topic": row["topic"],
        "partition": row["partition"],
        "decided_offset": row["decided_offset"],
        "bronze_offset": row["bronze_offset"],
        "end_offset": None,
        "lag": row["offsets"],
    }


def _add_kafka(places: dict[tuple[str, int], dict[str, Any]], kafka: Kafka, bronze: Rows, topics: Rows) -> str | None:
    """Add what the brokers say, or return why they cannot be queried."""
    from bronze.kafka.metadata import LookError
    from jobs.readers.lag import lags

    stored = _stored_as(topics)
    gone = {row["stored_as"] for row in topics} - set(stored.values())
    kafkas = {name: topic for topic, name in stored.items()}
    decided = [
        {
            "topic": kafkas.get(row["topic"], row["topic"]),
            "partition": row["partition"],
            "high_watermark": None,
            "last_offset": row["decided_offset"],
        }
        for row in bronze
        if row["decided_offset"] is not None and row["topic"] not in gone
    ]
    try:
        asked = lags(kafka, decided)
    except LookError as error:
        return str(error)
    for row in asked:
        place = stored.get(row["topic"], row["topic"]), row["partition"]
        known = places.get(place, {"bronze_offset": None})
        places[place] = {
            "topic": place[0],
            "partition": place[1],
            "decided_offset": row["last_offset"],
            "bronze_offset": known["bronze_offset"],
            "end_offset": row["end_offset"],
            "lag": row["lag"],
        }
    return None


def _stored_as(topics: Rows) -> dict[str, str]:
    """The tables' current name of each Kafka topic: a recreated topic continues under another name."""
    return {row["topic"]: row["stored_as"] for row in sorted(topics, key=lambda row: row["incarnation"])}
