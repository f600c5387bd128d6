"""The exact look at the suspects: duplicate, late or collision, by what was kept or held of the same sequence before.

A watermark alone cannot tell a record that was sent again from one that it never saw. So the suspects, and only they, are
compared with Silver, with the load's own accepted records and with the rejects, on stream, epoch and sequence and on a hash of
key and value. Rule: DESIGN section 1.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse import frames
from lakehouse.contracts.silver import (
    ACCEPTED,
    DISCARDED,
    HELD,
    JUMP,
    LATE,
    REPLAY,
    STREAM,
    SUSPECT,
)
from silver import judge, judge_many, spans
from silver.extract import if_erased
from silver.fold import stream_of
from silver.judge import KEY
from silver.judge_many import as_keys, same_key
from silver.segments import SEGMENT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from silver.watermarks import Watermarks

_MOST_RANGES = 128
_MOST_HERE = 100_000
"""Suspects that are told apart on the driver, which costs small loads least; more stay in Spark."""
_MOST_BROADCAST = 500_000

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
    """A load while its suspects are told apart: its segments, its hashed jumps, its extracted records."""

    found: pa.Table
    jumps: pa.Table
    records: DataFrame


def is_needed(found: pa.Table) -> bool:
    """Whether a load has records that need the look; without any it costs nothing."""
    return bool(pc.any(pc.is_in(found["class"], pa.array([SUSPECT, JUMP]))).as_py())


def resolve(spark: SparkSession, found: pa.Table, records: DataFrame, past: Past) -> pa.Table:
    """Tell the suspects of a load apart, and hash what has to be known again.

    Args:
        spark: The session.
        found: The load's segments, see `silver.segments.SEGMENT`.
        records: The load's records, extracted: stream, offset, epoch, sequence, key and value. Read only where there are
            suspects or jumps.
        past: What the suspects are compared with, beside the load's own records.

    Returns:
        The segments, with the suspects as `duplicate` (blocks), `late` and `collision` (single records), and these and the
        jumps with `content_sha256`.
    """
    jumps, blocks = _of_class(found, JUMP), _of_class(found, SUSPECT)
    rest = found.filter(pc.invert(pc.is_in(found["class"], pa.array([JUMP, SUSPECT]))))
    if jumps.num_rows:
        jumps = _hashed(spark, jumps, records)
    if blocks.num_rows:
        blocks = _told_apart(spark, _Load(found, jumps, records), past)
    return pa.concat_tables([rest, jumps, blocks])


def _told_apart(spark: SparkSession, load: _Load, past: Past) -> pa.Table:
    blocks = _of_class(load.found, SUSPECT)
    count = pc.sum(blocks["records"]).as_py()
    suspects = _at(spark, blocks, load.records)
    if _of_class(load.found, REPLAY).num_rows:  # Bronze holds some twice
        suspects = suspects.dropDuplicates([*STREAM, "offset"])
    if count > _MOST_HERE:
        known = _known(spark, load, past, suspects.select(*as_keys()), count)
        return _with_jumps(judge_many.judged(suspects, known).toArrow().to_pylist(), blocks)
    here = suspects.toArrow().sort_by([(name, "ascending") for name in (*STREAM, "offset")])
    keys = frames.of_arrow(spark, here.select(list(KEY))).select(*as_keys())
    known = _known(spark, load, past, keys, count).toArrow().to_pylist()
    return _with_jumps(list(judge.judged(here.to_pylist(), judge.first_of_each(known))), blocks)


def _known(spark: SparkSession, load: _Load, past: Past, keys: DataFrame, count: int) -> DataFrame:
    """What was kept, or waits, under a suspect's key: the key, `content_sha256`, and `place`, the lower the earlier."""
    is_above, below = _parted(_of_class(load.found, SUSPECT), past.watermarks)
    known = _waiting(past.rejects, keys, count)
    if load.jumps.num_rows:
        known = known.unionByName(_waiting(frames.of_arrow(spark, load.jumps).withColumn("state", F.lit(HELD)), keys, count))
    if below:
        known = known.unionByName(_content(_of_keys(past.silver.where(_in(below)), keys, count)))
    if is_above:
        others = load.found.filter(pc.invert(pc.is_in(load.found["class"], pa.array([ACCEPTED, REPLAY]))))
        out, records = spans.of_segments(spark, others), load.records
        accepted = records.join(F.broadcast(out), on=spans.is_within(records, out, by_producer=True), how="left_anti")
        known = known.unionByName(_content(_of_keys(accepted, keys, count)))
    return known


def ranges(blocks: pa.Table) -> list[Range]:
    """The sequences of some blocks, overlapping ones as one; few, however many blocks there are.

    >>> names = ["topic", "partition", "epoch", "first_sequence", "last_sequence"]
    >>> ranges(pa.table([["t", "t"], [0, 0], [0, 0], [5, 1], [9, 6]], names=names))
    [('t', 0, 0, 1, 9)]
    """
    by_place: defaultdict[tuple[str, int, int], list[tuple[int, int]]] = defaultdict(list)
    for row in blocks.select(["topic", "partition", "epoch", "first_sequence", "last_sequence"]).to_pylist():
        by_place[row["topic"], row["partition"], row["epoch"]].append((row["first_sequence"], row["last_sequence"]))
    merged = {place: _merged(sorted(found)) for place, found in by_place.items()}
    if sum(map(len, merged.values())) > _MOST_RANGES:
        merged = {place: [(found[0][0], found[-1][1])] for place, found in merged.items()}
    return [(*place, first, last) for place, found in merged.items() for first, last in found]


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


def _merged(found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged = found[:1]
    for first, last in found[1:]:
        if first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged


def _parted(blocks: pa.Table, watermarks: Watermarks) -> tuple[bool, list[Range]]:
    """Whether some suspects lie above their watermark, where only the load can hold their like; where the rest lie."""
    known = watermarks.ordinals
    is_above, is_below = [], []
    for row in blocks.select([*STREAM, "epoch", "first_sequence", "last_sequence"]).to_pylist():
        watermark = known.get(stream_of(row))
        is_above.append(watermark is None or (row["epoch"], row["last_sequence"]) > watermark)
        is_below.append(watermark is not None and (row["epoch"], row["first_sequence"]) <= watermark)
    return any(is_above), ranges(blocks.filter(pa.array(is_below)))


def _in(wanted: list[Range]) -> Column:
    return spans.any_of(
        spans.at(topic, partition, f"epoch = {epoch} AND sequence BETWEEN {first} AND {last}")
        for topic, partition, epoch, first, last in wanted
    )


def _at(spark: SparkSession, segments: pa.Table, records: DataFrame) -> DataFrame:
    """The records of some segments, narrow and hashed, each with its segment's first offset as `block`."""
    spanned = spans.of_segments(spark, segments)
    within = records.join(F.broadcast(spanned), on=spans.is_within(records, spanned, by_producer=True))
    return within.select(
        *(records[name] for name in (*KEY, "offset")), spanned["first_offset"].alias("block"), content_sha256(records)
    )


def _hashed(spark: SparkSession, jumps: pa.Table, records: DataFrame) -> pa.Table:
    """Jumps with their content's hash: each is a single record."""
    rows = _at(spark, jumps, records).select(*STREAM, "offset", "content_sha256").toArrow().to_pylist()
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
