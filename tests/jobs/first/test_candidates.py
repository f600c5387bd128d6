"""What a sample holds that could be a key: whatever bytes a producer sends, and however many names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bronze.kafka.sample import Sample, Sampled
from jobs.first.candidates import MOST_NAMES, argument_of, find
from jobs.first.config_text import Chosen, Parts, text
from jobs.first.findings import judge
from lakehouse.config.load import parse
from lakehouse.extract.sources import Source
from lakehouse.settings.extractor import Extractor
from tests.support.hostile_bytes import VALUES


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
