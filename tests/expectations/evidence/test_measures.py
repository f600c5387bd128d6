"""Silver's and Bronze's counts held against the ledger and the watermarks."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expectations.evidence.facts import BronzeCounts, Evidence, Row, by_load, differences, load_facts, stream_facts
from expectations.failing_rows import _as_they_were as as_they_were
from lakehouse.contracts.gate import Rejected
from lakehouse.contracts.silver import STREAM
from lakehouse.extract.sources import Source
from silver.rules import Policy, Rules
from tests.support import silver_rows


def claim(load_seq: int = 1, **named: Any) -> Row:
    first = {"epoch_before": None, "high_watermark_before": None, "high_watermark_after": 7, "last_offset": 9, "rules": None}
    return silver_rows.claim(load_seq, **{**first, **named})


def silver(load_seq: int | None = 1, *, epoch: int = 0, first: int = 1, last: int = 7, **named: Any) -> Row:
    ends = {"first": {"epoch": epoch, "sequence": first}, "last": {"epoch": epoch, "sequence": last}}
    counted = {"rows": 7, "repeated_keys": 0, "nulls": 0, "undecodable": 0}
    return {**silver_rows.kept(load_seq, first, last), **ends, **counted, **named}


def mark(load_seq: int = 1, **named: Any) -> Row:
    return silver_rows.mark(**{"load_seq": load_seq, "high_watermark": 7, "last_offset": 9, **named})


GOOD = Evidence(1, 1, ledger=[claim()], silver=[silver()], watermarks=[mark()], bronze=BronzeCounts({("t", 0, 1): 10}))


def violations(evidence: Evidence) -> dict[str, int]:
    found: Counter[str] = Counter()
    for row in stream_facts(evidence):
        found.update({name: count for name, count in row.items() if name not in {*STREAM, "load_seq"}})
    return dict(+found)


LARGEST = 2**63 - 1
_LESS = {"records": 12, "replay": 2}
_NOTHING: dict[str, Any] = {"accepted": 0, "invalid": 7, "epoch_after": None, "high_watermark_after": None}
# What differs from good evidence, and what it violates; `tests/lakehouse/test_reconcile.py` has each comparison's own cases.
CASES: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "a load that is what the ledger says": ({}, {}),
    "a row that Silver lacks": ({"silver": [silver(rows=6)]}, {"silver_mismatch": 1}),
    "a stream beyond the ledger": ({"silver": [silver(), silver(producer="x", rows=2)]}, {"silver_mismatch": 2}),
    "a record that no class holds": ({"bronze": BronzeCounts({("t", 0, 1): 11})}, {"unaccounted": 1}),
    "a record that Bronze lacks": ({"bronze": BronzeCounts({("t", 0, 1): 9})}, {"unaccounted": 1}),
    "a partition and a version that no load claims": (
        {"bronze": BronzeCounts({("t", 0, 1): 10, ("t", 1, 1): 4, ("t", 0, None): 2})},
        {"unaccounted": 6},
    ),
    "two producers of a partition are accounted for together": (
        {
            "ledger": [claim(producer="a"), claim(producer="b")],
            "silver": [silver(producer="a"), silver(producer="b")],
            "watermarks": [mark(producer="a"), mark(producer="b")],
            "bronze": BronzeCounts({("t", 0, 1): 20}),
        },
        {},
    ),
    "replays are not among offsets": (
        {"ledger": [claim(**_LESS)], "bronze": BronzeCounts({("t", 0, 1): 10}, counts_offsets=True)},
        {},
    ),
    "replays are among records": ({"ledger": [claim(**_LESS)], "bronze": BronzeCounts({("t", 0, 1): 12})}, {}),
    "a load without any ledger row": ({"last_load_seq": 2}, {"unaccounted": 1}),
    "more accepted records than sequences": ({"ledger": [claim(missing=-5)]}, {"unaccounted": 5}),
    "loads that overlap in Silver itself": (
        {
            "last_load_seq": 2,
            "ledger": [claim(1), claim(2, epoch_before=0, high_watermark_before=3, high_watermark_after=9)],
            "silver": [silver(1), silver(2, first=6, last=9)],
            "watermarks": [mark(2, high_watermark=9)],
            "bronze": BronzeCounts({("t", 0, 1): 10, ("t", 0, 2): 10}),
        },
        {"not_increasing": 1},
    ),
    "no watermark": ({"watermarks": []}, {"watermark_mismatch": 1}),
    "a stream that accepted nothing": (
        {"ledger": [claim(**_NOTHING)], "silver": [], "watermarks": [mark(epoch=None, high_watermark=None)]},
        {},
    ),
    "a row without a load": ({"silver": [silver(), silver(None, rows=1, nulls=1)]}, {"nulls": 1, "silver_mismatch": 1}),
    "the largest sequence is compared exactly": (
        {
            "ledger": [claim(high_watermark_after=LARGEST)],
            "silver": [silver(last=LARGEST - 1)],
            "watermarks": [mark(high_watermark=LARGEST)],
        },
        {"watermark_mismatch": 1},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_evidence_violates(case: str) -> None:
    changed, expected = CASES[case]
    assert violations(replace(GOOD, **changed)) == expected


def test_a_load_is_measured_over_all_its_streams() -> None:
    rules = Rules(Source("header", "seq"), topics=(("t", Policy(contiguous=True)),)).to_json()
    ledger = [claim(missing=2, topic="t@2", rules=rules), claim(partition=1, accepted=5, duplicate=3, late=1, collision=1)]
    ledger.append(claim(topic="outbox", missing=5_994, rules=rules, records=0, accepted=0, duplicate=0))

    evidence = replace(GOOD, ledger=ledger, silver=[silver(undecodable=3)], restarts=ledger[:1])
    (row,) = load_facts(evidence)

    gaps = {"missing": 5_996, "missing_of_contiguous": 2}
    counts = {"duplicate": 6, "late": 1, **gaps, "quarantined": 2, "undecodable": 3, "collision": 1}
    counts |= {"restart_suspected": 1}
    shares = {"duplicate_share": 0.3, "late_share": 0.05, "quarantined_share": 0.1, "undecodable_share": 0.25}
    assert row == {"load_seq": 1, **counts, **shares}


def test_of_a_rejected_load_nothing_is_asked_but_its_place_is_known() -> None:
    ledger = [claim(1, missing=9), claim(2, epoch_before=0, high_watermark_before=7, high_watermark_after=9)]
    bronze = BronzeCounts({("t", 0, 1): 99, ("t", 0, 2): 10})
    found = Evidence(1, 2, ledger, [silver(2, first=8, last=9)], [mark(2, high_watermark=9)], bronze)

    kept = replace(found, rejected=Rejected(((1, 1),)))

    assert violations(found) == {"unaccounted": 89, "silver_mismatch": 7, "watermark_mismatch": 1}
    assert violations(kept) == {}
    assert [load["load_seq"] for load in load_facts(kept)] == [2]


def test_what_differs_is_told_with_what_each_table_says() -> None:
    evidence = replace(GOOD, silver=[silver(rows=6)], watermarks=[], bronze=BronzeCounts({("t", 0, 1): 11}))
    place = {"topic": "t", "partition": 0, "producer": None, "load_seq": 1}

    assert differences(evidence, "silver_matches_ledger") == [{**place, "silver_rows": 6, "ledger_kept": 7}]
    assert differences(evidence, "records_are_conserved") == [{**place, "bronze_records": 11, "ledger_records": 10}]
    assert differences(evidence, "watermark_matches_silver") == [
        {**place, "silver_highest": [0, 7], "ledger_watermark": [0, 7], "watermark": None}
    ]
    assert differences(GOOD, "silver_matches_ledger") == []


def test_a_version_between_two_loads_belongs_to_the_later() -> None:
    versions = [{"topic": "t", "partition": 0, "version": version, "records": 1} for version in (1, 2, 3, 9)]

    assert by_load(versions, [(5, 2), (1, 1)]) == {("t", 0, 1): 1, ("t", 0, 2): 2, ("t", 0, None): 1}


def test_a_stream_that_was_retired_has_no_watermark_in_the_table() -> None:
    none = {"records": 0, "accepted": 0, "duplicate": 0, "epoch_before": 0, "high_watermark_before": 7, "kind": "retire"}
    own = {**none, "epoch_before": None, "high_watermark_before": None, "epoch_after": None, "high_watermark_after": None}
    ledger = [claim(producer="a"), claim(2, producer="a", **none), claim(2, **own)]
    carrier = mark(2, epoch=None, high_watermark=None)
    retired = replace(GOOD, last_load_seq=2, ledger=ledger, silver=[silver(producer="a")], watermarks=[carrier])

    assert violations(retired) == {}
    assert violations(replace(retired, watermarks=[carrier, mark(producer="a")])) == {"watermark_mismatch": 1}

    behind_it = replace(retired, last_load_seq=1, ledger=ledger[:1], watermarks=[carrier])
    assert as_they_were(behind_it, ledger[1:2]) == [mark(producer="a")]


NUMBERS = st.integers(1, 12)


@given(st.lists(st.tuples(NUMBERS, NUMBERS).map(sorted), max_size=4), st.integers(0, 12), st.integers(0, 12))
def test_what_waits_begins_and_ends_with_a_load_not_rejected(ranges: list[list[int]], published: int, finished: int) -> None:
    rejected = Rejected(tuple((first, last) for first, last in ranges))
    waiting = [load_seq for load_seq in range(published + 1, finished + 1) if load_seq not in rejected]

    assert rejected.pending(published, finished) == ((waiting[0], waiting[-1]) if waiting else None)
