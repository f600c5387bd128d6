"""The decision in columns against the rule read literally, record after record, whole and cut into chunks of any size."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.contracts.silver import Ordinal, Stream, stream_of
from lakehouse.extract.sources import Source
from silver.decide.kernel import Decided, Decision
from silver.load.planner import summed
from silver.model import SEGMENT
from silver.rules import Policy, Rules
from silver.state.watermarks import Watermark, Watermarks
from tests.support.examples import examples
from tests.support.fold import Arrival, fold
from tests.support.logs import LARGEST, LOADS, Log, logs
from tests.support.reference import Reference
from tests.support.segments import KEYS, arrival_of, keys_of, kinds_of, segments_of

RULES = Rules(Source("header", "seq"))
STREAM = ("t", 0, None)


def encoded(keys: pa.Table) -> pa.Table:
    text = pa.dictionary(pa.int32(), pa.string())
    return keys.cast(pa.schema([pa.field(each.name, text if each.type == pa.string() else each.type) for each in KEYS]))


class Found(NamedTuple):
    segments: pa.Table
    chunks: list[Decided]
    cut: set[tuple[str, int]]


def decided(
    chunks: Iterable[Sequence[Arrival]], known: Mapping[Stream, Ordinal], rules: Rules = RULES, *, is_encoded: bool = False
) -> Found:
    marks = Watermarks({stream: Watermark(*ordinal, -1, 1, "rules") for stream, ordinal in known.items()})
    decision, found, cut = Decision(rules), list[Decided](), set[tuple[str, int]]()
    for chunk in chunks:
        keys = keys_of(reversed(chunk))
        found.append(decision.decide(encoded(keys) if is_encoded else keys, marks))
        cut |= decision.continued.keys()
    rows = pa.concat_tables([each.segments for each in found])
    is_accepted = pc.equal(rows["class"], "accepted")
    parts = [summed(rows.filter(is_accepted)), rows.filter(pc.invert(is_accepted))]
    return Found(pa.concat_tables(parts, promote_options="default").select(SEGMENT.names), found, cut)


def in_pieces(records: Sequence[Arrival], size: int) -> list[Sequence[Arrival]]:
    ordered = sorted(records, key=lambda each: (each.stream[:2], each.offset))
    return [ordered[first : first + size] for first in range(0, len(ordered), size)] or [[]]


def gaps_of(found: Found) -> dict[Stream, list[tuple[int, int, int]]]:
    told = defaultdict(list)
    for row in chain.from_iterable(chunk.gaps.to_pylist() for chunk in found.chunks):
        told[stream_of(row)].append((row["epoch"], row["first_sequence"], row["last_sequence"]))
    return dict(told)


def require_as_folded(found: Found, chunks: Sequence[Sequence[Arrival]], known: Mapping[Stream, Ordinal], rules: Rules) -> None:
    segments, missing, jumps = fold([sorted(chunk, key=lambda each: each.offset) for chunk in chunks], known, rules)
    missing = {stream: gaps for stream, gaps in missing.items() if rules.policy(stream[0]).contiguous}
    assert found.segments.schema == SEGMENT
    assert sorted(segments_of(found.segments), key=str) == sorted(segments, key=str)
    assert gaps_of(found) == missing
    counted = Counter[tuple[Stream, int]]()
    for *stream, forward, backward in (row.values() for chunk in found.chunks for row in chunk.jumps.to_pylist()):
        counted.update({(tuple(stream), 0): forward, (tuple(stream), 1): backward})
    assert counted == Counter({(stream, way): count for stream, both in jumps.items() for way, count in enumerate(both)})


_LOGS = st.lists(logs(with_epochs=True, with_replays=True), min_size=10, max_size=10)


@settings(max_examples=examples(10, 500), deadline=None)
@given(drawn=_LOGS, max_jump=st.sampled_from([None, 3, 20]))
def test_each_load_of_ten_logs_is_decided_as_the_reference_does(drawn: list[Log], max_jump: int | None) -> None:
    rules = Rules(Source("value"), max_jump=max_jump, contiguous=True)
    reference = Reference(max_jump=max_jump)
    of_topics = [log.in_topic(f"t{nth}") for nth, log in enumerate(drawn)]
    for load in range(LOADS):
        records = [record for log in of_topics for record in log.loads[load]]
        sent, before = [record for log in of_topics for record in log.arrivals(load)], dict(reference.watermarks)
        reference.take(records)
        arrived = [arrival_of(record) for record in sent]

        whole = decided([arrived], before, rules)
        require_as_folded(whole, [arrived], before, rules)

        kinds = kinds_of(whole.segments, sent)
        of_kernel = dict.fromkeys(("duplicate", "late", "collision", "fenced"), "suspect")  # the comparison comes after
        assert kinds == {place: of_kernel.get(kind, kind) for place, kind in reference.classes.items() if place in kinds}
        assert kinds.keys() == {record.place for record in records}
        suspects = {record.place: record.key for record in records if kinds[record.place] == "suspect"}
        (chunk,) = whole.chunks
        assert _keys(chunk.suspects) == suspects
        accepted = {record.place: record.key for record in records if kinds[record.place] == "accepted"}
        shared = {place: key for place, key in accepted.items() if key in suspects.values()}
        assert _keys(chunk.originals) == shared
        assert not whole.cut
        kept_out = {place for place, kind in kinds.items() if kind != "accepted"}
        assert {tuple(row.values()) for row in chunk.out.to_pylist()} == kept_out
        counted = Counter(record.place for record in sent)
        before_load = Counter(tuple(row.values()) for row in chunk.replays.to_pylist())
        assert before_load == Counter({place: count - 1 for place, count in counted.items() if count > 1})


def _keys(found: pa.Table) -> dict[Any, Any]:
    rows = found.to_pylist()
    keys = {(row["topic"], row["partition"], row["offset"]): (stream_of(row), row["epoch"], row["sequence"]) for row in rows}
    assert len(keys) == len(rows)
    return keys


_STREAMS: list[Stream] = [("t", 0, None), ("t", 0, ""), ("t", 0, "a"), ("t", 1, None), ("u", 0, "a"), ("v", 0, None)]
_SEQUENCES = st.one_of(st.integers(0, 12), st.sampled_from([LARGEST, LARGEST - 1, LARGEST // 2, LARGEST // 2 + 1]))
_EPOCHS = st.sampled_from([0, 0, 0, 1, 2, LARGEST])


@st.composite
def _histories(draw: st.DrawFn) -> list[Arrival]:
    records, offsets = [], {stream[:2]: 0 for stream in _STREAMS}
    for stream in draw(st.lists(st.sampled_from(_STREAMS), max_size=25)):
        offsets[stream[:2]] += draw(st.sampled_from([1, 1, 1, 2]))
        problem = draw(st.sampled_from([None] * 6 + ["unread", "value_undecodable"]))
        epoch, sequence = (None, None) if problem == "unread" else (draw(_EPOCHS), draw(_SEQUENCES))
        settled = draw(st.sampled_from([None] * 4 + ["duplicate"] * 2 + ["collision"]))
        record = Arrival(stream, offsets[stream[:2]], epoch, sequence, problem, settled)
        records += [record] * draw(st.sampled_from([1] * 6 + [2, 3]))
    return records


@settings(max_examples=examples(20, 150), deadline=None)
@given(
    records=_histories(),
    known=st.dictionaries(st.sampled_from(_STREAMS), st.tuples(st.integers(0, 1), _SEQUENCES)),
    max_jump=st.sampled_from([None, 1, 4, LARGEST]),
    compares_epochs=st.booleans(),
)
def test_a_history_is_decided_alike_in_chunks_of_every_size(
    records: list[Arrival], known: dict[Stream, Ordinal], max_jump: int | None, compares_epochs: bool
) -> None:
    topics = (("u", Policy(None)), ("v", Policy(2, contiguous=True)))
    rules = Rules(Source("header", "seq"), max_jump=max_jump, contiguous=True, topics=topics, compares_epochs=compares_epochs)
    sizes = range(1, len(records) + 3)  # where there are no records, 1 and 2
    for size in sizes:
        pieces = in_pieces(records, size)
        require_as_folded(decided(pieces, known, rules, is_encoded=size % 2 == 0), pieces, known, rules)


def test_streams_that_have_a_name_or_none_are_apart_and_in_order() -> None:
    sent = [Arrival(("t", 0, name), nth, 0, 5, None) for nth, name in enumerate(["b", None, "", "a"])]

    found = decided([sent], {})

    assert [each.stream[2] for each in segments_of(found.segments)] == ["", "a", "b", None]


@pytest.mark.parametrize("size", [1, 2, 100])
def test_a_step_of_max_jump_is_accepted_and_a_larger_one_is_a_jump(size: int) -> None:
    sent = [Arrival(STREAM, offset, 0, sequence, None) for offset, sequence in enumerate([1, 4, 8, 5])]

    found = decided(in_pieces(sent, size), {}, Rules(Source("header", "seq"), max_jump=3))

    rows = [(each.kind, each.first_offset, each.last_offset) for each in segments_of(found.segments)]
    assert rows == [("accepted", 0, 3), ("jump", 2, 2)]
    assert found.cut == (set() if size == 100 else {("t", 0)})
