"""The facts of streams whose sequences rise one by one with their offsets, from few numbers: no row is sorted.

An island here is all rows of a stream, load, epoch and arrival with the same distance between sequence and offset. What Silver
keeps of a topic is mostly a few islands; one aggregation finds them. If they do not overlap, no key can occur twice, and a
sequence can only fall at an island's first row. If they do, the stream's rows are examined one by one, see
`expectations.evidence.facts`.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from expectations.evidence.facts import ORDINAL, is_undecodable, nulls
from lakehouse.contracts.silver import IN_ORDER, STREAM
from lakehouse.spark.bitmaps import bit, word

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

    from expectations.evidence.model import Row

Stream = tuple[str | None, int | None, str | None]
"""topic, partition, producer."""

_KEYS = (*STREAM, "load_seq", "epoch", "arrival", "distance")


def find_islands(records: DataFrame) -> DataFrame:
    """Aggregate rows by the distance of their sequence from their offset.

    Grain: a distance of a stream, load, epoch and arrival.

    Args:
        records: Rows of `silver_records`.

    Returns:
        topic, partition, producer, load_seq, epoch, arrival, distance (sequence minus offset; null if that is no bigint), and
        (bigint) rows; offsets, the distinct ones; first_offset and last_offset; nulls, in the required columns; undecodable.
    """
    words = (
        records.select(*STREAM, "load_seq", *ORDINAL, "offset", "arrival", is_undecodable(records))
        .withColumns({"distance": F.try_subtract("sequence", "offset"), "word": word("offset")})
        .groupBy(*_KEYS, "word")
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.bit_or(bit("offset")).alias("bits"),
            F.min("offset").alias("first_offset"),
            F.max("offset").alias("last_offset"),
            nulls().alias("nulls"),
            F.count_if("is_undecodable").alias("undecodable"),
        )
    )
    return words.groupBy(*_KEYS).agg(
        F.sum("rows").alias("rows"),
        F.sum(F.bit_count("bits")).alias("offsets"),
        F.min("first_offset").alias("first_offset"),
        F.max("last_offset").alias("last_offset"),
        F.sum("nulls").alias("nulls"),
        F.sum("undecodable").alias("undecodable"),
    )


def facts(found: Iterable[Row]) -> tuple[list[Row], set[Stream]]:
    """The facts of the streams whose islands do not overlap.

    Args:
        found: The rows of `find_islands`.

    Returns:
        Rows as `expectations.evidence.facts.silver_facts` returns them, and the names of the other streams.
    """
    streams = defaultdict[Stream, list["Row"]](list)
    for row in found:
        streams[row["topic"], row["partition"], row["producer"]].append(row)
    apart = {stream for stream, rows in streams.items() if _lie_apart(rows)}
    return [fact for stream in apart for fact in _by_load(streams[stream])], streams.keys() - apart


def _lie_apart(rows: list[Row]) -> bool:
    """Whether no two rows of a stream share an (epoch, sequence), and no two in-order rows of a load an offset.

    Two islands' offset ranges may not even interleave: sequences would rise and fall as their rows alternate.
    """
    if any(row["nulls"] or row["distance"] is None or row["rows"] != row["offsets"] for row in rows):
        return False
    by_sequence = sorted((row["epoch"], *_span(row, row["distance"])) for row in rows)
    by_offset = sorted((row["load_seq"], *_span(row, 0)) for row in rows if row["arrival"] == IN_ORDER)
    return not any(
        before[0] == after[0] and before[2] >= after[1]
        for spans in (by_sequence, by_offset)
        for before, after in pairwise(spans)
    )


def _span(row: Row, distance: int) -> tuple[int, int]:
    return row["first_offset"] + distance, row["last_offset"] + distance


def _by_load(rows: list[Row]) -> Iterator[Row]:
    rows.sort(key=lambda row: (row["load_seq"], row["first_offset"]))
    for load_seq, grouped in groupby(rows, key=lambda row: row["load_seq"]):
        of_load = list(grouped)
        in_order = [row for row in of_load if row["arrival"] == IN_ORDER]
        yield {
            **{name: of_load[0][name] for name in STREAM},
            "load_seq": load_seq,
            "rows": sum(row["rows"] for row in of_load),
            "not_increasing": sum(_first(after) <= _last(before) for before, after in pairwise(in_order)),
            "repeated_keys": 0,
            "nulls": 0,
            "undecodable": sum(row["undecodable"] for row in of_load),
            "first": _ordinal(*_first(in_order[0])) if in_order else None,
            "last": _ordinal(*max(_last(row) for row in of_load)),
        }


def _first(row: Row) -> tuple[int, int]:
    return row["epoch"], row["first_offset"] + row["distance"]


def _last(row: Row) -> tuple[int, int]:
    return row["epoch"], row["last_offset"] + row["distance"]


def _ordinal(epoch: int, sequence: int) -> Row:
    return {"epoch": epoch, "sequence": sequence}
