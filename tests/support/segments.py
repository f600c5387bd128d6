"""Drawn records as the key columns of a load, and the rows of `silver.model.SEGMENT`, to be compared with the references."""

from collections.abc import Iterable

import pyarrow as pa

from lakehouse.contracts.silver import stream_of
from silver.model import SPAN
from tests.support.fold import Arrival, Segment
from tests.support.reference import Place, Seen

KEYS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("producer", pa.string()),
        *((name, pa.int64()) for name in ("offset", "epoch", "sequence")),
        ("problem", pa.string()),
        ("settled", pa.string()),
    ]
)


def arrival_of(record: Seen) -> Arrival:
    problem = "value_undecodable" if record.is_undecodable else None
    epoch, sequence, problem = (None, None, "unread") if record.sequence is None else (record.epoch, record.sequence, problem)
    return Arrival(record.stream, record.offset, epoch, sequence, problem)


def keys_of(records: Iterable[Arrival]) -> pa.Table:
    rows = [(*each.stream, *each[1:]) for each in records]
    return pa.Table.from_pylist([dict(zip(KEYS.names, row, strict=True)) for row in rows], KEYS)


def segments_of(found: pa.Table) -> list[Segment]:
    names = ("epoch", "class", "reason", *SPAN, "records")
    return [Segment(stream_of(row), *(row[name] for name in names)) for row in found.to_pylist()]


def kinds_of(found: pa.Table, records: Iterable[Seen]) -> dict[Place, str]:
    """The class of each record: accepted where no reject of its stream spans its offset."""
    rejects = [segment for segment in segments_of(found) if segment.kind not in ("accepted", "replay")]
    kinds = {}
    for record in records:
        spans = [
            each.kind
            for each in rejects
            if each.stream == record.stream and each.first_offset <= record.offset <= each.last_offset
        ]
        assert len(spans) <= 1, "two rejects span one record"
        kinds[record.place] = spans[0] if spans else "accepted"
    return kinds
