"""Classify suspects as duplicate, late, collision or fenced, by the records of their sequence that were kept, or late, before.

A watermark alone cannot distinguish a resent record from one that never arrived before. So suspects are compared with Silver,
with the load's own accepted records and with the rejects. The comparison uses stream, epoch, sequence and a hash of key and
value. Rule: docs/rule.md. The driver gets them in batches of bounded size, as few columns and a hash.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.contracts.silver import COLLISION, JUMP, PLACE, STREAM, SUSPECT, Ordinal, Partition, Stream
from lakehouse.spark import bitmaps, frames, pruning
from lakehouse.spark.pruning import any_of, at
from silver import model
from silver.columns import NONE, Flags, Numbers, filled, row_codes, share
from silver.model import SEGMENT, tuples_of
from silver.suspects.compare import KEY, Comparison
from silver.suspects.content_hash import content_sha256

if TYPE_CHECKING:
    from silver.decide.kernel import Decided
    from silver.suspects.known_records import KnownRecords

_SPANS = {"sequence_min": "first_sequence", "sequence_max": "last_sequence"}


class Suspects:
    """Classifies the suspects of a load, chunk by chunk, and hashes the content of records that wait for a decision.

    `records` are Bronze's rows of the load, read only if there are suspects or jumps. `extracted` returns them with streams,
    epochs and sequences; called only if a partition spans several chunks. `known` returns what suspects are compared with.
    """

    def __init__(self, records: DataFrame, extracted: Callable[[], DataFrame], known: Callable[[], KnownRecords]) -> None:
        self._records, self._extracted, self._known = records, extracted, known
        self._compared = Comparison()

    def classify(self, chunk: Decided, continued: Mapping[Partition, int], out: Sequence[pa.Table]) -> pa.Table:
        """Return a chunk's segments, with suspects as blocks of duplicates, or single late, fenced and collision records.

        Late records, collisions (those that an earlier incarnation settled, too) and jumps have a `content_sha256`. `continued`
        is the last offset of each partition with records in earlier chunks. `out` are the offsets that earlier chunks kept out
        of Silver, as `lakehouse.spark.bitmaps.blocks`.
        """
        found = chunk.segments
        singles = _of_class(found, JUMP, COLLISION)
        parts = [found.filter(pc.invert(pc.is_in(found["class"], pa.array([JUMP, COLLISION, SUSPECT]))))]
        self._compared.forget(continued.keys())
        if singles.num_rows:
            places = singles.select(["topic", "partition", "first_offset"]).rename_columns(list(PLACE))
            hashed = with_content(places, contents_of(self._records.sparkSession, places, self._records))
            column = SEGMENT.get_field_index("content_sha256")
            parts.append(singles.set_column(column, SEGMENT.field(column), hashed["content_sha256"]))
        if chunk.suspects.num_rows:
            rows = self._rows(chunk, continued, out)
            parts.append(rows.append_column("reason", pa.nulls(len(rows))).select(SEGMENT.names).cast(SEGMENT))
        return pa.concat_tables(parts)

    def _rows(self, chunk: Decided, continued: Mapping[Partition, int], out: Sequence[pa.Table]) -> pa.Table:
        spark, earlier, suspects = self._records.sparkSession, self._known(), chunk.suspects
        for start in range(0, len(suspects), model.LIMITS.suspects):
            part = suspects.slice(start, model.LIMITS.suspects)
            # Only this load can hold the original of a suspect above the watermark.
            is_below = are_below(part, earlier.watermarks.ordinals.get)
            kept = chunk.originals.filter(pa.array(share(chunk.originals, part, KEY)))
            if continued:
                above = part.filter(pa.array(~is_below))
                kept = pa.concat_tables([kept, _earlier(above, continued, out, self._extracted())])
            contents = contents_of(spark, pa.concat_tables([part.select(PLACE), kept.select(PLACE)]), self._records)
            own = with_content(kept, contents).append_column("rank", pa.repeat(-1, len(kept)))
            before = _known(spark, earlier, part, is_below).toArrow()
            self._compared.add(with_content(part, contents), before, own)
        return self._compared.taken()


def are_below(records: pa.Table, mark: Callable[[Stream], Ordinal | None]) -> Flags:
    """Whether each record is at or below the watermark that `mark` returns for its stream."""
    streams = row_codes(records, STREAM)
    first_of = np.unique(streams, return_index=True)[1]
    marks = [mark(stream) or (NONE, NONE) for stream in tuples_of(records.take(pa.array(first_of)), STREAM)]
    return are_up_to(records, np.array(marks, np.int64).reshape(-1, 2)[streams])


def are_up_to(records: pa.Table, marks: Numbers) -> Flags:
    """Whether the (epoch, sequence) of each record is at or below the pair in its row of `marks`."""
    own, (epoch, highest) = filled(records["epoch"]), marks.T
    is_up_to: Flags = (own < epoch) | ((own == epoch) & (filled(records["sequence"]) <= highest))
    return is_up_to


def _earlier(suspects: pa.Table, continued: Mapping[Partition, int], out: Sequence[pa.Table], records: DataFrame) -> pa.Table:
    """Return the records that earlier chunks accepted under some suspects' keys."""
    spark = records.sparkSession
    places = list(tuples_of(suspects, ("topic", "partition")))
    some = suspects.filter(pa.array([place in continued for place in places], pa.bool_()))
    if not some.num_rows:
        return suspects.select([*KEY, "offset"]).slice(0, 0)
    before = any_of(at(*place, f"offset <= {last}") for place, last in continued.items())
    near = records.where(before & pruning.sequence_filter(_ranges(some)) & F.col("problem").isNull())
    rows = of_keys(near, frames.of_arrow(spark, some.select(list(KEY)))).select(*KEY, "offset").distinct()
    kept = bitmaps.join(spark, rows, pa.concat_tables(out), "left_anti") if out else rows
    return kept.toArrow().cast(suspects.select([*KEY, "offset"]).schema)


def _known(spark: SparkSession, earlier: KnownRecords, suspects: pa.Table, is_below: Flags) -> DataFrame:
    """Return earlier loads' records with the suspects' keys: key, `content_sha256`, and `rank`, lower for earlier ones.

    Late records count even if discarded. Jumps do not: Silver has them once they are released, and nothing else before.
    """
    keys = frames.of_arrow(spark, suspects.select(list(KEY)))
    late = earlier.late(_ranges(suspects)).withColumns({"sequence": F.col("first_sequence"), "rank": F.col("first_offset")})
    known = of_keys(late, keys).select(*KEY, "content_sha256", "rank")
    below = suspects.filter(pa.array(is_below))
    if not below.num_rows:
        return known
    kept = of_keys(earlier.kept(_ranges(below)), keys)
    return known.unionByName(kept.select(*KEY, content_sha256(kept), F.lit(-1).cast("bigint").alias("rank")))


def _ranges(suspects: pa.Table) -> list[pruning.Range]:
    spans = suspects.group_by([*STREAM, "epoch", "block"]).aggregate([("sequence", "min"), ("sequence", "max")])
    return pruning.ranges(spans.rename_columns([_SPANS.get(name, name) for name in spans.column_names]))


def contents_of(spark: SparkSession, places: pa.Table, records: DataFrame) -> pa.Table:
    """Return the content hash of the records at some places: topic, partition, offset and content_sha256."""
    spans = places.rename_columns(["topic", "partition", "first_offset"])
    near = records.where(pruning.offset_filter(spans.append_column("last_offset", spans["first_offset"])))
    rows = bitmaps.join(spark, near, bitmaps.blocks(places), "left_semi")
    return rows.select(*PLACE, content_sha256(rows)).toArrow()


def with_content(rows: pa.Table, contents: pa.Table) -> pa.Table:
    """Rows with the content hash of their places."""
    both = [rows.select(PLACE), contents.select(PLACE).cast(rows.select(PLACE).schema)]
    code = row_codes(pa.concat_tables(both), PLACE)
    nth = np.full(int(code.max(initial=0)) + 1, len(contents))  # a missing place fails below
    nth[code[len(rows) :]] = np.arange(len(contents))
    return rows.append_column("content_sha256", contents["content_sha256"].take(pa.array(nth[code[: len(rows)]])))


def _of_class(found: pa.Table, *kinds: str) -> pa.Table:
    return found.filter(pc.is_in(found["class"], pa.array(kinds)))


def of_keys(rows: DataFrame, keys: DataFrame) -> DataFrame:
    """Return the rows with one of the keys. The keys are broadcast; a null producer equals another."""
    others = [name for name in keys.columns if name != "producer"]
    is_same = reduce(and_, [rows[name] == keys[name] for name in others], rows["producer"].eqNullSafe(keys["producer"]))
    return rows.join(F.broadcast(keys), on=is_same, how="left_semi")
