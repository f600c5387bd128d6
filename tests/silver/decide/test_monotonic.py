"""Streams that only rise, and the islands of the others, against the fold over each of their records."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.extract.sources import Source
from silver.decide import monotonic
from silver.decide.sequential import fold
from silver.model import Island, Segment
from silver.rules import Policy, Rules
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
_RULES = Rules(Source("header", "seq"), max_jump=4, topics=(("u", Policy()),))
_STREAMS = st.sampled_from([("t", 0, None), ("t", 0, "a"), ("t", 1, None), ("u", 0, "a")])
_ORDINALS = st.tuples(st.integers(0, 1), st.integers(0, 12))


@st.composite
def _records(draw: st.DrawFn) -> list[Island]:
    """Whole streams in offset order. Most rise; in some a record is sent again, read twice, of another epoch or unreadable."""
    found = []
    for stream in sorted(draw(st.sets(_STREAMS)), key=str):
        above, next_epoch = draw(st.integers(0, 12)), draw(st.integers(-30, 30))
        steps = draw(st.lists(st.sampled_from([1, 1, 1, 3, 5]), max_size=6))
        risen = [above + sum(steps[: nth + 1]) for nth in range(len(steps))]
        sent: list[tuple[int | None, int | None]] = [(int(sequence > next_epoch), sequence) for sequence in risen]
        if draw(st.booleans()) and sent:
            sent.insert(draw(st.integers(0, len(sent))), draw(st.sampled_from([*sent, (None, None)])))
        is_twice, apart = draw(st.integers(0, 3 * len(sent))), draw(st.integers(1, 2))
        for nth, (of_epoch, sequence) in enumerate(sent):
            problem = "no sequence" if sequence is None else None
            offset = nth * apart
            found += [Island(stream, offset, offset, of_epoch, sequence, problem)] * (2 if nth == is_twice else 1)
    return found


@settings(deadline=None)
@given(records=_records(), watermarks=st.dictionaries(_STREAMS, _ORDINALS))
def test_what_rises_comes_to_what_the_fold_makes_of_it(
    records: list[Island], watermarks: dict[tuple[str, int, str | None], tuple[int, int]]
) -> None:
    rows = [(*each.stream, each.first_offset, each.epoch, each.first_sequence, each.problem) for each in records]
    table = pa.Table.from_pylist([dict(zip(_COLUMNS.names, row, strict=True)) for row in rows], _COLUMNS)

    found, others = monotonic.part(table, watermarks, _RULES)

    risen = segments_of(found)
    streams = {segment.stream for segment in risen}
    left = [each for each in records if each.stream not in streams]
    assert others["offset"].to_pylist() == [each.first_offset for each in left]
    islands = list(monotonic.islands(others))
    assert sorted([*risen, *fold(islands, watermarks, _RULES)], key=str) == sorted(fold(records, watermarks, _RULES), key=str)


def test_an_island_ends_where_offset_or_sequence_does_not_go_on_or_a_record_came_twice() -> None:
    places = [(0, 1), (1, 2), (2, 3), (4, 4), (5, 5), (5, 5), (6, 6), (7, 9), (8, None), (9, None)]
    rows = [dict(zip(_COLUMNS.names, ("t", 0, None, offset, 0, sequence, None), strict=True)) for offset, sequence in places]

    islands = monotonic.islands(pa.Table.from_pylist(rows, _COLUMNS))

    assert [(each.first_offset, each.last_offset, each.first_sequence) for each in islands] == [
        (0, 2, 1),
        (4, 5, 4),
        (5, 5, 5),
        (6, 6, 6),
        (7, 7, 9),
        (8, 8, None),
        (9, 9, None),
    ]


def test_gaps_are_no_reason_to_look_at_each_record() -> None:
    sequences = [3, 7, 8, 20]
    rows = [dict(zip(_COLUMNS.names, ("u", 0, "a", n, 0, seq, None), strict=True)) for n, seq in enumerate(sequences)]

    risen, others = monotonic.part(pa.Table.from_pylist(rows, _COLUMNS), {("u", 0, "a"): (0, 1)}, _RULES)

    assert segments_of(risen) == [Segment(("u", 0, "a"), 0, "accepted", None, 0, 3, 3, 20, 4, 3)]
    assert others.num_rows == 0
