"""The tables at the end of the long run against the sequential reference over the broker's own log."""

from __future__ import annotations

import zlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, TopicPartition

from jobs.demo.events import EVENTS_HEADER
from lakehouse.contracts.silver import KEPT
from lakehouse.delta import tables
from lakehouse.table import (
    BRONZE_RECORDS,
    GOLD_LATEST,
    GOLD_RECORDS,
    SILVER_LOADS,
    SILVER_RECORDS,
    SILVER_REJECTS,
    SILVER_WATERMARKS,
)
from tests.faults.stream import PARTITIONS
from tests.support.reference import Reference, Seen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from confluent_kafka import Message
    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run

Row = tuple[object, ...]
_SECONDS = 60
_BATCH = 10_000


@dataclass(frozen=True)
class Logged:
    """A record as the broker has it."""

    seen: Seen
    key: bytes
    content: int


def read_log(servers: str, topic: str) -> list[Logged]:
    """Every record of the topic, read from the broker by a client that knows nothing of Tidemark."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "faults", "enable.auto.commit": False, "log_level": 3})
    places = [TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)]
    missing = sum(consumer.get_watermark_offsets(place, timeout=_SECONDS)[1] for place in places)
    consumer.assign(places)
    log: list[Logged] = []
    while len(log) < missing:
        found = consumer.consume(min(_BATCH, missing - len(log)), timeout=_SECONDS)
        if not found:
            raise TimeoutError(f"The broker gave {len(log)} of {missing} records.")
        for message in found:
            key, value = message.key() or b"", message.value() or b""
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            seen = Seen(topic, partition, offset, _sequence(message), payload=f"{key!r}{value!r}")
            log.append(Logged(seen, key, zlib.crc32(key + b"\0" + value)))
    consumer.close()
    return log


def _sequence(message: Message) -> int | None:
    """The number in the header, where it is there once and is one."""
    headers: list[tuple[str, bytes]] = message.headers() or []  # type: ignore[assignment] # a list, never a dict, when it is read
    texts = {text for name, text in headers if name == EVENTS_HEADER}
    text = texts.pop() if len(texts) == 1 else b""
    return int(text) if text.isdigit() else None


def compare(spark: SparkSession, run: Run, log: Sequence[Logged]) -> dict[str, dict[str, int]]:
    """What each table lacks, holds twice, or holds otherwise than the reference.

    Returns:
        For each table: expected and held rows or records; of these lost, twice, wrong.
    """
    reference = Reference().take(each.seen for each in log)
    kept = {each.seen.place[1:]: each for each in log if each.seen.place in reference.silver}
    silver = Counter((place, each.seen.sequence, each.content) for place, each in kept.items())
    held = Counter(
        (*each.seen.place[1:], reference.classes[each.seen.place]) for each in log if each.seen.place[1:] not in kept
    )
    ends: Counter[int] = Counter()
    for each in log:
        ends[each.seen.partition] = max(ends[each.seen.partition], each.seen.offset)
    marks = Counter((stream[1], mark[1], ends[stream[1]]) for stream, mark in reference.watermarks.items())
    latest: dict[bytes, int] = {}
    for (_, offset), each in kept.items():
        latest[each.key] = max(latest.get(each.key, -1), offset)
    bronze = Counter(((each.seen.partition, each.seen.offset), each.content) for each in log)
    return {
        BRONZE_RECORDS: _unlike(bronze, ((row[0], row[2]) for row in _records(spark, run, BRONZE_RECORDS))),
        SILVER_RECORDS: _unlike(silver, _records(spark, run, SILVER_RECORDS)),
        SILVER_REJECTS: _unlike(held, _rejects(spark, run)),
        SILVER_WATERMARKS: _unlike(marks, _rows(spark, run, SILVER_WATERMARKS, "partition", "high_watermark", "last_offset")),
        GOLD_RECORDS: _unlike(silver, _records(spark, run, GOLD_RECORDS)),
        GOLD_LATEST: _unlike(Counter(latest.items()), _rows(spark, run, GOLD_LATEST, "key", "offset")),
    }


def classes(spark: SparkSession, run: Run) -> dict[str, int]:
    """What the stream came to, by the ledger."""
    names = ("records", *KEPT[:1], "duplicate", "late", "collision", "invalid", "replay")
    row = spark.read.table(run.table(SILVER_LOADS).sql).groupBy().sum(*names).collect()[0]
    return {name: row[f"sum({name})"] for name in names}


def _unlike(expected: Counter[Any], observed: Iterable[Any]) -> dict[str, int]:
    found = Counter(observed)
    return {
        "expected": expected.total(),
        "held": found.total(),
        "lost": (expected - found).total(),
        "twice": sum(count - 1 for row, count in found.items() if count > 1),
        "wrong": sum(1 for row in found if row not in expected),
    }


def _rows(spark: SparkSession, run: Run, name: str, *columns: str) -> Iterator[Row]:
    if not tables.exists(spark, run.table(name)):  # the control arm may never have come so far
        return iter(())
    table: pa.Table = spark.read.table(run.table(name).sql).select(*columns).toArrow()
    return zip(*(table[column].to_pylist() for column in columns), strict=True)


def _records(spark: SparkSession, run: Run, name: str) -> Iterator[Row]:
    """(partition, offset), sequence and a hash of key and value; the sequence is None in Bronze."""
    names = ["partition", "offset", "key", "value", *(["sequence"] if name != BRONZE_RECORDS else [])]
    for partition, offset, key, value, *sequence in _rows(spark, run, name, *names):
        assert isinstance(key, bytes)
        assert isinstance(value, bytes)
        yield (partition, offset), sequence[0] if sequence else None, zlib.crc32(key + b"\0" + value)


def _rejects(spark: SparkSession, run: Run) -> Iterator[Row]:
    columns = ("partition", "first_offset", "last_offset", "class", "records")
    for partition, first, last, kind, records in _rows(spark, run, SILVER_REJECTS, *columns):
        assert isinstance(first, int)
        assert isinstance(last, int)
        assert records == last - first + 1  # one producer a partition: a block has no holes
        yield from ((partition, offset, kind) for offset in range(first, last + 1))
