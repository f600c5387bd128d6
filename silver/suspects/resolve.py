"""The exact look at the suspects: duplicate, late or collision, by what was kept of the same sequence, or was late, before.

A watermark alone cannot tell a record that was sent again from one that it never saw. So the suspects, and only they, are
compared with Silver, with the load's own accepted records and with the rejects, on stream, epoch and sequence and on a hash of
key and value. Rule: DESIGN section 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from lakehouse.contracts.silver import (
    ACCEPTED,
    DUPLICATE,
    JUMP,
    LATE,
    REPLAY,
    STREAM,
    SUSPECT,
)
from lakehouse.spark import frames, interval_join
from silver.model import SEGMENT, stream_of
from silver.suspects import compare_in_spark, compare_on_driver, pieces, pruning, resent_blocks
from silver.suspects.compare_in_spark import as_keys, same_key
from silver.suspects.compare_on_driver import KEY
from silver.suspects.content_hash import content_sha256

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from silver.model import Island
    from silver.state.watermarks import Watermarks
    from silver.suspects.pruning import Place, Range

_MOST_HERE = 100_000
"""Suspects that are told apart on the driver, which costs small loads least; more stay in Spark."""
_MOST_BROADCAST = 500_000
_FEWEST_COPIED = 10_000
"""Suspects in blocks that may be copies: fewer are told apart one by one as fast."""

_SPAN = (*STREAM, "first_offset", "last_offset")


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
    """A load while its suspects are told apart: its segments, and its records: extracted, and as islands."""

    found: pa.Table
    records: DataFrame
    islands: Sequence[Island] | None

    @property
    def others(self) -> pa.Table:
        """The segments of what is not accepted."""
        return self.found.filter(pc.invert(pc.is_in(self.found["class"], pa.array([ACCEPTED, REPLAY]))))

    @cached_property
    def kept(self) -> Sequence[Island] | None:
        """Its accepted records as islands, where it came so."""
        return None if self.islands is None else pieces.pieces(self.islands, self.others)


def is_needed(found: pa.Table) -> bool:
    """Whether a load has records that need the look; without any it costs nothing."""
    return bool(pc.any(pc.is_in(found["class"], pa.array([SUSPECT, JUMP]))).as_py())


def classify_suspects(
    spark: SparkSession, found: pa.Table, records: DataFrame, past: Past, islands: Sequence[Island] | None = None
) -> pa.Table:
    """Tell the suspects of a load apart, and hash what waits for a decision.

    Args:
        spark: The session.
        found: The load's segments, see `silver.model.SEGMENT`.
        records: The load's records, extracted: stream, offset, epoch, sequence, key and value. Read only where there are
            suspects or jumps.
        past: What the suspects are compared with, beside the load's own records.
        islands: All of the load's records, as islands, where it came so: they say where the like of a suspect lies.

    Returns:
        The segments, with the suspects as `duplicate` (blocks), `late` and `collision` (single records), and these and the
        jumps with `content_sha256`.
    """
    jumps, blocks = _of_class(found, JUMP), _of_class(found, SUSPECT)
    rest = found.filter(pc.invert(pc.is_in(found["class"], pa.array([JUMP, SUSPECT]))))
    if jumps.num_rows:
        jumps = _hashed(spark, jumps, records)
    if blocks.num_rows:
        blocks = _told_apart(spark, _Load(found, records, islands), past)
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
    can_be = resent_blocks.can_be(blocks)
    some = blocks.filter(can_be)
    if sum(some["records"].to_pylist()) < _FEWEST_COPIED or _holds_some_twice(load):
        return pa.array([False] * len(blocks))
    found = iter(resent_blocks.are_copies(some, _both(spark, load, past, some)))
    return pa.array([can and next(found) for can in can_be.to_pylist()])


def _both(spark: SparkSession, load: _Load, past: Past, blocks: pa.Table) -> DataFrame:
    """The records of some blocks, and what was kept of their sequences, as `silver.suspects.resent_blocks` compares them."""
    places = [{**row, "block": row["first_offset"], "is_sent": True} for row in blocks.select(list(_SPAN)).to_pylist()]
    above, below = _parted(blocks, past.watermarks)
    kept = []
    if load.kept is not None:
        places += [{**span, "is_sent": False} for span in pruning.matching_offsets(load.kept, blocks)]
    elif above:
        kept.append(resent_blocks.of_sequences(spark, blocks, _accepted(spark, load, blocks, above)))
    if below:
        kept.append(resent_blocks.of_sequences(spark, blocks, past.silver.where(pruning.sequence_filter(below))))
    near = load.records.where(pruning.offset_filter(map(_place, places)))
    return reduce(lambda one, other: one.unionByName(other), kept, resent_blocks.at_places(spark, places, near))


def _place(span: Mapping[str, Any]) -> Place:
    return span["topic"], span["partition"], span["first_offset"], span["last_offset"]


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
        return _with_jumps(compare_in_spark.judged(suspects, known).toArrow().to_pylist(), blocks)
    here = suspects.toArrow().sort_by([(name, "ascending") for name in (*STREAM, "offset")])
    keys = frames.of_arrow(spark, here.select(list(KEY))).select(*as_keys())
    known = _known(spark, load, past, blocks, keys).toArrow().to_pylist()
    return _with_jumps(list(compare_on_driver.judged(here.to_pylist(), compare_on_driver.first_of_each(known))), blocks)


def _known(spark: SparkSession, load: _Load, past: Past, blocks: pa.Table, keys: DataFrame) -> DataFrame:
    """What was kept, or is late, under a suspect's key: the key, `content_sha256`, and `place`, the lower the earlier."""
    count = pc.sum(blocks["records"]).as_py()
    known = _waiting(past.rejects, keys, count)
    for rows in _kept(spark, load, past, blocks):
        known = known.unionByName(_content(_of_keys(rows, keys, count)))
    return known


def _kept(spark: SparkSession, load: _Load, past: Past, blocks: pa.Table) -> Iterator[DataFrame]:
    """What Silver, and the load itself, kept of some suspects' sequences, and perhaps more; at least one of the two."""
    above, below = _parted(blocks, past.watermarks)
    if below:
        yield past.silver.where(pruning.sequence_filter(below))
    if above:
        yield _accepted(spark, load, blocks, above)


def _accepted(spark: SparkSession, load: _Load, blocks: pa.Table, above: list[Range]) -> DataFrame:
    """The load's accepted records that may share a key with a suspect: few, so that no other one is compared or hashed."""
    like = None if load.kept is None else map(_place, pruning.matching_offsets(load.kept, blocks))
    records = load.records.where(pruning.sequence_filter(above) if like is None else pruning.offset_filter(like))
    return interval_join.outside(spark, records, load.others, by_producer=True)


def keys_of(spark: SparkSession, rows: pa.Table, silver: DataFrame) -> set[tuple[object, ...]]:
    """The keys of some rejects that Silver holds: topic, partition, producer, epoch, sequence."""
    named = rows.filter(pc.and_(pc.is_valid(rows["epoch"]), pc.is_valid(rows["first_sequence"])))
    if not named.num_rows:
        return set()
    keys = frames.of_arrow(spark, named.select([*STREAM, "epoch", "first_sequence"])).withColumnRenamed(
        "first_sequence", "sequence"
    )
    kept = silver.where(pruning.sequence_filter(pruning.ranges(named))).select(*KEY)
    wanted = keys.select(*as_keys())
    found = kept.join(
        F.broadcast(wanted) if len(named) <= _MOST_BROADCAST else wanted, on=same_key(kept, wanted), how="left_semi"
    )
    return {tuple(row[name] for name in KEY) for row in found.toArrow().to_pylist()}


def _of_class(found: pa.Table, kind: str) -> pa.Table:
    return found.filter(pc.equal(found["class"], kind))


def _parted(blocks: pa.Table, watermarks: Watermarks) -> tuple[list[Range], list[Range]]:
    """Where the suspects above their watermark lie, whose like only the load can hold; and where the rest do."""
    known = watermarks.ordinals
    is_above, is_below = [], []
    for row in blocks.select([*STREAM, "epoch", "first_sequence", "last_sequence"]).to_pylist():
        watermark = known.get(stream_of(row))
        is_above.append(watermark is None or (row["epoch"], row["last_sequence"]) > watermark)
        is_below.append(watermark is not None and (row["epoch"], row["first_sequence"]) <= watermark)
    return pruning.ranges(blocks.filter(pa.array(is_above))), pruning.ranges(blocks.filter(pa.array(is_below)))


def _suspects(spark: SparkSession, blocks: pa.Table, records: DataFrame) -> DataFrame:
    """The records of some blocks, narrow and hashed."""
    within = _at(spark, blocks, records)
    return within.select(*KEY, "offset", "block", content_sha256(within))


def _at(spark: SparkSession, segments: pa.Table, records: DataFrame) -> DataFrame:
    """The records of some segments, each with its segment's first offset as `block`."""
    places = segments.select(list(_SPAN))
    near = records.where(pruning.offset_filter(map(_place, places.to_pylist())))
    return interval_join.within(spark, near, places, {"first_offset": "block"})


def _hashed(spark: SparkSession, jumps: pa.Table, records: DataFrame) -> pa.Table:
    """Jumps with their content's hash: each is a single record."""
    within = _at(spark, jumps, records)
    rows = within.select(*STREAM, "offset", content_sha256(within)).toArrow().to_pylist()
    hashes = {(*stream_of(row), row["offset"]): row["content_sha256"] for row in rows}
    places = zip(*(jumps[name].to_pylist() for name in (*STREAM, "first_offset")), strict=True)
    column = SEGMENT.get_field_index("content_sha256")
    return jumps.set_column(column, SEGMENT.field(column), pa.array([hashes[place] for place in places], pa.string()))


def _of_keys(rows: DataFrame, keys: DataFrame, count: int) -> DataFrame:
    """The rows that share a suspect's key. Many keys are not broadcast: then hashes are shuffled, and no wide row."""
    if count > _MOST_BROADCAST:
        return rows
    return rows.join(F.broadcast(keys), on=same_key(rows, keys), how="left_semi")


def _content(rows: DataFrame) -> DataFrame:
    return rows.select(*KEY, content_sha256(rows), F.lit(-1).cast("bigint").alias("place"))


def _waiting(rejects: DataFrame, keys: DataFrame, count: int) -> DataFrame:
    """The late record under a suspect's key: its next copy is no news, whatever became of it.

    A jump is none: its number is not believed, so nothing was accepted under it until it is released, and then Silver has it.
    """
    late = rejects.where(F.col("class") == LATE)
    rows = late.withColumns({"sequence": F.col("first_sequence"), "place": F.col("first_offset")})
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
