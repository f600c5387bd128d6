"""The pinned Bronze range of a load: whole Bronze versions, without the offsets already decided."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from lakehouse.contracts.bronze import BRONZE, FINGERPRINT, is_of_topics, plain_topic
from lakehouse.contracts.contract import sql_text
from lakehouse.delta import small_tables, tables
from lakehouse.delta.small_tables import FEW, Limits
from lakehouse.errors import TableStateError
from lakehouse.spark import frames
from lakehouse.spark.pruning import any_of, at
from lakehouse.table import BRONZE_RECORDS
from silver.extract.columns import NARROW
from silver.state.ledger import Arrivals
from silver.state.plan import BronzeRange, Partition
from silver.state.tables import latest_bronze

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.delta.small_tables import Row
    from lakehouse.run.context import Run
    from lakehouse.table import Table

_KEY_BYTES = 2**28
"""Largest size, in bytes, of key columns that are read without Spark. A producer's name may have a kilobyte."""
_KEYS_AT_ONCE = 2**16
_HALVINGS = 3
"""Limits neighbouring partitions to fifteen conditions, because each new record is tested against all of them."""


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


def by_offset(*, after_version: int, to_version: int, above: Mapping[Partition, int], rows: Iterable[Row]) -> BronzeRange:
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
    bronze = run.table(BRONZE_RECORDS)
    if bronze_range.is_current:
        return read(spark, run, replace(bronze_range, is_current=False)).drop(FINGERPRINT)
    if bronze_range.up_to is not None:
        return within(latest_bronze(spark, run), bronze_range)
    if (few := _few(bronze, bronze_range)) is not None:
        return frames.of_arrow(spark, few).coalesce(1)  # written as one file on any number of cores
    version, without = bronze_range.to_version, _decided_boxes(bronze_range)
    records = small_tables.files(spark, bronze, version=version, without=without) or tables.read(spark, bronze, version=version)
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
    return _few(run.table(BRONZE_RECORDS), bronze_range, [*NARROW, FINGERPRINT, "erased"], limits)


def _few(
    bronze: Table, bronze_range: BronzeRange, columns: Sequence[str] = BRONZE.names, limits: Limits = FEW
) -> pa.Table | None:
    decided = _decided_boxes(bronze_range)
    rows = small_tables.few(bronze, columns, decided, version=bronze_range.to_version, is_outside=True, limits=limits)
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
) -> tuple[list[Arrivals], bool]:
    """Count the range's records per partition, and say whether the count includes replays. `decided` are the decided records.

    Counts the change feed if commit metrics are missing or there are replays. Misses replays of versions gone from the log.
    """
    above = bronze_range.above
    all_new = [Arrivals(*partition, records, 0, above.get(partition)) for partition, records in decided.items()]
    if bronze_range.up_to is not None:
        return all_new, False
    if bronze_range.counted == sum(decided.values()):
        return all_new, True
    offsets = [(*partition, offset) for partition, offset in above.items()]
    known = frames.of_tuples(spark, offsets, "topic string, partition int, above bigint")
    counted = tables.collect_appended(
        spark,
        run.table(BRONZE_RECORDS),
        after_version=bronze_range.after_version,
        to_version=bronze_range.to_version,
        summary=partial(_counted, decided=known, topics=bronze_range.topics),
    )
    if counted is None:
        run.report.event("silver.versions_gone", after_version=bronze_range.after_version, to_version=bronze_range.to_version)
        return all_new, False
    arrived = {(row["topic"], row["partition"]): Arrivals(**row.asDict()) for row in counted}
    joined = {place for place in {*decided, *arrived} if plain_topic(place[0]) in bronze_range.joined}
    found = [each for place, each in arrived.items() if place not in joined]
    found += [each for each in all_new if (each.topic, each.partition) in joined]
    # Decided, but not added by this range: the partition's watermark was moved back, so earlier versions hold the records.
    unbrought = decided.keys() - arrived.keys() - joined
    return found + [Arrivals(*partition, 0, 0, above.get(partition)) for partition in sorted(unbrought)], True


def _counted(records: DataFrame, *, decided: DataFrame, topics: Sequence[str] | None) -> DataFrame:
    records = records if topics is None else records.where(is_of_topics(topics))
    compared = records.select("topic", "partition", "offset").join(F.broadcast(decided), on=["topic", "partition"], how="left")
    is_replay = F.coalesce(F.col("offset") <= F.col("above"), F.lit(False))
    return compared.groupBy("topic", "partition", "above").agg(
        F.count(F.lit(1)).alias("records"), F.count_if(is_replay).alias("replayed")
    )
