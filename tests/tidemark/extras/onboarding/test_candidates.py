"""What a sample holds that could be a key, whatever its bytes are: what fits, and why the rest does not."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.config.load import parse
from lakehouse.settings.extractor import Extractor
from lakehouse.settings.payload_schema import parse as parse_ddl
from tests.support.hostile_bytes import VALUES
from tests.support.reference import Reference, Seen
from tidemark.extras.onboarding.candidates import MOST_NAMES, Candidate, Steps, argument_of, expectations, find, walk
from tidemark.extras.onboarding.init import Asked, Section, config_text
from tidemark.extras.onboarding.sample import Sample, Sampled
from tidemark.extras.onboarding.values import payload

NUMBERS = st.one_of(st.none(), st.integers(0, 6))
ROWS = st.lists(st.tuples(st.integers(0, 1), NUMBERS, st.sampled_from([None, "a", "b"]), st.integers(0, 1), st.booleans()))


def record(offset: int, *, partition: int = 0, value: Any = None, key: bytes | None = None, **headers: bytes | None) -> Sampled:
    written = value if isinstance(value, bytes) or value is None else json.dumps(value).encode()
    return Sampled("t", partition, offset, key, written, tuple(headers.items()))


def with_header(*sequences: int, partition: int = 0) -> list[Sampled]:
    """Records with these sequences in the header `seq`; the same sequence comes with the same value."""
    return [record(offset, partition=partition, value=b"v%d" % each, seq=b"%d" % each) for offset, each in enumerate(sequences)]


def found(records: Sequence[Sampled], **more: Any) -> tuple[dict[str, Candidate], Sequence[str]]:
    found = find(Sample(records, **more))
    return {each.label: each for each in found.candidates}, found.labels


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
    assert findings["header:seq"].steps.describe() == described
    assert (options == ["header:seq"]) == ("in part" not in described)


@pytest.mark.parametrize("key", [b"%d", b'{"of": {"id": %d}}', b'[%d, "x"]', None])
def test_a_field_that_is_the_records_key_is_no_sequence(key: bytes | None) -> None:
    keys = [key % offset if key else offset.to_bytes(8) for offset in range(50)]
    records = [record(offset, value={"id": offset}, key=each) for offset, each in enumerate(keys)]
    findings, options = found(records)
    assert options == []
    why = findings["json:$.id"].why_not.get("sequence")
    assert why == "it is the record's key, or a part of it, and another record of the key has the same one"
    assert found([each._replace(key=b"all") for each in records])[1] == ["json:$.id"]


def test_more_than_one_record_in_a_hundred_that_collides_or_is_invalid_is_too_many() -> None:
    rising = with_header(*range(100))
    same = record(100, value=b"another", seq=b"99")
    assert found([*rising, same])[1] == ["header:seq"]
    assert found([*rising, same, record(101, value=b"a third", seq=b"99")])[1] == []
    assert found([*rising, record(100)])[1] == ["header:seq"]
    assert found([*rising, record(100), record(101)])[1] == []


def test_a_time_in_seconds_is_no_epoch() -> None:
    records = [record(n, value={"n": n % 10}, at=b"%d" % (1_795_254_019 + n // 10)) for n in range(50)]
    assert found(records)[0]["header:at"].why_not.get("epoch") == "it looks like a time"


def test_a_header_that_does_not_fit_says_why() -> None:
    def said_of(records: list[Sampled], offered: list[str]) -> str | None:
        findings, options = found(records)
        assert options == offered
        return findings["header:seq"].why_not.get("sequence")

    falls = "it does not rise within the partitions: 49 records below an earlier one that never came before"
    assert said_of(with_header(*range(50, 0, -1)), []) == falls
    shared = [record(n, value={"n": n}, seq=b"%d" % (n // 5 + 1)) for n in range(50)]
    assert "40 records with a number that another record has" in str(said_of(shared, ["json:$.n"]))
    lacking = [record(n, seq=b"%d" % n) if n % 2 else record(n, other=b"x") for n in range(40)]
    assert said_of(lacking, []) == "it is missing in 20 of 40 records"
    alone = [record(0, partition=partition, value=b"v", seq=b"7") for partition in range(3)]
    assert "two records" in str(said_of(alone, []))


def test_what_does_not_fit_says_why() -> None:
    values = [{"one": 7, "text": "x", "half": 0.5, "at": 1_795_254_019_000 + n, "far": 2**63 + n, "neg": -n} for n in range(40)]
    findings, options = found([record(n, value=each) for n, each in enumerate(values)])
    assert options == []
    assert {name.removeprefix("json:$."): each.why_not.get("sequence") for name, each in findings.items()} == {
        "one": "it never changes within a partition, such as 7",
        "text": "text, such as x",
        "half": "fractions, such as 0.5",
        "at": "it looks like a time, and two records of one moment would have one sequence",
        "far": "it is below 0, or above the highest number of its encoding",
        "neg": "negative numbers, such as 0 (in 39 of 40 records)",
    }


def test_what_fits_is_offered_with_its_producer_or_epoch_and_the_best_first() -> None:
    of_producers = [record(n, value=b"v%d" % n, seq=b"%d" % (n // 2 + 100 * (n % 2)), who=b"w%d" % (n % 2)) for n in range(200)]
    assert found(of_producers)[1] == ["header:seq with producer header:who"]
    of_epochs = [record(n, value={"n": n % 50, "epoch": n // 50, "body": n % 7}) for n in range(200)]
    assert found(of_epochs)[1] == ["json:$.n with epoch json:$.epoch"]
    several = [record(n, value={"id": n, "other": n}, seq=b"%d" % n, rev=b"%d" % n) for n in range(50)]
    assert found(several)[1] == ["header:seq", "json:$.id", "header:rev", "json:$.other"]
    findings, options = found([record(n, value=b"v%d" % n, seq=(n + 1).to_bytes(8)) for n in range(50)])
    assert options == ["{header: seq, encoding: int64}"]
    assert max(findings[options[0]].known) == 50


@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize("numbers", [range(1, 101), range(100, 700), range(1_795_254_019, 1_795_254_119)])
def test_a_little_endian_counter_is_no_sequence(width: int, numbers: range) -> None:
    findings, options = found([record(n, seq=each.to_bytes(width, "little")) for n, each in enumerate(numbers)])
    assert options == []
    why = findings[f"{{header: seq, encoding: int{8 * width}}}"].why_not.get("sequence")
    assert why is not None
    assert why.startswith(f"whole numbers in {width} bytes, little-endian, such as ")
    big_endian = [record(n, seq=each.to_bytes(width)) for n, each in enumerate(numbers)]
    assert found(big_endian)[1] == [f"{{header: seq, encoding: int{8 * width}}}"]


def test_what_holds_of_fields_in_the_sample_is_proposed_to_the_gate() -> None:
    values: list[dict[str, object]] = [
        {"id": f"o-{n}", "n": n, "at": 1_795_254_019 + n % 7, "state": "on" if n % 3 else "off", "half": n % 4 / 2, "ok": True}
        for n in range(40)
    ]
    values[7] |= {"id": None, "ok": None}
    records = [record(n, value=each) for n, each in enumerate(values)]
    found = find(Sample(records))
    fields = payload(found.documents)
    assert fields.schema == "id STRING, n BIGINT, at BIGINT, state STRING, half DOUBLE, ok BOOLEAN"
    offered = expectations(found, fields.fields)
    proposed = [(name, *each.values()) for one in offered for name, each in one.items()]
    null, between, in_set = (f"expect_column_values_to_{name}" for name in ("not_be_null", "be_between", "be_in_set"))
    assert proposed == [
        (null, "payload.at", "warn"),  # no range: it looks like a time
        (null, "payload.half", "warn"),
        (between, "payload.half", 0.0, 1.5, "warn"),
        (null, "payload.n", "warn"),  # no range: it rises
        (null, "payload.state", "warn"),
        (in_set, "payload.state", ["off", "on"], "warn"),
    ]
    # Where another topic has another type, nothing is proposed.
    assert not [*expectations(found, parse_ddl("half BIGINT, state DOUBLE"))]


def test_what_names_nobody_is_no_producer() -> None:
    records = [record(n, value={"price": n % 3 + 0.5, "paid": n % 2 == 0, "shop": "a", "id": f"o-{n}"}) for n in range(60)]
    whys = {name.removeprefix("json:$."): each.why_not.get("producer") for name, each in found(records)[0].items()}
    assert whys == {
        "price": "fractions name nobody",
        "paid": "true and false name nobody",
        "shop": "it is the same in all records, so it divides nothing",
        "id": "60 different values in 60 records are too many",
    }


def test_what_may_have_been_sent_before_the_end_of_a_partition_is_not_held_against_a_sequence() -> None:
    ends = [record(100 + n, value=b"v", seq=b"%d" % each) for n, each in enumerate((90, 91, 88, 92))]
    findings, options = found([*with_header(1, 2, 3), *ends], tails={("t", 0): 100})
    steps = findings["header:seq"].steps
    assert (options, steps.unknown, steps.late, steps.gaps) == (["header:seq"], 1, 0, 0)


def by_the_rule(rows: list[tuple[Sampled, Any, Any, int]]) -> Steps:
    seen = [
        Seen("t", each.partition, each.offset, sequence, producer, epoch, repr(each.value))
        for each, sequence, producer, epoch in rows
        if None not in (sequence, producer)
    ]
    rule = Reference().take(seen)
    classes, streams = Counter(rule.classes.values()), Counter(each.stream for each in seen)
    longest = max(streams.values(), default=0)
    is_constant = longest > 1 and len({each.key for each in seen}) == len(streams)
    named = {"accepted": "in_order", "duplicate": "resent", "collision": "collisions", "late": "late", "fenced": "fenced"}
    counts = {name: classes[kind] for kind, name in named.items()}
    return Steps(len(seen), len(streams), longest, gaps=len(rule.gaps), is_constant=is_constant, **counts)


@given(ROWS)
def test_a_walk_counts_what_the_rule_of_silver_decides(rows: list[tuple[Any, ...]]) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    records = [record(offset, partition=row[0], value=b"same" if row[4] else b"%d" % offset) for offset, row in enumerate(rows)]
    sequences, producers, epochs = ([row[place] for row in rows] for place in (1, 2, 3))
    expected = by_the_rule(list(zip(records, sequences, producers, epochs, strict=True)))
    assert walk(Sample(records), sequences, producers, epochs) == expected


def sampled(values: list[Any], headers: Any = ()) -> list[Sampled]:
    return [Sampled("t", 0, offset, b"k", value, tuple(headers)) for offset, value in enumerate(values)]


def labels(records: list[Sampled]) -> list[str]:
    return [each.label for each in find(Sample(records)).candidates]


def test_headers_paths_and_whole_values_are_candidates_up_to_a_limit() -> None:
    paths = ["json:$.a.b", "json:$.a['c d']"]
    assert labels(sampled([b'{"a": {"b": 1, "c d": "x"}, "list": [1]}'], [("seq", b"1")])) == ["header:seq", *paths]
    assert labels(sampled([b"7", b"8"])) == ["value:utf8"]
    assert labels(sampled([(7).to_bytes(8), (8).to_bytes(8)])) == ["value:int64"]
    many = find(Sample(sampled([json.dumps({f"n{number}": 1 for number in range(MOST_NAMES + 50)}).encode()])))
    assert (len(many.candidates), many.left_out) == (MOST_NAMES, 50)


def test_names_that_the_config_cannot_spell_are_counted_and_left_out() -> None:
    odd = sampled(
        [json.dumps({"it's": 1, "a[0]": 1, "*": 1, "": 1, "x" * 300: 1, "ok": 1}).encode()], [("", b"1"), ("y" * 300, b"1")]
    )
    assert (labels(odd), len(find(Sample(odd)).unnamed)) == (["json:$.ok"], 6)


@pytest.mark.parametrize(
    "value", [b"[" * 100_000, b'{"a":' * 50_000 + b"1" + b"}" * 50_000, b"\xff" * 2_000_000, b'{"a": NaN}', b"9" * 9_000, b""]
)
def test_bytes_that_would_stop_a_parser_are_no_json(value: bytes) -> None:
    assert "json:$.ok" in labels(sampled([value, b'{"ok": 1}']))


def test_a_header_or_a_key_that_stands_twice_with_two_values_is_a_problem() -> None:
    found = find(Sample(sampled([b'{"a": 1, "a": 2}'], [("seq", b"1"), ("seq", b"2")]))).candidates
    assert {each.label: each.problems for each in found} == {"header:seq": {"disagrees": 1}, "json:$.a": {"repeated": 1}}


@given(st.lists(VALUES, max_size=12), st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=9) | st.none()), max_size=3))
def test_any_bytes_are_judged(values: list[bytes | None], headers: list[tuple[str, bytes | None]]) -> None:
    found = find(Sample(sampled(values, headers))).candidates
    assert all(len(each.known) + sum(each.problems.values()) == len(values) for each in found)


@given(st.text(min_size=1, max_size=20), st.sampled_from(["header", "json"]))
def test_every_name_that_a_candidate_can_have_is_read_back_from_the_config(name: str, form: Any) -> None:
    argument = name if form == "header" else argument_of((name,))
    if argument is None:
        return
    section = Section({"sequence": {form: argument}}, ["\x1b[31m\n# pipeline: other " + name])
    asked = Asked("localhost:9092", [".hidden-topic"], "./lake", Path("tidemark.yml"), False, 100, [], {})
    written = config_text([*asked.sections(), section])
    settings = parse(written, Path("tidemark.yml"), environ={})
    assert (settings.pipeline, settings.sequence) == ("hidden-topic", Extractor.model_validate({form: argument}))
    assert "\x1b" not in written
