"""Compare suspects with earlier kept and late records of the same key: duplicate, late, collision or fenced.

A watermark alone cannot distinguish a resent record from one that never arrived before. So suspects are compared with Silver,
with the load's own accepted records and with the rejects. The comparison uses stream, epoch, sequence and a hash of key and
value. Rule: docs/rule.md. The driver gets them in batches of bounded size, as few columns and a hash.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.contracts.silver import COLLISION, JUMP, LATE, PLACE, REJECTS, STREAM, SUSPECT, silver_records
from lakehouse.delta import small_tables
from lakehouse.extract.per_topic import by_topic
from lakehouse.spark import bitmaps, frames, pruning
from lakehouse.spark.pruning import any_of, at
from silver import model
from silver.columns import NONE, Flags, filled, row_codes, share
from silver.model import SEGMENT, tuples_of
from silver.state.tables import before_load
from silver.suspects.compare import ERASED, KEY, compare, merge_blocks

if TYPE_CHECKING:
    from lakehouse.contracts.contract import Contract
    from lakehouse.contracts.silver import Ordinal, Partition
    from lakehouse.extract.sources import Sources
    from lakehouse.run.context import Run
    from silver.decide.kernel import Decided
    from silver.rules import Rules
    from silver.state.watermarks import Watermarks

_OF_SILVER = (*KEY, "key", "value", "erased")
_OF_REJECTS = (*(name for name in KEY if name != "sequence"), "class", "first_offset", "first_sequence", "content_sha256")
_VARIES = r"(?:source|transaction|ts_[mun]s|__\w+)"
"""Fields of a change event that may differ when Debezium's connector sends it again: times, and the connector's version."""
_IN_JSON = rf'"{_VARIES}":\s*+(?:\{{[^{{}}]*+\}}|"(?:[^"\\]++|\\.)*+"|[^"{{}}\[\],]++)'


@dataclass(frozen=True)
class KnownRecords:
    """Rows of earlier loads with a sequence in some ranges: `kept` by Silver, prepared for `content_sha256`, and `rejects`."""

    kept: Callable[[Sequence[pruning.Range]], DataFrame]
    rejects: Callable[[Sequence[pruning.Range]], DataFrame]

    @classmethod
    def of(cls, spark: SparkSession, run: Run, load_seq: int, rules: Rules) -> KnownRecords:
        """Return the records that a run's tables hold before a load. If few rows are in the ranges, the driver reads them."""

        def rows(contract: Contract, columns: Sequence[str], of: str, wanted: Sequence[pruning.Range]) -> DataFrame:
            before = (0, load_seq - 1)
            boxes: list[small_tables.Box] = [
                {"topic": (name, name), "partition": (nth, nth), "epoch": (epoch, epoch), of: (first, last), "load_seq": before}
                for name, nth, epoch, first, last in wanted
            ]
            few = small_tables.few(run.table(contract.name), columns, boxes)
            if few is not None:
                return frames.of_arrow(spark, few)
            return before_load(spark, run, contract, load_seq).where(pruning.sequence_filter(wanted, of=of))

        return cls(
            lambda wanted: comparable(rows(silver_records(), _OF_SILVER, "sequence", wanted), rules),
            lambda wanted: rows(REJECTS, _OF_REJECTS, "first_sequence", wanted),
        )

    def late(self, wanted: Sequence[pruning.Range]) -> DataFrame:
        """Late rows of `silver_rejects`, in any state, with a sequence in some ranges."""
        return self.rejects(wanted).where(F.col("class") == LATE).withColumn("sequence", F.col("first_sequence"))


class Suspects:
    """Classifies the suspects of a load, chunk by chunk, and hashes the content of records that wait for a decision.

    `records` are Bronze's rows of the load, read only if there are suspects or jumps. `extracted` returns them with streams,
    epochs and sequences; called only if a partition spans several chunks. `known` is what suspects are compared with.
    """

    def __init__(self, records: DataFrame, extracted: Callable[[], DataFrame], known: KnownRecords) -> None:
        self._records, self._extracted, self._known = records, extracted, known
        self._late: list[pa.Table] = []

    def classify(
        self, chunk: Decided, watermarks: Watermarks, continued: Mapping[Partition, int], out: Sequence[pa.Table]
    ) -> pa.Table:
        """Return a chunk's segments, with suspects as blocks of duplicates, or single late, fenced and collision records.

        Late records, collisions (those that an earlier incarnation settled, too) and jumps have a `content_sha256`. `continued`
        is the last offset of each partition with records in earlier chunks. `out` are the offsets that earlier chunks kept out
        of Silver, as `lakehouse.spark.bitmaps.blocks`.
        """
        found = chunk.segments
        singles = _of_class(found, JUMP, COLLISION)
        parts = [found.filter(pc.invert(pc.is_in(found["class"], pa.array([JUMP, COLLISION, SUSPECT]))))]
        # The late records of a partition are compared only while it continues.
        self._late = [late for late in self._late if not continued.keys().isdisjoint(tuples_of(late, PLACE[:2]))]
        if singles.num_rows:
            places = singles.select(["topic", "partition", "first_offset"]).rename_columns(list(PLACE))
            hashed = with_content(places, contents_of(self._records.sparkSession, places, self._records))
            column = SEGMENT.get_field_index("content_sha256")
            parts.append(singles.set_column(column, SEGMENT.field(column), hashed["content_sha256"]))
        if chunk.suspects.num_rows:
            rows = self._rows(chunk, watermarks, continued, out)
            parts.append(rows.append_column("reason", pa.nulls(len(rows))).select(SEGMENT.names).cast(SEGMENT))
        return pa.concat_tables(parts)

    def _rows(
        self, chunk: Decided, watermarks: Watermarks, continued: Mapping[Partition, int], out: Sequence[pa.Table]
    ) -> pa.Table:
        spark, suspects = self._records.sparkSession, chunk.suspects
        parts = []
        for start in range(0, len(suspects), model.LIMITS.suspects):
            part = suspects.slice(start, model.LIMITS.suspects)
            # Only this load can hold the original of a suspect above the watermark.
            is_below = are_below(part, watermarks.ordinals.get)
            kept = chunk.originals.filter(pa.array(share(chunk.originals, part, KEY)))
            if continued:
                above = part.filter(pa.array(~is_below))
                kept = pa.concat_tables([kept, _earlier(above, continued, out, self._extracted())])
            contents = contents_of(spark, pa.concat_tables([part.select(PLACE), kept.select(PLACE)]), self._records)
            own = with_content(kept, contents).append_column("rank", pa.repeat(-1, len(kept)))
            before = _known(spark, self._known, part, is_below).toArrow()
            classified, late = compare(with_content(part, contents), before, own, *self._late)
            parts.append(classified)
            self._late.append(late)
        return merge_blocks(pa.concat_tables(parts))


def are_below(records: pa.Table, mark: Callable[[tuple[Any, ...]], Ordinal | None], names: Sequence[str] = STREAM) -> Flags:
    """Whether each record is at or below the (epoch, sequence) that `mark` returns for its stream, or for other columns."""
    code = row_codes(records, names)
    first = np.zeros(int(code.max(initial=NONE)) + 1, np.int64)
    first[code[::-1]] = np.arange(len(code))[::-1]  # the first row of a code is written last
    marks = [mark(key) or (NONE, NONE) for key in tuples_of(records.select(names).take(pa.array(first)), names)]
    epoch, highest = np.array(marks, np.int64).reshape(-1, 2)[code].T
    own = filled(records["epoch"])
    is_below: Flags = (own < epoch) | ((own == epoch) & (filled(records["sequence"]) <= highest))
    return is_below


def _earlier(suspects: pa.Table, continued: Mapping[Partition, int], out: Sequence[pa.Table], records: DataFrame) -> pa.Table:
    """Return the records that earlier chunks accepted under some suspects' keys."""
    places = list(tuples_of(suspects, ("topic", "partition")))
    some = suspects.filter(pa.array([place in continued for place in places], pa.bool_()))
    if not some.num_rows:
        return suspects.select([*KEY, "offset"]).slice(0, 0)
    before = any_of(at(*place, f"offset <= {last}") for place, last in continued.items())
    near = of_keys(records.where(before), frames.of_arrow(records.sparkSession, some.select(list(KEY))))
    rows = accepted(near, _ranges(some), out).select(*KEY, "offset").distinct()
    return rows.toArrow().cast(suspects.select([*KEY, "offset"]).schema)


def accepted(records: DataFrame, wanted: Sequence[pruning.Range], out: Sequence[pa.Table]) -> DataFrame:
    """Return the records with a sequence in some ranges that earlier chunks of the load accepted; `out` as in `Suspects`."""
    rows = records.where(F.col("problem").isNull() & pruning.sequence_filter(wanted))
    return bitmaps.join(records.sparkSession, rows, pa.concat_tables(out), "left_anti") if out else rows


def _known(spark: SparkSession, earlier: KnownRecords, suspects: pa.Table, is_below: Flags) -> DataFrame:
    """Return earlier loads' records with the suspects' keys: key, `content_sha256`, and `rank`, lower for earlier ones.

    Late records count even if discarded. Jumps do not: Silver has them once they are released, and nothing else before.
    """
    keys = frames.of_arrow(spark, suspects.select(list(KEY)))
    late = earlier.late(_ranges(suspects)).withColumn("rank", F.col("first_offset"))
    known = of_keys(late, keys).select(*KEY, "content_sha256", "rank")
    below = suspects.filter(pa.array(is_below))
    if not below.num_rows:
        return known
    kept = of_keys(earlier.kept(_ranges(below)), keys)
    return known.unionByName(kept.select(*KEY, content_sha256(kept), F.lit(-1).cast("bigint").alias("rank")))


def _ranges(suspects: pa.Table) -> list[pruning.Range]:
    spans = suspects.group_by([*STREAM, "epoch", "block"]).aggregate([("sequence", "min"), ("sequence", "max")])
    return pruning.ranges(spans.rename_columns({"sequence_min": "first_sequence", "sequence_max": "last_sequence"}))


def contents_of(spark: SparkSession, places: pa.Table, records: DataFrame) -> pa.Table:
    """Return the content hash of the records at some places: topic, partition, offset and content_sha256."""
    spans = places.rename_columns(["topic", "partition", "first_offset"])
    near = records.where(pruning.offset_filter(spans.append_column("last_offset", spans["first_offset"])))
    rows = bitmaps.join(spark, near, bitmaps.blocks(places), "left_semi")
    return rows.select(*PLACE, content_sha256(rows)).toArrow()


def comparable(records: DataFrame, rules: Rules) -> DataFrame:
    """Return records for `content_sha256`: values of change events without `_VARIES`, as positions name events."""
    kinds = rules.sources.kinds
    if not any(each.sequence.form == "debezium" for each, _ in kinds):
        return records
    return records.withColumn("value", by_topic([(topics, _compared(each)) for each, topics in kinds]))


def _compared(sources: Sources) -> Column:
    value = F.col("value")
    if written := sources.decoded_event:
        return written.decoder.content(value, written, _VARIES)
    if sources.sequence.form != "debezium":
        return value
    return F.regexp_replace(value.cast("string"), _IN_JSON, "").cast("binary")


def content_sha256(records: DataFrame) -> Column:
    """Return a hash of key and value, 64 hexadecimal digits; null and empty differ. Headers and timestamp are not compared.

    An erased record has `ERASED` instead. Under its key, only copies that were erased with it have the same hash.
    """
    parts = [F.coalesce(F.sha2(records[name], 256), F.lit("null")) for name in ("key", "value")]
    content = F.sha2(F.concat_ws(" ", *parts).cast("binary"), 256)
    if "erased" in records.columns:
        erased, of_bronze = records["erased"], "is_collision" in records.select("erased.*").columns
        suffix = F.when(erased["is_collision"], ":collision").otherwise("") if of_bronze else F.lit("")
        content = F.when(erased.isNotNull(), F.concat(F.lit(ERASED), erased["up_to_offset"], suffix)).otherwise(content)
    return content.alias("content_sha256")


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
