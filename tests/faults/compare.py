"""The tables at the end of the long run, compared with the sequential reference over the broker's own log."""

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from lakehouse import table
from lakehouse.contracts.silver import KEPT
from lakehouse.delta import tables
from lakehouse.run.context import Run
from tests.support.reference import Reference, Seen
from tests.support.topics import records_of
from tidemark.extras.demo.producer import EVENTS_HEADER


class Logged(NamedTuple):
    seen: Seen
    key: bytes
    content: int


def read_log(servers: str, topic: str) -> list[Logged]:
    log = []
    for partition, offset, key, value, headers, _ in records_of(servers, topic):
        seen = Seen(topic, partition, offset, _sequence(headers), payload=f"{key or b''!r}{value or b''!r}")
        log.append(Logged(seen, key or b"", _hash(key, value)))
    return log


def _sequence(headers: Iterable[tuple[str, bytes | None]]) -> int | None:
    texts = {text for name, text in headers if name == EVENTS_HEADER}
    text = texts.pop() if len(texts) == 1 else None
    return int(text) if text and text.isdigit() else None


def _hash(key: bytes | None, value: bytes | None) -> int:
    return zlib.crc32((key or b"") + b"\0" + (value or b""))


def compare(spark: SparkSession, run: Run, log: Sequence[Logged]) -> dict[str, dict[str, int]]:
    """For each table the rows or records that the reference expects and those held, and those lost, twice and wrong."""
    reference = Reference().take(each.seen for each in log)
    kept = {each.seen.place[1:]: each for each in log if each.seen.place in reference.silver}
    silver = Counter((*place, each.seen.sequence, each.content) for place, each in kept.items())
    held = Counter(
        (*each.seen.place[1:], reference.classes[each.seen.place]) for each in log if each.seen.place[1:] not in kept
    )
    ends = {each.seen.partition: each.seen.offset for each in log}  # the log is in the order of offsets
    marks = Counter((stream[1], mark[1], ends[stream[1]]) for stream, mark in reference.watermarks.items())
    latest: dict[bytes, int] = {}
    for (_, offset), each in kept.items():
        latest[each.key] = max(latest.get(each.key, -1), offset)
    bronze = Counter((*each.seen.place[1:], each.content) for each in log)

    def rows(name: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        if not tables.exists(spark, run.table(name)):  # the control arm may not have reached it
            return iter(())
        found = spark.read.table(run.table(name).sql).select(*columns).toArrow()
        return zip(*(found[column].to_pylist() for column in columns), strict=True)

    def records(name: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        found = rows(name, "partition", "offset", *columns, "key", "value")
        return ((*row, _hash(key, value)) for *row, key, value in found)

    # One producer a partition: a block of rejects has no holes.
    blocks = rows(table.SILVER_REJECTS, "partition", "first_offset", "last_offset", "class")
    rejects = ((partition, offset, kind) for partition, first, last, kind in blocks for offset in range(first, last + 1))
    return {
        table.BRONZE_RECORDS: _differences(bronze, records(table.BRONZE_RECORDS)),
        table.SILVER_RECORDS: _differences(silver, records(table.SILVER_RECORDS, "sequence")),
        table.SILVER_REJECTS: _differences(held, rejects),
        table.SILVER_WATERMARKS: _differences(
            marks, rows(table.SILVER_WATERMARKS, "partition", "high_watermark", "last_offset")
        ),
        table.GOLD_RECORDS: _differences(silver, records(table.GOLD_RECORDS, "sequence")),
        table.GOLD_LATEST: _differences(Counter(latest.items()), rows(table.GOLD_LATEST, "key", "offset")),
    }


def classes(spark: SparkSession, run: Run) -> dict[str, int]:
    names = ("records", *KEPT[:1], "duplicate", "late", "collision", "invalid", "replay")
    row = spark.read.table(run.table(table.SILVER_LOADS).sql).groupBy().sum(*names).collect()[0]
    return {name: row[f"sum({name})"] for name in names}


def _differences(expected: Counter[Any], observed: Iterable[Any]) -> dict[str, int]:
    found = Counter(observed)
    return {
        "expected": expected.total(),
        "held": found.total(),
        "lost": (expected - found).total(),
        "twice": sum(count - 1 for row, count in found.items() if count > 1),
        "wrong": sum(1 for row in found if row not in expected),
    }
