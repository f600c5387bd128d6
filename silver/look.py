"""The exact look at the suspects: duplicate, late or collision, by what was kept or held of the same sequence before.

A watermark alone cannot tell a record that was sent again from one that it never saw. So the suspects, and only they, are
compared with Silver, with the load's own accepted records and with the rejects, on stream, epoch and sequence and on a hash of
key and value. Rule: DESIGN section 1.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from functools import reduce
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse import frames
from lakehouse.contracts.silver import (
    ACCEPTED,
    DISCARDED,
    DUPLICATE,
    HELD,
    JUMP,
    LATE,
    REPLAY,
    STREAM,
    SUSPECT,
)
from silver import copies, judge, judge_many, spans
from silver.extract import if_erased
from silver.fold import stream_of
from silver.judge import KEY
from silver.judge_many import as_keys, same_key
from silver.segments import SEGMENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from silver.fold import Stretch
    from silver.watermarks import Watermarks

Key = TypeVar("Key")

_MOST_RANGES = 128
_MOST_HERE = 100_000
"""Suspects that are told apart on the driver, which costs small loads least; more stay in Spark."""
_MOST_BROADCAST = 500_000
_FEWEST_COPIED = 10_000
"""Suspects in blocks that may be copies: fewer are told apart one by one as fast."""

_PLACE = ("topic", "partition", "first_offset", "last_offset")

Place = tuple[str, int, int, int]
"""topic, partition, first and last offset, inclusive"""
Range = tuple[str, int, int, int, int]
"""topic, partition, epoch, first and last sequence, inclusive"""


@dataclass(frozen=True)
class Past:
    """What the loads before left.

    Attributes:
        silver: Their rows of `silver_records`.
        rejects: Their rows of `silver_rejects`.
        watermarks: The watermarks that the load met.
    """

    silver: DataFrame
    rejects: DataFrame
    watermarks: Watermarks


@dataclass(frozen=True)
class _Load:
    """A load while its suspects are told apart: its segments, its hashed jumps, its records: extracted, and as stretches."""

    found: pa.Table
    jumps: pa.Table
    records: DataFrame
    stretches: Sequence[Stretch] | None


def is_needed(found: pa.Table) -> bool:
    """Whether a load has records that need the look; without any it costs nothing."""
    return bool(pc.any(pc.is_in(found["class"], pa.array([SUSPECT, JUMP]))).as_py())


def resolve(
    spark: SparkSession, found: pa.Table, records: DataFrame, past: Past, stretches: Sequence[Stretch] | None = None
) -> pa.Table:
    """Tell the suspects of a load apart, and hash what has to be known again.

    Args:
        spark: The session.
        found: The load's segments, see `silver.segments.SEGMENT`.
        records: The load's records, extracted: stream, offset, epoch, sequence, key and value. Read only where there are
            suspects or jumps.
        past: What the suspects are compared with, beside the load's own records.
        stretches: All of the load's records, as stretches, where it came so: they say where the like of a suspect lies.

    Returns:
        The segments, with the suspects as `duplicate` (blocks), `late` and `collision` (single records), and these and the
        jumps with `content_sha256`.
    """
    jumps, blocks = _of_class(found, JUMP), _of_class(found, SUSPECT)
    rest = found.filter(pc.invert(pc.is_in(found["class"], pa.array([JUMP, SUSPECT]))))
    if jumps.num_rows:
        jumps = _hashed(spark, jumps, records)
    if blocks.num_rows:
        blocks = _told_apart(spark, _Load(found, jumps, records, stretches), past)
    return pa.concat_tables([rest, jumps, blocks])


def _told_apart(spark: SparkSession, load: _Load, past: Past) -> pa.Table:
    suspects = _of_class(load.found, SUSPECT)
    is_copy = _are_copies(spark, load, past, suspects)
    copied, blocks = suspects.filter(is_copy), suspects.filter(pc.invert(is_copy))
    kind = SEGMENT.get_field_index("class")
    copied = copied.set_column(kind, SEGMENT.field(kind), pa.array([DUPLICATE] * len(copied), pa.string()))
    return pa.concat_tables([copied, _one_by_one(spark, load, past, blocks)]) if blocks.num_rows else copied


def _are_copies(spark: SparkSession, load: _Load, past: Past, blocks: pa.Table) -> pa.Array:
    """Whether each block was sent again as a whole; sought only where many records are in such blocks."""
    can_be = copies.can_be(blocks)
    some = blocks.filter(can_be)
    if sum(some["records"].to_pylist()) < _FEWEST_COPIED or _holds_some_twice(load):
        return pa.array([False] * len(blocks))
    kept = reduce(lambda one, other: one.unionByName(other), map(_content, _kept(spark, load, past, some)))
    found = iter(copies.are_copies(spark, some, _suspects(spark, some, load.records), kept))
    return pa.array([can and next(found) for can in can_be.to_pylist()])


def _holds_some_twice(load: _Load) -> bool:
    """Whether Bronze does."""
    return bool(_of_class(load.found, REPLAY).num_rows)


def _one_by_one(spark: SparkSession, load: _Load, past: Past, blocks: pa.Table) -> pa.Table:
    count = pc.sum(blocks["records"]).as_py()
    suspects = _suspects(spark, blocks, load.records)
    if _holds_some_twice(load):
        suspects = suspects.dropDuplicates([*STREAM, "offset"])
    if count > _MOST_HERE:
        known = _known(spark, load, past, blocks, suspects.select(*as_keys()))
        return _with_jumps(judge_many.judged(suspects, known).toArrow().to_pylist(), blocks)
    here = suspects.toArrow().sort_by([(name, "ascending") for name in (*STREAM, "offset")])
    keys = frames.of_arrow(spark, here.select(list(KEY))).select(*as_keys())
    known = _known(spark, load, past, blocks, keys).toArrow().to_pylist()
    return _with_jumps(list(judge.judged(here.to_pylist(), judge.first_of_each(known))), blocks)


def _known(spark: SparkSession, load: _Load, past: Past, blocks: pa.Table, keys: DataFrame) -> DataFrame:
    """What was kept, or waits, under a suspect's key: the key, `content_sha256`, and `place`, the lower the earlier."""
    count = pc.sum(blocks["records"]).as_py()
    known = _waiting(past.rejects, keys, count)
    if load.jumps.num_rows:
        known = known.unionByName(_waiting(frames.of_arrow(spark, load.jumps).withColumn("state", F.lit(HELD)), keys, count))
    for rows in _kept(spark, load, past, blocks):
        known = known.unionByName(_content(_of_keys(rows, keys, count)))
    return known


def _kept(spark: SparkSession, load: _Load, past: Past, blocks: pa.Table) -> Iterator[DataFrame]:
    """What Silver, and the load itself, kept of some suspects' sequences, and perhaps more; at least one of the two."""
    above, below = _parted(blocks, past.watermarks)
    if below:
        yield past.silver.where(_in(below))
    if above:
        others = load.found.filter(pc.invert(pc.is_in(load.found["class"], pa.array([ACCEPTED, REPLAY]))))
        out, records = spans.of_segments(spark, others), _alike(load, above)
        yield records.join(F.broadcast(out), on=spans.is_within(records, out, by_producer=True), how="left_anti")


def _alike(load: _Load, above: list[Range]) -> DataFrame:
    """The load's records that may share a key with a suspect: few, so that no other one is compared or hashed."""
    if load.stretches is None:
        return load.records.where(_in(above))
    return _near(load.records, places(load.stretches, above))


def places(stretches: Iterable[Stretch], wanted: Iterable[Range]) -> Iterator[Place]:
    """The offsets at which some sequences lie.

    Args:
        stretches: Records, as stretches.
        wanted: The sequences; those of a topic, partition and epoch in rising order, none of them twice.

    >>> from silver.fold import Stretch
    >>> list(places([Stretch(("t", 0, None), 100, 199, 0, 1, None)], [("t", 0, 0, 91, 120), ("t", 0, 1, 1, 5)]))
    [('t', 0, 190, 199)]
    """
    by_place: defaultdict[tuple[str, int, int], list[tuple[int, int]]] = defaultdict(list)
    for topic, partition, epoch, first, last in wanted:
        by_place[topic, partition, epoch].append((first, last))
    for stretch in stretches:
        if stretch.epoch is None or stretch.first_sequence is None:
            continue  # a record that could not be read
        spans_, distance = by_place[*stretch.stream[:2], stretch.epoch], stretch.first_offset - stretch.first_sequence
        last_sequence = stretch.last_offset - distance
        for first, last in spans_[bisect_left(spans_, stretch.first_sequence, key=itemgetter(1)) :]:
            if first > last_sequence:
                break
            low, high = max(first, stretch.first_sequence), min(last, last_sequence)
            yield *stretch.stream[:2], low + distance, high + distance


def ranges(blocks: pa.Table) -> list[Range]:
    """The sequences of some blocks, overlapping ones as one; few, however many blocks there are.

    >>> names = ["topic", "partition", "epoch", "first_sequence", "last_sequence"]
    >>> ranges(pa.table([["t", "t"], [0, 0], [0, 0], [5, 1], [9, 6]], names=names))
    [('t', 0, 0, 1, 9)]
    """
    by_place: defaultdict[tuple[str, int, int], list[tuple[int, int]]] = defaultdict(list)
    for row in blocks.select(["topic", "partition", "epoch", "first_sequence", "last_sequence"]).to_pylist():
        by_place[row["topic"], row["partition"], row["epoch"]].append((row["first_sequence"], row["last_sequence"]))
    return [(*place, first, last) for place, found in _few(by_place).items() for first, last in found]


def keys_of(spark: SparkSession, rows: pa.Table, silver: DataFrame) -> set[tuple[object, ...]]:
    """The keys of some rejects that Silver holds: topic, partition, producer, epoch, sequence."""
    named = rows.filter(pc.and_(pc.is_valid(rows["epoch"]), pc.is_valid(rows["first_sequence"])))
    if not named.num_rows:
        return set()
    keys = frames.of_arrow(spark, named.select([*STREAM, "epoch", "first_sequence"])).withColumnRenamed(
        "first_sequence", "sequence"
    )
    kept = silver.where(_in(ranges(named))).select(*KEY)
    wanted = keys.select(*as_keys())
    found = kept.join(
        F.broadcast(wanted) if len(named) <= _MOST_BROADCAST else wanted, on=same_key(kept, wanted), how="left_semi"
    )
    return {tuple(row[name] for name in KEY) for row in found.toArrow().to_pylist()}


def _of_class(found: pa.Table, kind: str) -> pa.Table:
    return found.filter(pc.equal(found["class"], kind))


def _few(spans_of: Mapping[Key, list[tuple[int, int]]]) -> dict[Key, list[tuple[int, int]]]:
    """Spans by where they are, overlapping ones as one; where they are many still, the whole reach of each."""
    merged = {key: _merged(sorted(found)) for key, found in spans_of.items()}
    if sum(map(len, merged.values())) > _MOST_RANGES:
        return {key: [(found[0][0], found[-1][1])] for key, found in merged.items()}
    return merged


def _merged(found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged = found[:1]
    for first, last in found[1:]:
        if first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged


def _parted(blocks: pa.Table, watermarks: Watermarks) -> tuple[list[Range], list[Range]]:
    """Where the suspects above their watermark lie, whose like only the load can hold; and where the rest do."""
    known = watermarks.ordinals
    is_above, is_below = [], []
    for row in blocks.select([*STREAM, "epoch", "first_sequence", "last_sequence"]).to_pylist():
        watermark = known.get(stream_of(row))
        is_above.append(watermark is None or (row["epoch"], row["last_sequence"]) > watermark)
        is_below.append(watermark is not None and (row["epoch"], row["first_sequence"]) <= watermark)
    return ranges(blocks.filter(pa.array(is_above))), ranges(blocks.filter(pa.array(is_below)))


def _in(wanted: list[Range]) -> Column:
    return spans.any_of(
        spans.at(topic, partition, f"epoch = {epoch} AND sequence BETWEEN {first} AND {last}")
        for topic, partition, epoch, first, last in wanted
    )


def _suspects(spark: SparkSession, blocks: pa.Table, records: DataFrame) -> DataFrame:
    """The records of some blocks, narrow and hashed."""
    within = _at(spark, blocks, records)
    return within.select(*KEY, "offset", "block", content_sha256(within))


def _at(spark: SparkSession, segments: pa.Table, records: DataFrame) -> DataFrame:
    """The records of some segments, each with its segment's first offset as `block`."""
    spanned = spans.of_segments(spark, segments)
    records = _near(records, zip(*(segments[name].to_pylist() for name in _PLACE), strict=True))
    within = records.join(F.broadcast(spanned), on=spans.is_within(records, spanned, by_producer=True))
    return within.select(*(records[name] for name in records.columns), spanned["first_offset"].alias("block"))


def _near(records: DataFrame, wanted: Iterable[Place]) -> DataFrame:
    """The records at some offsets, and not many others: Delta's statistics and Parquet's leave out what lies elsewhere."""
    by_place: defaultdict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for topic, partition, first, last in wanted:
        by_place[topic, partition].append((first, last))
    found = [
        spans.at(*place, f"offset BETWEEN {first} AND {last}")
        for place, spans_ in _few(by_place).items()
        for first, last in spans_
    ]
    return records.where(spans.any_of(found) if found else F.lit(False))


def _hashed(spark: SparkSession, jumps: pa.Table, records: DataFrame) -> pa.Table:
    """Jumps with their content's hash: each is a single record."""
    within = _at(spark, jumps, records)
    rows = within.select(*STREAM, "offset", content_sha256(within)).toArrow().to_pylist()
    hashes = {(*stream_of(row), row["offset"]): row["content_sha256"] for row in rows}
    places = zip(*(jumps[name].to_pylist() for name in (*STREAM, "first_offset")), strict=True)
    column = SEGMENT.get_field_index("content_sha256")
    return jumps.set_column(column, SEGMENT.field(column), pa.array([hashes[place] for place in places], pa.string()))


def content_sha256(records: DataFrame) -> Column:
    """A hash of key and value, which tells null from empty: 64 hexadecimal digits. Of what was erased, see `judge.ERASED`."""
    parts = [F.coalesce(F.sha2(records[name], 256), F.lit("null")) for name in ("key", "value")]
    content = F.sha2(F.concat_ws(" ", *parts).cast("binary"), 256)
    if if_erased(records):
        erased = records["erased"]
        is_collision = erased["is_collision"] if "problem" in _fields(records) else F.lit(False)
        content = F.when(erased.isNotNull(), judge_many.erased(erased["up_to_offset"], is_collision)).otherwise(content)
    return content.alias("content_sha256")


def _fields(records: DataFrame) -> list[str]:
    kind = records.schema["erased"].dataType
    return kind.fieldNames() if isinstance(kind, StructType) else []


def _of_keys(rows: DataFrame, keys: DataFrame, count: int) -> DataFrame:
    """The rows that share a suspect's key. Many keys are not broadcast: then hashes are shuffled, and no wide row."""
    if count > _MOST_BROADCAST:
        return rows
    return rows.join(F.broadcast(keys), on=same_key(rows, keys), how="left_semi")


def _content(rows: DataFrame) -> DataFrame:
    return rows.select(*KEY, content_sha256(rows), F.lit(-1).cast("bigint").alias("place"))


def _waiting(rejects: DataFrame, keys: DataFrame, count: int) -> DataFrame:
    """What waits, or waited, in quarantine under a suspect's key: its next copy is no news, whatever was decided of it."""
    is_waiting = (F.col("class") == LATE) | ((F.col("class") == JUMP) & (F.col("state") != DISCARDED))
    rows = rejects.where(is_waiting).withColumns({"sequence": F.col("first_sequence"), "place": F.col("first_offset")})
    return _of_keys(rows, keys, count).select(*KEY, "content_sha256", "place")


def _with_jumps(rows: list[dict[str, Any]], blocks: pa.Table) -> pa.Table:
    """The judged suspects as segments; a block's jumps stay with the first part of it."""
    jumps = {
        (*stream_of(row), row["first_offset"]): row
        for row in blocks.select([*STREAM, "first_offset", "jumps_forward", "jumps_backward"]).to_pylist()
    }
    for row in rows:
        of_block = jumps.get((*stream_of(row), row["first_offset"]))
        row["jumps_forward"] = of_block["jumps_forward"] if of_block else 0
        row["jumps_backward"] = of_block["jumps_backward"] if of_block else 0
    return pa.Table.from_pylist(rows, SEGMENT)
