"""Topics that move or get partitions: each record is settled as the reference says, by columns alone."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakehouse.extract.sources import Source
from silver.decide.kernel import Decision
from silver.model import SETTLED
from silver.rules import Grown, Rules
from silver.state.watermarks import Watermark, Watermarks
from silver.suspects import moved
from silver.suspects.moved import NUMBER, Moved, settle
from tests.support.examples import examples
from tests.support.reference import Reference, Seen
from tests.support.segments import arrival_of, keys_of, kinds_of

TOPICS = ("d", "c", "b", "a")
"""The incarnations of a topic. By name each comes before the one that it continues, as t@10 comes before t@2."""
CONTINUES = (
    (("c", ("d",)), ("b", ("d", "c")), ("a", ("d", "c", "b"))),
    (("c", ("d",)), ("a", ("b",))),
    (("b", ("c",)),),
    (),
)
GROWN = st.dictionaries(st.sampled_from(TOPICS), st.sampled_from([None, (0, -1), (0, 4), (1, 2)]))
SUSPECTS = ("duplicate", "late", "collision", "fenced")


@st.composite
def _loads(draw: st.DrawFn) -> list[list[Seen]]:
    """Loads of a topic that moves at any record, over three partitions; numbers are sent again in each."""
    loads: list[list[Seen]] = [[]]
    offsets: defaultdict[tuple[str, int], int] = defaultdict(int)
    incarnation = 0
    for moves, cuts, partition, producer, epoch, number, payload in draw(st.lists(_RECORD, max_size=40)):
        incarnation = min(incarnation + moves, len(TOPICS) - 1)
        if cuts:
            loads.append([])
        topic = TOPICS[incarnation]
        sequence = None if number == 9 else 2**63 - 1 if number == 8 else number
        offset = offsets[topic, partition] = offsets[topic, partition] + 1
        is_undecodable = payload == "?"
        loads[-1].append(Seen(topic, partition, offset, sequence, producer, epoch, payload, is_undecodable=is_undecodable))
    return loads


_RECORD = st.tuples(
    st.sampled_from([False] * 7 + [True]),
    st.sampled_from([False] * 5 + [True]),
    st.sampled_from([0, 1, 2]),
    st.sampled_from([None, "a"]),
    st.sampled_from([0, 0, 0, 1]),
    st.integers(0, 9),
    st.sampled_from("xxxy?"),
)


_COPIED = [Seen("d", 0, 1, 1), Seen("d", 0, 2, 3), Seen("c", 0, 1, 3), Seen("c", 1, 1, 4), Seen("b", 2, 1, 4)]
"""One load that holds a topic and two copies of it."""


@settings(max_examples=examples(100, 1_000), deadline=None)
@given(
    loads=_loads(),
    continues=st.sampled_from(CONTINUES),
    grown=GROWN,
    late=st.sampled_from(["quarantine", "accept"]),
    size=st.integers(1, 9),
)
@example(loads=[_COPIED], continues=CONTINUES[0], grown={}, late="quarantine", size=1)
@example(loads=[_COPIED], continues=CONTINUES[0], grown={}, late="quarantine", size=9)
def test_moved_records_are_settled_by_rule(loads: list[list[Seen]], continues: Any, grown: Any, late: Any, size: int) -> None:
    reference, in_turn = (Reference(late=late, max_jump=3, continues=dict(continues), grown=grown) for _ in range(2))
    compared = tuple((topic, Grown(2, 3, "per_topic", mark)) for topic, mark in grown.items())
    rules = Rules(Source("value"), late=late, max_jump=3, continues=continues, grown=compared)
    for records in loads:
        marks = Watermarks({stream: Watermark(*mark, -1, 1, "rules") for stream, mark in reference.watermarks.items()})
        look: Any = Moved(None, None, None, rules, 1)  # type: ignore[arg-type]  # it asks no table
        decision = Decision(rules)
        ordered = sorted(records, key=lambda record: record.place)
        if size >= len(ordered):
            ordered = records  # a single chunk is in any order
        chunks = [_keys(ordered[first : first + size]) for first in range(0, len(ordered), size)]
        found: dict[Any, str] = {}
        expected: dict[Any, str] = {}
        for keys in look.in_order(chunks):
            places = set(zip(*(keys[name].to_pylist() for name in ("topic", "partition", "offset")), strict=True))
            of_chunk = [record for record in records if record.place in places]
            settled = {
                record.place: reference.settled_before(record) for record in of_chunk if arrival_of(record).problem is None
            }
            chunk = decision.decide(_settled(look, keys, marks, of_chunk, reference), marks)
            reference.take(of_chunk)
            look.add(chunk.segments)
            for record in of_chunk:
                kind = reference.classes[record.place]
                expected[record.place] = settled.get(record.place) or ("suspect" if kind in SUSPECTS else kind)
            found |= kinds_of(chunk.segments, of_chunk)
        for topic in TOPICS:
            in_turn.take(record for record in records if record.topic == topic)
        assert (found, reference.classes) == (expected, in_turn.classes)


def _settled(look: Any, keys: pa.Table, marks: Watermarks, records: Iterable[Seen], reference: Reference) -> pa.Table:
    wanted, nth = look.wanted(keys, marks)
    payloads = {record.place: record.payload for record in records}
    places = zip(*(wanted[name].to_pylist() for name in ("topic", "partition", "offset")), strict=True)
    contents = wanted.append_column("content_sha256", pa.array([payloads[place] for place in places], pa.string()))
    kind = np.zeros(len(keys), np.int64)
    kind[nth] = settle(contents, _known(reference, {(record.topic, record.partition) for record in records}))
    return keys.append_column(SETTLED, pa.array([None, "duplicate", "collision"]).take(pa.array(kind)))


def _known(reference: Reference, places: set[tuple[str, int]]) -> pa.Table:
    rows = [
        (later, producer, epoch, sequence, payload)
        for later, earlier in reference.continues.items()
        for ((topic, _, producer), epoch, sequence), payload in reference.known
        if topic in earlier
    ]
    rows += [
        (topic, producer, epoch, sequence, payload)
        for ((topic, partition, producer), epoch, sequence), payload in reference._kept.items()
        if topic in reference.grown
        and (topic, partition) not in places
        and (reference.grown[topic] or (epoch, sequence)) >= (epoch, sequence)
    ]
    types = {"epoch": pa.int64(), "sequence": pa.int64()}
    schema = pa.schema([(name, types.get(name, pa.string())) for name in (*NUMBER, "content_sha256")])
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


def _keys(records: Iterable[Seen]) -> pa.Table:
    return keys_of(map(arrival_of, records)).drop_columns([SETTLED])


def test_above_the_mark_of_a_grown_topic_nothing_is_looked_up_or_decided_apart() -> None:
    marks = Watermarks({("t", partition, None): Watermark(0, 8 + partition, -1, 1, "rules") for partition in (0, 1)})
    keys = _keys([Seen("t", partition, 10 + number, number) for partition in (0, 1, 2) for number in (5, 6, 9)])
    wanted = {}
    for mark in (None, (0, 5), (0, 4)):
        rules = Rules(Source("value"), grown=(("t", Grown(2, 3, "per_topic", mark)),))
        look: Any = Moved(None, None, None, rules, 1)  # type: ignore[arg-type]  # it asks no table
        found = [look.wanted(chunk, marks)[0] for chunk in look.in_order([keys])]
        wanted[mark] = [
            list(zip(*(each[name].to_pylist() for name in ("partition", "sequence")), strict=True)) for each in found
        ]
    assert wanted == {
        None: [[(0, 5), (0, 6), (0, 9)], [(1, 5), (1, 6)], [(2, 5), (2, 6), (2, 9)]],
        (0, 5): [[(0, 5)], [(1, 5)], [(2, 5)]],
        (0, 4): [[]],
    }


def _settles(own: str, *known: str) -> str | None:
    names = [*NUMBER, "content_sha256"]
    record = pa.table([["t@2"], ["p"], [0], [1], [own]], names=names)
    others = pa.table([["t@2"] * len(known), ["p"] * len(known), [0] * len(known), [1] * len(known), list(known)], names=names)
    return moved._SETTLED[int(settle(record, others)[0])]


def test_an_erased_record_is_taken_for_a_copy_unless_it_was_compared_before_it_was_erased() -> None:
    later = moved._ERASED_LATER
    assert _settles("a", "erased:7") == "duplicate"
    assert _settles("a", later) == "collision"
    assert _settles("a", later, "a") == "duplicate"
    assert _settles("erased:3", later) == "duplicate"
    assert _settles("erased:3:collision", later) == "collision"
    assert _settles("erased:3", "b") == "collision"


def _classes(records: list[Seen], **others: Any) -> list[str]:
    reference = Reference(**others).take(records)
    return [reference.classes[record.place] for record in records]


def test_a_late_record_of_another_partition_does_not_make_its_original_a_duplicate() -> None:
    """A copy overtook its original, which a partition with a backlog brings later."""
    records = [Seen("t", 0, 1, 200), Seen("t", 0, 2, 50), Seen("t", 1, 1, 50)]
    assert _classes(records, grown={"t": None}, late="drop") == ["accepted", "late", "accepted"]
    assert _classes(records, grown={"t": None}, late="accept") == ["accepted", "late", "duplicate"]


def test_a_load_without_new_records_has_one_empty_chunk() -> None:
    rules = Rules(Source("value"), continues=CONTINUES[0])
    look: Any = Moved(None, None, None, rules, load_seq=1)  # type: ignore[arg-type]  # it asks no table

    assert [len(keys) for keys in look.in_order([_keys([])])] == [0]
