"""The ways to decide that need no Spark, against the rule read literally, record after record."""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.extract.sources import Source
from silver.decide import islands, monotonic
from silver.decide.sequential import fold
from silver.model import Island, Segment
from silver.rules import Rules
from tests.support.examples import examples
from tests.support.logs import Log, logs
from tests.support.reference import Reference, Seen
from tests.support.segments import segments_of

_COLUMNS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("producer", pa.string()),
        *((name, pa.int64()) for name in ("offset", "epoch", "sequence")),
        ("problem", pa.string()),
    ]
)


@settings(max_examples=examples(300, 2_000), deadline=None)
@given(log=logs(with_epochs=True, with_replays=True), max_jump=st.sampled_from([None, 3, 20]))
def test_every_way_on_the_driver_decides_as_the_reference_does(log: Log, max_jump: int | None) -> None:
    rules = Rules(Source("value"), max_jump=max_jump)
    reference = Reference(max_jump=max_jump)
    for load, records in enumerate(log.loads):
        sent, before = log.arrivals(load), dict(reference.watermarks)
        reference.take(records)

        few, by_islands = _few(sent, before, rules), _by_islands(sent, before, rules)

        assert sorted(few, key=str) == sorted(by_islands, key=str)
        found = {place: kind for place, kind in _classes(few, sent).items() if kind != "replay"}
        told = {"duplicate": "suspect", "late": "suspect", "collision": "suspect"}  # the exact look comes after
        expected = {record.place: reference.classes[record.place] for record in records}
        assert found == {place: told.get(kind, kind) for place, kind in expected.items()}
        assert sum(segment.records for segment in few) == len(sent)


def test_a_record_without_a_producer_does_not_part_the_records_of_the_empty_one() -> None:
    empty = ("t", 0, "")
    sent = [Island(empty, 0, 4, 0, 1, None), Island(("t", 0, None), 5, 5, None, None, "none"), Island(empty, 6, 10, 0, 1, None)]
    rows = [_row([each]) for each in reversed(sent)]

    chained, odd = islands.split(rows)

    assert odd == set()
    assert chained == [sent[1], sent[0], sent[2]]
    assert [(each.kind, each.records) for each in fold(chained, {}, Rules(Source("value")))] == [
        ("invalid", 1),
        ("suspect", 5),
        ("accepted", 5),
    ]


def test_a_stream_that_is_not_handed_over_as_a_whole_is_refused() -> None:
    streams = [("t", 0, "a"), ("t", 0, "b"), ("t", 0, "a")]

    with pytest.raises(ValueError, match="do not stand together"):
        list(fold([Island(stream, n, n, 0, n, None) for n, stream in enumerate(streams)], {}, Rules(Source("value"))))


def _few(sent: Sequence[Seen], watermarks: dict[Any, Any], rules: Rules) -> list[Segment]:
    """As `segments.collect` does it for few records: what rises as a whole, and the rest one by one."""
    rows = [dict(zip(_COLUMNS.names, _narrow(record), strict=True)) for record in reversed(sent)]
    order = [(name, "ascending") for name in ("topic", "partition", "producer", "offset")]
    risen, others = monotonic.part(pa.Table.from_pylist(rows, _COLUMNS).sort_by(order), watermarks, rules)
    return [*segments_of(risen), *fold(map(_single, others.to_pylist()), watermarks, rules)]


def _by_islands(sent: Sequence[Seen], watermarks: dict[Any, Any], rules: Rules) -> list[Segment]:
    """As `segments.collect` does it by islands: the streams that come in some, and the rest one by one."""
    groups: dict[object, list[Island]] = {}
    singles = [_single(dict(zip(_COLUMNS.names, _narrow(record), strict=True))) for record in sent]
    for each in singles:
        distance = each.first_offset if each.first_sequence is None else each.distance
        groups.setdefault((each.stream, each.epoch, each.problem, distance), []).append(each)
    chained, odd = islands.split([_row(group) for group in reversed(groups.values())])
    left = sorted((each for each in singles if each.stream in odd), key=lambda each: (str(each.stream), each.first_offset))
    return [*fold(chained, watermarks, rules), *fold(left, watermarks, rules)]


def _row(group: Sequence[Island]) -> dict[str, Any]:
    """Islands of one distance, as `find_islands` sums them up."""
    first = group[0]
    offsets = {offset for each in group for offset in range(each.first_offset, each.last_offset + 1)}
    return {
        **dict(zip(("topic", "partition", "producer"), first.stream, strict=True)),
        "epoch": first.epoch,
        "problem": first.problem,
        "distance": first.first_offset if first.first_sequence is None else first.distance,
        "records": sum(each.records for each in group),
        "offsets": len(offsets),
        "first_offset": min(offsets),
        "last_offset": max(offsets),
    }


def _narrow(record: Seen) -> tuple[object, ...]:
    problem = "value_undecodable" if record.is_undecodable else None
    read = (None, None, "unread") if record.sequence is None else (record.epoch, record.sequence, problem)
    return (*record.stream, record.offset, *read)


def _single(row: dict[str, Any]) -> Island:
    stream = (row["topic"], row["partition"], row["producer"])
    return Island(stream, row["offset"], row["offset"], row["epoch"], row["sequence"], row["problem"])


def _classes(found: Iterable[Segment], sent: Iterable[Seen]) -> dict[tuple[str, int, int], str]:
    """The class of each record: accepted where no reject of its stream spans its offset."""
    rejects = [segment for segment in found if segment.kind not in ("accepted", "replay")]
    classes = {}
    for record in sent:
        spans = [
            each.kind
            for each in rejects
            if each.stream == record.stream and each.first_offset <= record.offset <= each.last_offset
        ]
        assert len(spans) <= 1, "two rejects span one record"
        classes[record.place] = spans[0] if spans else "accepted"
    return classes
