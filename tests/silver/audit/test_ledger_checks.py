"""Silver's tables held against the ledger, on literal rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.contracts.silver import CLASSES
from silver.audit import ledger_checks, reject_checks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakehouse.run.findings import Violation
    from silver.audit.ledger_checks import Row

STREAM = {"topic": "t", "partition": 0, "producer": None}


def claim(load_seq: int, **named: Any) -> Row:
    """A load of ten records of stream t/0: seven accepted, three duplicates."""
    first = load_seq == 1
    row = {
        **STREAM,
        "load_seq": load_seq,
        "kind": "records",
        "pipeline": "tests",
        "bronze_after_version": -1 if first else load_seq - 1,
        "bronze_to_version": load_seq,
        "records": 10,
        **dict.fromkeys(CLASSES, 0),
        "accepted": 7,
        "duplicate": 3,
        "late_accepted": 0,
        "released": 0,
        "discarded": 0,
        "erased": 0,
        "epoch_before": None if first else 0,
        "high_watermark_before": None if first else 7 * (load_seq - 1),
        "epoch_after": 0,
        "high_watermark_after": 7 * load_seq,
        "last_offset_before": None if first else 10 * (load_seq - 1) - 1,
        "last_offset": 10 * load_seq - 1,
        "missing": 0,
        "declared_epoch": None,
        "rules_fingerprint": "f",
        "run_id": f"run-{load_seq}",
    }
    return {**row, **named}


def mark(**named: Any) -> Row:
    row = {"epoch": 0, "high_watermark": 14, "last_offset": 19, "declared_epoch": None, "load_seq": 2, "rules_fingerprint": "f"}
    return {**STREAM, **row, **named}


def kept(load_seq: int | None, first: int, last: int, **named: Any) -> Row:
    row = {"load_seq": load_seq, "epoch": 0, "arrival": "in_order", "rows": last - first + 1, "falls": 0}
    return {**STREAM, **row, "first_sequence": first, "last_sequence": last, **named}


def reject(load_seq: int, **named: Any) -> Row:
    row = {"load_seq": load_seq, "class": "duplicate", "state": "discarded", "settled_load_seq": None, "records": 3}
    return {**STREAM, **row, **named}


LEDGER = [claim(1), claim(2)]
KEPT = [kept(1, 1, 7), kept(2, 8, 14)]
REJECTS = [reject(1), reject(2)]


def told(violations: Iterable[Violation]) -> list[str]:
    return [f"{each.where}: {each.observed} / {each.expected}" for each in violations]


def test_a_sound_lakehouse_violates_nothing() -> None:
    found = [
        *ledger_checks.claims(LEDGER, 2),
        *ledger_checks.claims(LEDGER, 1),
        *ledger_checks.chain(LEDGER, "tests"),
        *ledger_checks.sums(LEDGER),
        *ledger_checks.marks(LEDGER, [mark()]),
        *ledger_checks.records(LEDGER, KEPT),
        *ledger_checks.reach(LEDGER, KEPT),
        *reject_checks.compare(LEDGER, REJECTS),
    ]
    assert found == []


@pytest.mark.parametrize("finished", [0, 3])
def test_a_ledger_and_watermarks_of_different_loads_are_named(finished: int) -> None:
    (found,) = told(ledger_checks.claims(LEDGER, finished))
    assert found.startswith(f"silver_loads and silver_watermarks: last claimed load 2, last finished load {finished} / ")


@pytest.mark.parametrize(
    ("ledger", "expected"),
    [
        ([claim(2)], "load 1: no row / a row: load 2 is there"),
        ([claim(1), claim(2, high_watermark_before=6)], "partition 0: watermark before (0, 6) / (0, 7), as the load before"),
        ([claim(1), claim(2, last_offset_before=8)], "partition 0: last_offset_before 8 / 9, as the load before left it"),
        ([claim(1), claim(2, high_watermark_after=5)], "partition 0: watermark after (0, 5) / not below (0, 7)"),
        ([claim(1), claim(2, bronze_after_version=0)], "load 2: bronze_after_version 0 / 1, where the load before ended"),
        ([claim(1), claim(2), claim(2)], "load 2, topic t, partition 0: 2 rows / one row"),
        ([claim(1, pipeline="other")], "load 1: pipeline other / pipeline tests"),
    ],
)
def test_a_broken_chain_is_named_by_its_load(ledger: list[Row], expected: str) -> None:
    assert any(expected in each for each in told(ledger_checks.chain(ledger, "tests")))


def test_a_reset_may_lower_a_watermark_and_the_next_load_goes_on_from_there() -> None:
    moved = {"kind": "reset", "records": 0, "accepted": 0, "duplicate": 0, "bronze_to_version": 1, "last_offset": 9}
    ledger = [claim(1), claim(2, **moved, high_watermark_after=3)]
    after = claim(3, high_watermark_before=3, high_watermark_after=10, last_offset_before=9, bronze_after_version=1)

    assert told(ledger_checks.chain([*ledger, after], "tests")) == []
    assert told(ledger_checks.reach(ledger, [kept(1, 1, 7)])) == []


@pytest.mark.parametrize(
    ("edited", "expected"),
    [
        ({"accepted": 8}, "11 records in all classes / 10"),
        ({"kind": "release"}, "10 records of Bronze / none"),
        ({"released": 1}, "1 released / none: the load is of kind records"),
        ({"late_accepted": 2}, "late_accepted"),
        ({"missing": -5}, "-5 missing sequences: more records were accepted than the stream has sequences / 0 or more"),
    ],
)
def test_an_edited_count_is_named(edited: dict[str, Any], expected: str) -> None:
    found = told(ledger_checks.sums([claim(1), claim(2, **edited)]))
    assert found[0].startswith("silver_loads, load 2, topic t, partition 0: ")
    assert expected in found[0]


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ([mark(high_watermark=15)], "high_watermark 15 / high_watermark 14, as load 2 left it"),
        ([], "no row / that of load 2"),
        ([mark(), mark(partition=1)], "a row / none"),
    ],
)
def test_a_watermark_that_no_load_left_there_is_named(marks: list[Row], expected: str) -> None:
    found = told(ledger_checks.marks(LEDGER, marks))
    assert len(found) == 1
    assert found[0].startswith("silver_watermarks, topic t, partition ")
    assert found[0].endswith(expected)


def test_rows_that_silver_lacks_or_nobody_loaded_are_named_by_load() -> None:
    found = told(ledger_checks.records(LEDGER, [kept(1, 1, 7), kept(2, 8, 13), kept(9, 20, 20), kept(None, 21, 21)]))
    assert found == [
        "silver_records, load None, topic t, partition 0: 1 rows / 0, as the ledger counts them",
        "silver_records, load 2, topic t, partition 0: 6 rows / 7, as the ledger counts them",
        "silver_records, load 9, topic t, partition 0: 1 rows / 0, as the ledger counts them",
    ]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([kept(2, 7, 14)], "(0, 7) in order / (epoch, sequence) above (0, 7)"),
        ([kept(2, 8, 14, falls=1)], "1 places where rows in order fall"),
        ([kept(2, 8, 15)], "highest row (0, 15) / (0, 14), the watermark after the load"),
    ],
)
def test_rows_that_do_not_lead_to_the_watermark_are_named(rows: list[Row], expected: str) -> None:
    assert any(expected in each for each in told(ledger_checks.reach(LEDGER, [kept(1, 1, 7), *rows])))


def test_what_was_kept_out_is_counted_by_class_and_by_who_settled_it() -> None:
    discard = {"kind": "discard", "records": 0, "accepted": 0, "duplicate": 0, "discarded": 1}
    ledger = [claim(1, accepted=6, invalid=1), claim(2, **discard)]
    invalid = {"class": "invalid", "records": 1}

    sound = [reject(1), reject(1, **invalid, state="discarded", settled_load_seq=2)]
    assert told(reject_checks.compare(ledger, sound)) == []
    assert told(reject_checks.compare(ledger, [reject(1, records=2), sound[1]])) == [
        "silver_rejects, load 1, topic t, partition 0, class duplicate: 2 records / 3, as the ledger counts them"
    ]
    assert told(reject_checks.compare(ledger, [reject(1), reject(1, **invalid, state="held")])) == [
        "silver_rejects, settled by load 2, topic t, partition 0: 0 records / 1, as the ledger counts them"
    ]
    released = [reject(1), reject(1, **invalid, state="released", settled_load_seq=2)]
    assert "1 records released, by load 2 / held, or settled by a load" in told(reject_checks.compare(ledger, released))[0]


def test_a_sequence_that_stands_twice_is_named() -> None:
    word = {**STREAM, "epoch": 0, "first_sequence": 64, "last_sequence": 127, "rows": 65, "sequences": 64}
    assert told(ledger_checks.repeats([word])) == [
        "silver_records, topic t, partition 0, epoch 0, sequences 64 to 127: 65 rows / 64, one for each sequence"
    ]
