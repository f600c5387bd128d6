"""What a sample holds that could be a key, whatever its bytes are: what fits, and why the rest does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bronze.kafka.sample import Sample, Sampled
from jobs.first.candidates import MOST_NAMES, argument_of, find
from jobs.first.config_text import Chosen, Parts, text
from jobs.first.findings import Steps, judge, walk
from lakehouse.config.load import parse
from lakehouse.extract.sources import Source
from lakehouse.settings.extractor import Extractor
from tests.support.hostile_bytes import VALUES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobs.first.findings import Finding

NUMBERS = st.one_of(st.none(), st.integers(0, 6))
ROWS = st.lists(st.tuples(st.integers(0, 1), NUMBERS, st.sampled_from([None, "a", "b"]), st.integers(0, 1), st.booleans()))


def record(offset: int, *, partition: int = 0, value: Any = None, key: bytes | None = None, **headers: bytes | None) -> Sampled:
    written = value if isinstance(value, bytes) or value is None else json.dumps(value).encode()
    return Sampled("t", partition, offset, key, written, tuple(headers.items()))


def with_header(*sequences: int, partition: int = 0) -> list[Sampled]:
    """Records with these sequences in the header `seq`; the same sequence comes with the same value."""
    return [record(offset, partition=partition, value=b"v%d" % each, seq=b"%d" % each) for offset, each in enumerate(sequences)]


def found(records: Sequence[Sampled], **more: Any) -> tuple[dict[str, Finding], list[str]]:
    """The finding of each candidate by its name, and the names of the options."""
    sample = Sample(records, **more)
    judged = judge(sample, find(records))
    return {each.candidate.label: each for each in judged.findings}, [each.label for each in judged.options]


@pytest.mark.parametrize(
    ("sequences", "described"),
    [
        ((1, 2, 3), "rises, without a gap"),
        ((1, 5, 9, 10), "rises, with 2 gaps"),
        ((1, 2, 3, 2, 3, 4), "rises, without a gap; 2 records sent again"),
        ((1, 2, 7, 2, 7, 8), "rises, with 1 gap; 2 records sent again"),
        ((1, 2, 9, 4, 10), "rises in part, with 1 gap; 1 record below an earlier one that never came before"),
    ],
)
def test_a_sequence_rises_with_gaps_with_resends_and_with_jumps_back(sequences: tuple[int, ...], described: str) -> None:
    findings, options = found(with_header(*sequences))
    steps = findings["header:seq"].steps
    assert steps is not None
    assert steps.describe() == described
    assert (options == ["header:seq"]) == ("in part" not in described)


def test_numbers_that_fall_do_not_fit() -> None:
    findings, options = found(with_header(*range(50, 0, -1)))
    assert options == []
    assert findings["header:seq"].not_sequence == (
        "it does not rise within the partitions: 49 of 50 records are below an earlier one and never there before"
    )


def test_the_same_number_on_different_records_does_not_fit() -> None:
    records = [record(offset, value={"n": offset}, seq=b"%d" % (offset // 5 + 1)) for offset in range(50)]
    findings, options = found(records)
    assert "40 of 50 records are with the number of another record" in str(findings["header:seq"].not_sequence)
    assert options == ["json:$.n"]


def test_what_does_not_fit_says_why() -> None:
    values = [{"one": 7, "text": "x", "half": 0.5, "at": 1_795_254_019_000 + n, "far": 2**63 + n, "neg": -n} for n in range(40)]
    findings, options = found([record(n, value=each) for n, each in enumerate(values)])
    assert options == []
    assert {name.removeprefix("json:$."): each.not_sequence for name, each in findings.items()} == {
        "one": "it never changes within a partition, such as 7",
        "text": "text, such as x",
        "half": "fractions, such as 0.5",
        "at": "it looks like a time, and two records of one moment would have one sequence",
        "far": "it is not from 0 to the greatest number of its encoding",
        "neg": "negative numbers, such as 0 (in 39 of 40 records)",
    }


def test_a_header_that_many_records_lack_does_not_fit() -> None:
    records = [record(n, seq=b"%d" % n) if n % 2 else record(n, other=b"x") for n in range(40)]
    assert found(records)[0]["header:seq"].not_sequence == "it is missing in 20 of 40 records"


def test_a_sequence_that_rises_for_each_producer_alone_is_found_with_its_producer() -> None:
    records = [record(n, value=b"v%d" % n, seq=b"%d" % (n // 2 + 100 * (n % 2)), who=b"w%d" % (n % 2)) for n in range(200)]
    findings, options = found(records)
    assert findings["header:seq"].not_sequence is not None
    assert findings["header:who"].not_producer is None
    assert options == ["header:seq with producer header:who"]


def test_what_names_nobody_is_no_producer() -> None:
    records = [record(n, value={"price": n % 3 + 0.5, "paid": n % 2 == 0, "shop": "a", "id": f"o-{n}"}) for n in range(60)]
    whys = {name.removeprefix("json:$."): each.not_producer for name, each in found(records)[0].items()}
    assert whys == {
        "price": "fractions name nobody",
        "paid": "true and false name nobody",
        "shop": "it is the same in all records, so it divides nothing",
        "id": "60 different values in 60 records are too many",
    }


def test_a_sequence_that_starts_anew_is_found_with_its_epoch() -> None:
    records = [record(n, value={"n": n % 50, "epoch": n // 50, "body": n % 7}) for n in range(200)]
    assert found(records)[1] == ["json:$.n with epoch json:$.epoch"]


def test_of_several_the_one_comes_first_that_keeps_the_fewest_records_out_and_is_named_so() -> None:
    records = [record(n, value={"id": n, "other": n}, seq=b"%d" % n, rev=b"%d" % n) for n in range(50)]
    assert found(records)[1] == ["header:seq", "json:$.id", "header:rev", "json:$.other"]


def test_a_whole_partition_with_one_record_says_nothing_of_the_order() -> None:
    records = [record(0, partition=partition, value=b"v", seq=b"7") for partition in range(3)]
    assert found(records)[1] == []
    assert "two records" in str(found(records)[0]["header:seq"].not_sequence)


def test_what_may_have_been_sent_before_the_end_of_a_partition_is_not_held_against_a_sequence() -> None:
    ends = [record(100 + n, value=b"v", seq=b"%d" % each) for n, each in enumerate((90, 91, 88, 92))]
    records = [*with_header(1, 2, 3), *ends]
    findings, options = found(records, tails={("t", 0): 100})
    assert options == ["header:seq"]
    steps = findings["header:seq"].steps
    assert steps is not None
    assert (steps.unknown, steps.late, steps.gaps) == (1, 0, 0)


def test_numbers_in_eight_bytes_are_read_as_such() -> None:
    records = [record(n, value=b"v%d" % n, seq=(n + 1).to_bytes(8)) for n in range(50)]
    findings, options = found(records)
    assert options == ["{header: seq, encoding: int64}"]
    assert findings[options[0]].highest == 50


def plainly(records: Sequence[Sampled], sequences: Sequence[Any], producers: Sequence[Any], epochs: Sequence[Any]) -> Steps:
    """The same by looking, for each record, at all before it."""
    seen: list[tuple[Any, tuple[int, int], Any]] = []
    counts = dict.fromkeys(("in_order", "gaps", "resent", "collisions", "late", "fenced"), 0)
    for each, sequence, producer, epoch in zip(records, sequences, producers, epochs, strict=True):
        if sequence is None or producer is None:
            continue
        stream, ordinal, content = (each.partition, producer), (epoch, sequence), (each.key, each.value)
        before = [(other, what) for place, other, what in seen if place == stream]
        highest = max((other for other, _ in before), default=None)
        if highest is None or ordinal > highest:
            counts["in_order"] += 1
            counts["gaps"] += highest is not None and highest[0] == epoch and sequence > highest[1] + 1
        elif epoch < highest[0]:
            counts["fenced"] += 1
        elif first := [what for other, what in before if other == ordinal]:
            counts["resent" if first[0] == content else "collisions"] += 1
        else:
            counts["late"] += 1
        seen.append((stream, ordinal, content))
    streams = {place for place, _, _ in seen}
    of_stream = [[ordinal for place, ordinal, _ in seen if place == stream] for stream in streams]
    longest = max(map(len, of_stream), default=0)
    is_constant = longest > 1 and all(len(set(each)) == 1 for each in of_stream)
    return Steps(records=len(seen), streams=len(streams), longest=longest, is_constant=is_constant, **counts)


@given(ROWS)
def test_a_walk_counts_what_looking_back_at_every_record_counts(rows: list[tuple[Any, ...]]) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    records = [record(offset, partition=row[0], value=b"same" if row[4] else b"%d" % offset) for offset, row in enumerate(rows)]
    sequences, producers, epochs = ([row[place] for row in rows] for place in (1, 2, 3))
    assert walk(records, sequences, producers, epochs) == plainly(records, sequences, producers, epochs)


def sampled(values: list[Any], headers: Any = ()) -> list[Sampled]:
    return [Sampled("t", 0, offset, b"k", value, tuple(headers)) for offset, value in enumerate(values)]


def labels(records: list[Sampled]) -> list[str]:
    return [each.label for each in find(records).candidates]


def test_headers_paths_and_whole_values_are_candidates() -> None:
    assert labels(sampled([b'{"a": {"b": 1, "c d": "x"}, "list": [1]}'], [("seq", b"1")])) == [
        "header:seq",
        "json:$.a.b",
        "json:$.a['c d']",
    ]
    assert labels(sampled([b"7", b"8"])) == ["value:utf8"]
    assert labels(sampled([(7).to_bytes(8), (8).to_bytes(8)])) == ["value:int64"]


def test_names_that_the_config_cannot_spell_are_counted_and_left_out() -> None:
    found = find(sampled([json.dumps({"it's": 1, "a[0]": 1, "*": 1, "": 1, "x" * 300: 1, "ok": 1}).encode()], [("", b"1")]))
    assert [each.label for each in found.candidates] == ["json:$.ok"]
    assert len(found.unnamed) == 6


def test_names_beyond_a_limit_are_counted() -> None:
    records = sampled([json.dumps({f"n{number}": 1 for number in range(MOST_NAMES + 50)}).encode()])
    assert (len(find(records).candidates), find(records).left_out) == (MOST_NAMES, 50)


@pytest.mark.parametrize(
    "value", [b"[" * 100_000, b'{"a":' * 50_000 + b"1" + b"}" * 50_000, b"\xff" * 2_000_000, b'{"a": NaN}', b"9" * 9_000, b""]
)
def test_bytes_that_would_stop_a_parser_are_no_json(value: bytes) -> None:
    found = find(sampled([value, b'{"ok": 1}']))
    assert "json:$.ok" in [each.label for each in found.candidates]


def test_a_header_or_a_key_that_stands_twice_with_two_values_is_a_problem() -> None:
    found = find(sampled([b'{"a": 1, "a": 2}'], [("seq", b"1"), ("seq", b"2")])).candidates
    assert {each.label: each.problems for each in found} == {"header:seq": {"disagrees": 1}, "json:$.a": {"repeated": 1}}


@given(st.lists(VALUES, max_size=12), st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=9) | st.none()), max_size=3))
def test_any_bytes_are_judged(values: list[bytes | None], headers: list[tuple[str, bytes | None]]) -> None:
    sample = Sample(sampled(values, headers))
    judged = judge(sample, find(sample.records))
    assert all(each.candidate.readable + sum(each.candidate.problems.values()) == len(values) for each in judged.findings)


@given(st.text(min_size=1, max_size=20), st.sampled_from(["header", "json"]))
def test_every_name_that_a_candidate_can_have_is_read_back_from_the_config(name: str, form: Any) -> None:
    argument = name if form == "header" else argument_of((name,))
    if argument is None:
        return
    chosen = {"sequence": Chosen(Source(form, argument), ["\x1b[31m\n# pipeline: other " + name])}
    written = text(Parts("localhost:9092", ["t"], "./lake", {}, name, chosen))
    settings = parse(written, Path("tidemark.yml"), environ={})
    assert settings.sequence == Extractor.model_validate({form: argument})
    assert "\x1b" not in written
