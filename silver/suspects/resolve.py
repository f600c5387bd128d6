"""Classify suspects as duplicate, late or collision, by the records of the same sequence that were kept, or late, before.

A watermark alone cannot distinguish a resent record from one that never arrived before. So the suspects, and only they, are
compared with Silver, with the load's own accepted records and with the rejects, on stream, epoch and sequence and on a hash of
key and value. Rule: docs/rule.md. However many they are, only some come to the driver at a time, narrow and hashed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import islice
from operator import and_
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from lakehouse.contracts.silver import (
    ACCEPTED,
    DUPLICATE,
    JUMP,
    REPLAY,
    STREAM,
    SUSPECT,
    stream_of,
)
from lakehouse.spark import frames, interval_join, pruning
from silver.decide.decision import Way
from silver.model import BATCH, SEGMENT, rows_of, tuples_of
from silver.suspects import resent_blocks
from silver.suspects.chunks import in_chunks
from silver.suspects.compare import KEY, first_of_each, judged, key_of
from silver.suspects.content_hash import content_sha256

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

    from lakehouse.spark.pruning import Place, Range
    from silver.state.watermarks import Watermarks
    from silver.suspects.compare import Known, Row
    from silver.suspects.past import Past

_WAY = Way()

_SPAN = (*STREAM, "first_offset", "last_offset")


@dataclass(frozen=True)
class _Load:
    """A load whose suspects are being classified: its segments, its records with what was extracted of them, and the way."""

    found: pa.Table
    records: DataFrame
    way: Way

    @property
    def others(self) -> pa.Table:
        """The segments that are neither accepted nor replays."""
        return self.found.filter(pc.invert(pc.is_in(self.found["class"], pa.array([ACCEPTED, REPLAY]))))


def is_needed(found: pa.Table) -> bool:
    """Whether a load has records to compare or hash; if not, nothing is read."""
    return bool(pc.any(pc.is_in(found["class"], pa.array([SUSPECT, JUMP]))).as_py())


def classify_suspects(spark: SparkSession, found: pa.Table, records: DataFrame, past: Past, way: Way = _WAY) -> pa.Table:
    """Classify the suspects of a load, and hash the content of records that wait for a decision.

    Args:
        spark: The session.
        found: The load's segments, see `silver.model.SEGMENT`.
        records: The load's records, extracted: stream, offset, epoch, sequence, key and value. Read only if there are suspects
            or jumps.
        past: The state that the suspects are compared with, as well as the load's own records.
        way: From which sizes on they are compared otherwise; it does not change the outcome.

    Returns:
        The segments, with the suspects as `duplicate` (blocks), `late` and `collision` (single records); late ones, collisions
        and jumps have a `content_sha256`.
    """
    jumps, blocks = _of_class(found, JUMP), _of_class(found, SUSPECT)
    rest = found.filter(pc.invert(pc.is_in(found["class"], pa.array([JUMP, SUSPECT]))))
    if jumps.num_rows:
        jumps = _hashed(spark, jumps, records)
    if blocks.num_rows:
        blocks = _told_apart(spark, _Load(found, records, way), past)
    return pa.concat_tables([rest, jumps, blocks])


def _told_apart(spark: SparkSession, load: _Load, past: Past) -> pa.Table:
    suspects = _of_class(load.found, SUSPECT)
    is_copy = _are_copies(spark, load, past, suspects)
    copied, blocks = suspects.filter(is_copy), suspects.filter(pc.invert(is_copy))
    kind = SEGMENT.get_field_index("class")
    copied = copied.set_column(kind, SEGMENT.field(kind), pa.array([DUPLICATE] * len(copied), pa.string()))
    return pa.concat_tables([copied, _one_by_one(spark, load, past, blocks)]) if blocks.num_rows else copied


def _are_copies(spark: SparkSession, load: _Load, past: Past, blocks: pa.Table) -> pa.Array:
    """Whether each block was resent as a whole; checked only if many records are in such blocks."""
    can_be = resent_blocks.can_be(blocks, load.way.smallest_copy)
    some = blocks.filter(can_be)
    if sum(some["records"].to_pylist()) < load.way.fewest_copied or _holds_some_twice(load):
        return pa.array([False] * len(blocks))
    found = iter(resent_blocks.are_copies(some, _both(spark, load, past, some)))
    return pa.array([can and next(found) for can in can_be.to_pylist()])


def _both(spark: SparkSession, load: _Load, past: Past, blocks: pa.Table) -> DataFrame:
    """The records of some blocks, and the kept ones with their sequences, as `silver.suspects.resent_blocks` compares them."""
    kept = [resent_blocks.of_sequences(spark, blocks, rows) for rows in _kept(spark, load, past, blocks)]
    return reduce(lambda one, other: one.unionByName(other), kept, resent_blocks.sent(_at(spark, blocks, load.records)))


def _place(span: Mapping[str, Any]) -> Place:
    return span["topic"], span["partition"], span["first_offset"], span["last_offset"]


def _holds_some_twice(load: _Load) -> bool:
    """Whether Bronze holds some of the load's records twice."""
    return bool(_of_class(load.found, REPLAY).num_rows)


def _one_by_one(spark: SparkSession, load: _Load, past: Past, blocks: pa.Table) -> pa.Table:
    chunks = (_with_known(spark, load, past, chunk) for chunk in in_chunks(blocks, load.way.most_at_once))
    return _segments(judged(chunks), blocks)


def _with_known(spark: SparkSession, load: _Load, past: Past, chunk: pa.Table) -> tuple[Iterator[Row], Known]:
    """The suspects of a chunk, sorted by stream and offset, and the first content known under each of their keys."""
    suspects = _suspects(spark, chunk, load.records)
    if _holds_some_twice(load):
        suspects = suspects.dropDuplicates([*STREAM, "offset"])
    here = suspects.toArrow().sort_by([(name, "ascending") for name in (*STREAM, "offset")])
    return rows_of(here), first_of_each(_known(spark, load, past, here).toArrow()) if here.num_rows else {}


def _known(spark: SparkSession, load: _Load, past: Past, suspects: pa.Table) -> DataFrame:
    """The kept and late records under a suspect's key: the key, `content_sha256`, and `place`, the lower the earlier."""
    keys = frames.of_arrow(spark, suspects.select(list(KEY)))
    # Of a block that was cut, only the sequences of this chunk are read.
    spans = suspects.group_by([*STREAM, "epoch", "block"]).aggregate([("sequence", "min"), ("sequence", "max")])
    spans = spans.rename_columns({"sequence_min": "first_sequence", "sequence_max": "last_sequence"})
    known = _waiting(past.late(pruning.ranges(spans)), keys)
    for rows in _kept(spark, load, past, spans):
        known = known.unionByName(_content(_of_keys(rows, keys)))
    return known


def _kept(spark: SparkSession, load: _Load, past: Past, blocks: pa.Table) -> Iterator[DataFrame]:
    """The records that Silver and the load itself kept with some suspects' sequences, perhaps others; at least one frame."""
    above, below = _parted(blocks, past.watermarks)
    if below:
        yield past.kept(below)
    if above:
        yield _accepted(spark, load, above)


def _accepted(spark: SparkSession, load: _Load, above: list[Range]) -> DataFrame:
    """The load's accepted records that may share a key with a suspect: few, so that not all are compared and hashed."""
    return interval_join.outside(spark, load.records.where(pruning.sequence_filter(above)), load.others, by_producer=True)


def keys_of(spark: SparkSession, rows: pa.Table, silver: DataFrame) -> set[tuple[object, ...]]:
    """The keys of those rejects whose sequence Silver holds: topic, partition, producer, epoch, sequence."""
    named = rows.filter(pc.and_(pc.is_valid(rows["epoch"]), pc.is_valid(rows["first_sequence"])))
    named = named.sort_by([(name, "ascending") for name in (*STREAM, "epoch", "first_sequence")])
    found: set[tuple[object, ...]] = set()
    for first in range(0, len(named), _WAY.most_at_once):
        part = named.slice(first, _WAY.most_at_once)
        keys = part.select([*STREAM, "epoch", "first_sequence"]).rename_columns(list(KEY))
        kept = silver.where(pruning.sequence_filter(pruning.ranges(part))).select(*KEY)
        found |= {key_of(row) for row in rows_of(_of_keys(kept, frames.of_arrow(spark, keys)).toArrow())}
    return found


def _of_class(found: pa.Table, kind: str) -> pa.Table:
    return found.filter(pc.equal(found["class"], kind))


def _parted(blocks: pa.Table, watermarks: Watermarks) -> tuple[list[Range], list[Range]]:
    """The sequence ranges of suspects above their watermark, whose originals only the load can hold; and those of the rest."""
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
    """The records of some segments, each with its segment's first offset as `block`; of pieces, with that of the whole."""
    block = segments["block"] if "block" in segments.column_names else segments["first_offset"]
    places = segments.select(list(_SPAN)).append_column("block", block)
    near = records.where(pruning.offset_filter(map(_place, rows_of(places))))
    return interval_join.within(spark, near, places, {"block": "block"})


def _hashed(spark: SparkSession, jumps: pa.Table, records: DataFrame) -> pa.Table:
    """Jumps with their content hash: each is a single record."""
    within = _at(spark, jumps, records)
    rows = within.select(*STREAM, "offset", content_sha256(within)).toArrow().to_pylist()
    hashes = {(*stream_of(row), row["offset"]): row["content_sha256"] for row in rows}
    places = tuples_of(jumps, (*STREAM, "first_offset"))
    column = SEGMENT.get_field_index("content_sha256")
    return jumps.set_column(column, SEGMENT.field(column), pa.array([hashes[place] for place in places], pa.string()))


def _of_keys(rows: DataFrame, keys: DataFrame) -> DataFrame:
    """The rows with one of the keys, of which there are not too many to broadcast."""
    return rows.join(F.broadcast(keys), on=_same_key(rows, keys), how="left_semi")


def _same_key(rows: DataFrame, keys: DataFrame) -> Column:
    others = [name for name in KEY if name != "producer"]
    return reduce(and_, [rows[name] == keys[name] for name in others], rows["producer"].eqNullSafe(keys["producer"]))


def _content(rows: DataFrame) -> DataFrame:
    return rows.select(*KEY, content_sha256(rows), F.lit(-1).cast("bigint").alias("place"))


def _waiting(late: DataFrame, keys: DataFrame) -> DataFrame:
    """The late record under a suspect's key: a further copy is a duplicate, whatever became of it.

    Jumps are left out: nothing is accepted under their sequence until they are released, and then Silver has it.
    """
    rows = late.withColumns({"sequence": F.col("first_sequence"), "place": F.col("first_offset")})
    return _of_keys(rows, keys).select(*KEY, "content_sha256", "place")


def _segments(rows: Iterator[dict[str, Any]], blocks: pa.Table) -> pa.Table:
    """The classified suspects as segments; a block's jump counts stay with its first part."""
    names = ("jumps_forward", "jumps_backward")
    jumps = dict(zip(tuples_of(blocks, (*STREAM, "first_offset")), tuples_of(blocks, names), strict=True))
    parts = [SEGMENT.empty_table()]
    while some := list(islice(rows, BATCH)):
        for row in some:
            row.update(zip(names, jumps.get((*stream_of(row), row["first_offset"]), (0, 0)), strict=True))
        parts.append(pa.Table.from_pylist(some, SEGMENT))
    return pa.concat_tables(parts)
