"""The pinned Bronze range of a load: whole Bronze versions, without the offsets already decided; and its key columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.contracts.bronze import FINGERPRINT, is_of_topics, plain_topic
from lakehouse.contracts.contract import sql_text
from lakehouse.contracts.silver import PLACE, TOMBSTONE, Partition
from lakehouse.delta import small_tables, tables
from lakehouse.delta.small_tables import Limits
from lakehouse.errors import TableStateError
from lakehouse.spark import frames
from lakehouse.spark.pruning import any_of, at
from lakehouse.table import BRONZE_RECORDS
from silver.extract.columns import NARROW
from silver.state.ledger import Arrived, BronzeRange
from silver.state.tables import latest_bronze

if TYPE_CHECKING:
    from lakehouse.run.context import Run
    from silver.rules import Rules

_KEY_BYTES = 2**28
"""Largest size, in bytes, of key columns that are read without Spark. A producer's name may have a kilobyte."""
_KEYS_AT_ONCE = 2**16
_HALVINGS = 3
"""Limits neighbouring partitions to fifteen conditions, because each new record is tested against all of them."""
_BITS = 16
_TEXTS = ("topic", "producer", "problem")
_WITHOUT_VALUE = "sequence_null"
_LONG_NAME = 64
"""Longest producer name, in bytes, that is sent with every record. A longer one is sent to the driver once."""
_HASHED = "\x00sha256:"
"""Prefix of a long name's hash. The hash is longer than `_LONG_NAME`, so no short name equals one."""


def pin(  # noqa: PLR0913 -- where the range begins and ends, each by name
    spark: SparkSession,
    run: Run,
    *,
    after_version: int,
    above: Mapping[Partition, int],
    to_version: int | None = None,
    most: int | None = None,
) -> BronzeRange:
    """Pin the Bronze versions after `after_version` up to `to_version` or the latest; the first ones if above `most` records.

    TableStateError if Bronze lost versions that loads have decided: new commits under their numbers would be skipped.
    """
    bronze = run.table(BRONZE_RECORDS)
    found = tables.appended(spark, bronze, after_version=after_version, to_version=to_version, most=most)
    if found.version < after_version:
        raise TableStateError(
            "Bronze is at an earlier version than the last load has read: its last log files are gone.",
            where=str(bronze),
            observed=f"version {found.version}",
            expected=f"version {after_version} or later",
            next_step="Restore the files of _delta_log from a backup. If Bronze was ingested again from Kafka, move "
            "silver_loads away and run `tidemark rebuild --apply`.",
        )
    return BronzeRange(after_version, found.version, above, found.rows, is_cut=found.is_cut)


def by_offset(
    *, after_version: int, to_version: int, above: Mapping[Partition, int], rows: Iterable[small_tables.Row]
) -> BronzeRange:
    """Return a claimed load's range by the offsets in its ledger rows, for when Bronze's versions are gone."""
    up_to: dict[Partition, int] = {}
    for row in rows:
        partition = (row["topic"], row["partition"])
        up_to[partition] = max(row["last_offset"], up_to.get(partition, -1))
    return BronzeRange(after_version, to_version, above, None, up_to)


def read(spark: SparkSession, run: Run, bronze_range: BronzeRange) -> DataFrame:
    """Return the range's undecided records, with all columns; without the fingerprint if the range is current.

    Reads Bronze as of the range's last version; if that is gone, the current one up to the range's last offsets, whose bytes
    never change. An offset that was ingested twice comes twice.
    """
    if bronze_range.is_current:
        return read(spark, run, replace(bronze_range, is_current=False)).drop(FINGERPRINT)
    if bronze_range.up_to is not None:
        return within(latest_bronze(spark, run), bronze_range)
    version, without = bronze_range.to_version, _decided_boxes(bronze_range)
    records = small_tables.frame(spark, run.table(BRONZE_RECORDS), version=version, without=without)
    if bronze_range.topics is not None:
        records = records.where(is_of_topics(bronze_range.topics))
    decided = [
        f"topic = {sql_text(topic)} AND partition BETWEEN {first} AND {last} AND offset <= {up_to}"
        for topic, first, last, up_to in decided_places(bronze_range.above)
    ]
    return records.where(~any_of(decided)) if decided else records


def within(records: DataFrame, by_offset: BronzeRange) -> DataFrame:
    """Return Bronze's records at the offsets of a range by offset."""
    spans = [(each, by_offset.above.get(each, -1), last) for each, last in (by_offset.up_to or {}).items()]
    return records.where(any_of(at(*each, f"offset BETWEEN {above + 1} AND {last}") for each, above, last in spans))


def stored_keys(run: Run, bronze_range: BronzeRange, most: int) -> pa.Table | None:
    """Read key columns, fingerprint and `erased` of undecided records without Spark: unsorted, texts as dictionaries.

    None if there are more than `most`, if they are not in a local folder, or if the range is read by offset.
    """
    if bronze_range.up_to is not None:
        return None
    texts = ("topic", "producer", "problem", FINGERPRINT)
    limits = Limits(rows=most, at_once=_KEYS_AT_ONCE, bytes=_KEY_BYTES, texts=texts)
    bronze, columns, version = run.table(BRONZE_RECORDS), [*NARROW, FINGERPRINT, "erased"], bronze_range.to_version
    decided = _decided_boxes(bronze_range)
    rows = small_tables.few(bronze, columns, decided, version=version, is_outside=True, limits=limits)
    if rows is None or bronze_range.topics is None:
        return rows
    topics = [topic for topic in pc.unique(rows["topic"]).to_pylist() if plain_topic(topic) in bronze_range.topics]
    return rows.filter(pc.is_in(rows["topic"], pa.array(topics, pa.string())))


def _decided_boxes(bronze_range: BronzeRange) -> list[small_tables.Box]:
    return [
        {"topic": (topic, topic), "partition": (first, last), "offset": (0, up_to)}
        for topic, first, last, up_to in decided_places(bronze_range.above)
    ]


def decided_places(above: Mapping[Partition, int]) -> Iterator[tuple[str, int, int, int]]:
    """Yield decided ranges as (topic, first partition, last partition, last offset).

    Ranges of neighbouring partitions let Delta skip a file that holds several of them.

    >>> list(decided_places({("t", 0): 7, ("t", 1): 5, ("t", 3): 9}))
    [('t', 0, 0, 7), ('t', 1, 1, 5), ('t', 3, 3, 9), ('t', 0, 1, 5)]
    """
    for (topic, partition), last in above.items():
        yield topic, partition, partition, last
    rows = ((topic, partition, last) for (topic, partition), last in sorted(above.items()))
    for (topic, _), consecutive in groupby(enumerate(rows), key=lambda each: (each[1][0], each[1][1] - each[0])):
        yield from _halves(topic, [(partition, last) for _, (_, partition, last) in consecutive], _HALVINGS)


def _halves(topic: str, neighbours: list[tuple[int, int]], halvings: int) -> Iterator[tuple[str, int, int, int]]:
    """Yield the range of all partitions, then of each half, recursively: partitions may have reached different offsets."""
    if len(neighbours) == 1:
        return
    first, last, up_to = neighbours[0][0], neighbours[-1][0], min(offset for _, offset in neighbours)
    yield topic, first, last, up_to
    if halvings:
        middle = len(neighbours) // 2
        yield from _halves(topic, neighbours[:middle], halvings - 1)
        yield from _halves(topic, neighbours[middle:], halvings - 1)


def arrivals(
    spark: SparkSession, run: Run, bronze_range: BronzeRange, decided: Mapping[Partition, int]
) -> tuple[dict[Partition, Arrived], bool]:
    """Count the range's records per partition, and say whether the count includes replays. `decided` are the decided records.

    Counts the change feed if commit metrics are missing or there are replays. Misses replays of versions gone from the log.
    """
    all_new = {partition: (records, 0) for partition, records in decided.items()}
    if bronze_range.up_to is not None:
        return all_new, False
    if bronze_range.counted == sum(decided.values()):
        return all_new, True
    offsets = [(*partition, offset) for partition, offset in bronze_range.above.items()]
    last = frames.of_tuples(spark, offsets, "topic string, partition int, above bigint")
    counted = tables.collect_appended(
        spark,
        run.table(BRONZE_RECORDS),
        after_version=bronze_range.after_version,
        to_version=bronze_range.to_version,
        summary=partial(_counted, decided=last, topics=bronze_range.topics),
    )
    if counted is None:
        run.report.event("silver.versions_gone", after_version=bronze_range.after_version, to_version=bronze_range.to_version)
        return all_new, False
    arrived = {(topic, partition): (records, replayed) for topic, partition, records, replayed in counted}
    found: dict[Partition, Arrived] = {}
    for partition in sorted({*decided, *arrived}):
        known = all_new if plain_topic(partition[0]) in bronze_range.joined else arrived
        # Decided, but not added by this range: the partition's watermark was moved back, so earlier versions hold the records.
        found[partition] = known.get(partition, (0, 0))
    return found, True


def _counted(records: DataFrame, *, decided: DataFrame, topics: Sequence[str] | None) -> DataFrame:
    records = records if topics is None else records.where(is_of_topics(topics))
    compared = records.select(*PLACE).join(F.broadcast(decided), on=["topic", "partition"], how="left")
    is_replay = F.coalesce(F.col("offset") <= F.col("above"), F.lit(False))
    counts = (F.count(F.lit(1)).alias("records"), F.count_if(is_replay).alias("replayed"))
    return compared.groupBy("topic", "partition").agg(*counts)


class _Part(NamedTuple):
    """The records of a partition whose offsets have the same high bits."""

    topic: str
    partition: int
    high_bits: int
    records: int


def keys_in_chunks(rows: DataFrame, most: int, *, counted: int | None = None) -> Iterator[pa.Table]:
    """Read key columns, see `silver.extract.columns.narrow`, as tables of at most `most` rows, texts as dictionaries.

    Yields one unsorted table if all rows fit. Otherwise sorted by topic and partition, each with whole partitions or
    consecutive offsets of one. All copies of an offset are in the same table. `counted` bounds the number of records.
    """
    if counted is not None and counted <= most:
        yield _read_keys(rows)
        return
    high_bits = F.shiftright("offset", _BITS)
    sizes = rows.groupBy("topic", "partition", high_bits.alias("high_bits")).agg(F.count(F.lit(1)).alias("records")).toArrow()
    parts = sorted(_Part(**row) for row in sizes.to_pylist())
    if sum(part.records for part in parts) <= most:
        yield _read_keys(rows)
        return
    for chunk in _chunks(parts, most):
        yield _read_keys(rows.where(any_of(_spans(chunk))))


def with_tombstones(keys: pa.Table, rules: Rules) -> pa.Table:
    """Give the tombstones that the rules skip their own problem; the sequence of their topics is read from the value."""
    if not any(each.skips_tombstones for each, _ in rules.per_topic):
        return keys
    topic, problem = keys["topic"].cast(pa.string()), keys["problem"].cast(pa.string())
    topics = [each for each in pc.unique(topic).to_pylist() if rules.of_topic(each).skips_tombstones]
    is_tombstone = pc.and_(pc.is_in(topic, pa.array(topics, pa.string())), pc.equal(problem, _WITHOUT_VALUE))
    return keys.set_column(keys.column_names.index("problem"), "problem", pc.if_else(is_tombstone, TOMBSTONE, problem))


def _read_keys(rows: DataFrame) -> pa.Table:
    name = F.col("producer")
    is_long = F.octet_length(name) > _LONG_NAME
    hashed = F.concat(F.lit(_HASHED), F.sha2(name.cast("binary"), 256))
    keys = rows.withColumn("producer", F.when(is_long, hashed).otherwise(name)).toArrow()
    for text in _TEXTS:
        encoded = keys[text].dictionary_encode().combine_chunks()
        keys = keys.set_column(keys.column_names.index(text), text, encoded)
    producers = keys["producer"].combine_chunks()
    if not any(each.startswith(_HASHED) for each in producers.dictionary.to_pylist()):
        return keys
    long_names = rows.where(is_long).select("producer").distinct().toArrow()["producer"].to_pylist()
    names = {_HASHED + sha256(each.encode()).hexdigest(): each for each in long_names}
    whole = pa.array([names.get(each, each) for each in producers.dictionary.to_pylist()], pa.string())
    producers = pa.DictionaryArray.from_arrays(producers.indices, whole)
    return keys.set_column(keys.column_names.index("producer"), "producer", producers)


def _chunks(parts: Iterable[_Part], most: int) -> Iterator[list[_Part]]:
    """Group neighbouring parts up to the limit.

    >>> parts = [_Part("t", 0, 0, 2), _Part("t", 0, 1, 2), _Part("t", 1, 0, 3), _Part("t", 2, 0, 9), _Part("t", 3, 0, 1)]
    >>> [[part.records for part in chunk] for chunk in _chunks(parts, 5)]
    [[2, 2], [3], [9], [1]]
    """
    chunk: list[_Part] = []
    for part in parts:
        if chunk and sum(each.records for each in chunk) + part.records > most:
            yield chunk
            chunk = []
        chunk.append(part)
    if chunk:
        yield chunk


def _spans(chunk: Iterable[_Part]) -> Iterator[str]:
    for (topic, partition), parts in groupby(chunk, key=lambda part: part[:2]):
        high_bits = [part.high_bits for part in parts]
        first, last = high_bits[0] << _BITS, ((high_bits[-1] + 1) << _BITS) - 1
        yield at(topic, partition, f"offset BETWEEN {first} AND {last}")
