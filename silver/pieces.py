"""What a load keeps, as pieces: offsets in a row whose sequences rise with them.

A load that came in stretches was read once, narrow. In a piece a record's sequence follows from its offset, so the wide copy
need not read it out of each record again, which costs more than all else it does beside copying.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from silver.spans import at

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from silver.fold import Stretch

_MOST = 10
"""More pieces than that make an expression that the JVM does not compile, unless Spark's `hugeMethodLimit` is set: reading each
sequence again costs less then."""


class Piece(NamedTuple):
    """Records of a partition at offsets in a row, all kept.

    Attributes:
        topic: Kafka topic.
        partition: Kafka partition.
        first_offset: The first offset.
        last_offset: The last one, inclusive.
        epoch: The epoch of all of them.
        distance: A record's sequence less its offset.
    """

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    epoch: int
    distance: int


def pieces(stretches: Iterable[Stretch], rejects: pa.Table) -> list[Piece]:
    """What is left of stretches when the rejects are taken out.

    Args:
        stretches: All records of a load, each partition's in offset order; no partition has more than one stream.
        rejects: Rows of `silver_rejects` of the load.

    >>> import pyarrow as pa
    >>> from silver.fold import Stretch
    >>> stretches = [Stretch(("t", 0, None), 0, 9, 0, 1, None), Stretch(("t", 0, None), 10, 14, 0, 8, None)]
    >>> rejects = pa.table({"topic": ["t"], "partition": [0], "first_offset": [10], "last_offset": [12]})
    >>> [tuple(piece) for piece in pieces(stretches, rejects)]
    [('t', 0, 0, 9, 0, 1), ('t', 0, 13, 14, 0, -2)]
    """
    out: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for row in rejects.select(["topic", "partition", "first_offset", "last_offset"]).to_pylist():
        out.setdefault((row["topic"], row["partition"]), []).append((row["first_offset"], row["last_offset"]))
    for spans in out.values():
        spans.sort(reverse=True)  # the next one last
    found = []
    for stretch in stretches:
        place = stretch.stream[:2]
        if stretch.epoch is None or stretch.first_sequence is None:
            continue  # a record that could not be read
        distance, start = stretch.first_sequence - stretch.first_offset, stretch.first_offset
        spans = out.get(place, [])
        while spans and spans[-1][0] <= stretch.last_offset:
            first, last = spans[-1]
            if start < first:
                found.append(Piece(*place, start, first - 1, stretch.epoch, distance))
            start = max(start, last + 1)
            if last > stretch.last_offset:
                break  # it reaches into the next stretch
            spans.pop()
        if start <= stretch.last_offset:
            found.append(Piece(*place, start, stretch.last_offset, stretch.epoch, distance))
    return found


def are_few(found: Sequence[Piece]) -> bool:
    """Whether they make an expression that is worth it."""
    return len(found) <= _MOST


def numbered(records: DataFrame, found: Sequence[Piece]) -> DataFrame:
    """The records that lie in a piece, with their numbers.

    Args:
        records: Bronze records of the load.
        found: The pieces; not many.

    Returns:
        The records, with producer (string, null), epoch and sequence (bigint).
    """
    epochs = {piece.epoch for piece in found}
    epoch = F.lit(epochs.pop()).cast("bigint") if len(epochs) == 1 else _choice(found, "{epoch}L")
    return records.withColumns(
        {"producer": F.lit(None).cast("string"), "epoch": epoch, "sequence": _choice(found, "offset + {distance}L")}
    ).where("sequence IS NOT NULL")


def _choice(found: Sequence[Piece], value: str) -> Column:
    """An expression of the piece that a record lies in; null where it lies in none."""
    if not found:
        return F.lit(None).cast("bigint")
    cases = []
    for (topic, partition), of_partition in groupby(found, key=lambda piece: (piece.topic, piece.partition)):
        within = [
            f"WHEN offset BETWEEN {each.first_offset}L AND {each.last_offset}L THEN {value.format(**each._asdict())}"
            for each in of_partition
        ]
        cases.append(f"WHEN {at(topic, partition, 'true')} THEN CASE {' '.join(within)} END")
    return F.expr(f"CASE {' '.join(cases)} END")
