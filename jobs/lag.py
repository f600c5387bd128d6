"""How far Silver is behind Kafka, a partition at a time. Asks the brokers past Spark; starts no JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bronze import admin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lakehouse.settings import Kafka


def lags(kafka: Kafka, streams: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """How many offsets of each partition Silver has not decided yet.

    What transactions leave in a partition counts as offsets too, so that one that is read to its end may keep a lag of one.

    Args:
        kafka: Where the topics are.
        streams: Rows of `silver_watermarks`.

    Returns:
        A row per partition that Kafka has, by topic and partition: topic, partition, last_offset (the last one that Silver
        decided, inclusive; None before the first), end_offset (the one that the next record gets), lag (offsets).

    Raises:
        LookError: No broker can be asked, or a partition has no leader.
    """
    decided: dict[tuple[str, int], int] = {}
    for stream in streams:
        place = stream["topic"], stream["partition"]
        decided[place] = max(stream["last_offset"], decided.get(place, -1))
    rows = []
    for topic, seen in sorted(admin.look(kafka, kafka.topics).items()):
        for partition, (earliest, end) in sorted(admin.bounds(kafka, topic, seen.partitions).items()):
            last = decided.get((topic, partition))
            lag = max(0, end - max(earliest, -1 if last is None else last + 1))
            rows.append({"topic": topic, "partition": partition, "last_offset": last, "end_offset": end, "lag": lag})
    return rows
