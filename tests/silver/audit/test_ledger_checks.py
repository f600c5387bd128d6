"""The ledger takes no record twice, and is held against itself and the rejects, on literal rows."""

from typing import Any

import pyarrow as pa
import pytest

from lakehouse.errors import ConservationError
from silver.audit import ledger_checks
from silver.model import SEGMENT
from silver.state import ledger
from silver.state.watermarks import Watermark, Watermarks
from tests.support.silver_rows import LEDGER, STREAM, Row, as_lines, claim


def reject(load_seq: int, **named: Any) -> Row:
    row = {"load_seq": load_seq, "class": "duplicate", "state": "discarded", "settled_load_seq": None, "records": 3}
    return {**STREAM, **row, **named}


REJECTS = [reject(1), reject(2)]


def test_a_sound_ledger_and_rejects_violate_nothing() -> None:
    found = [
        *ledger_checks.claims(LEDGER, 2),
        *ledger_checks.claims(LEDGER, 1),
        *ledger_checks.chain(LEDGER, "tests"),
        *ledger_checks.rejects_match(LEDGER, REJECTS),
    ]
    assert found == []


@pytest.mark.parametrize("finished", [0, 3])
def test_a_ledger_and_watermarks_of_different_loads_are_named(finished: int) -> None:
    (found,) = as_lines(ledger_checks.claims(LEDGER, finished))
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
    assert any(expected in each for each in as_lines(ledger_checks.chain(ledger, "tests")))


def test_a_ledger_may_begin_above_load_1_after_a_rebuild_where_its_first_load_is_the_first_of_all() -> None:
    first, second = ({**claim(number), "load_seq": number + 3} for number in (1, 2))

    assert as_lines(ledger_checks.chain([first, second], "tests", first=4)) == []
    [lost] = as_lines(ledger_checks.chain([second], "tests", first=5))[:1]
    assert lost == "silver_loads, load 5: bronze_after_version 1 / -1, where the load before ended (-1 before the first)"


def test_a_reset_may_lower_a_watermark_and_the_next_load_goes_on_from_there() -> None:
    moved = {"kind": "reset", "records": 0, "accepted": 0, "duplicate": 0, "bronze_to_version": 1, "last_offset": 9}
    ledger = [claim(1), claim(2, **moved, high_watermark_after=3)]
    after = claim(3, high_watermark_before=3, high_watermark_after=10, last_offset_before=9, bronze_after_version=1)

    assert as_lines(ledger_checks.chain([*ledger, after], "tests")) == []


def test_what_was_kept_out_is_counted_by_class_and_by_who_settled_it() -> None:
    discard = {"kind": "discard", "records": 0, "accepted": 0, "duplicate": 0, "discarded": 1}
    ledger = [claim(1, accepted=6, invalid=1), claim(2, **discard)]
    invalid = {"class": "invalid", "records": 1}

    sound = [reject(1), reject(1, **invalid, state="discarded", settled_load_seq=2)]
    assert as_lines(ledger_checks.rejects_match(ledger, sound)) == []
    assert as_lines(ledger_checks.rejects_match(ledger, [reject(1, records=2), sound[1]])) == [
        "silver_rejects, load 1, topic t, partition 0, class duplicate: 2 records / 3, as the ledger counts them"
    ]
    assert as_lines(ledger_checks.rejects_match(ledger, [reject(1), reject(1, **invalid, state="held")])) == [
        "silver_rejects, settled by load 2, topic t, partition 0: 0 records / 1, as the ledger counts them"
    ]
    released = [reject(1), reject(1, **invalid, state="released", settled_load_seq=2)]
    found = as_lines(ledger_checks.rejects_match(ledger, released))
    assert "1 records released, by load 2 / held, or settled by a load" in found[0]


def test_a_sequence_that_stands_twice_is_named() -> None:
    word = {**STREAM, "epoch": 0, "first_sequence": 64, "last_sequence": 127, "rows": 65, "sequences": 64}
    assert as_lines(ledger_checks.repeats([word])) == [
        "silver_records, topic t, partition 0, epoch 0, sequences 64 to 127: 65 rows / 64, one for each sequence"
    ]


def blocks(*spans: tuple[int, int, int], **named: Any) -> list[Row]:
    """Blocks of duplicates, each from an offset up to another, with as many records; sequences are 100 above the offsets."""
    empty = {"epoch": 0, "reason": None, "content_sha256": None}
    return [
        reject(1, **empty, first_offset=first, last_offset=last, first_sequence=first + 100, last_sequence=last + 100)
        | {"records": records}
        | named
        for first, last, records in spans
    ]


@pytest.mark.parametrize(
    ("listed", "again", "differing"),
    [
        (blocks((5, 9, 5)), blocks((5, 7, 3), (8, 9, 2)), []),  # Bronze read offset 7 again, after the load
        (blocks((5, 7, 3), (8, 9, 2)), blocks((5, 9, 5)), []),  # it held 7 twice then, and compaction has made it one
        (blocks((5, 7, 3), (8, 9, 2)), blocks((5, 6, 2), (7, 9, 3)), []),
        (blocks((5, 9, 3)), blocks((5, 7, 2), (9, 9, 1)), []),  # other producers' records lie between
        (blocks((5, 9, 5)), blocks((5, 7, 3), (9, 9, 1)), [5, 5, 9]),
        (blocks((5, 9, 5)), blocks((5, 7, 3)), [5, 5]),
        (blocks((5, 7, 3), (8, 9, 2)), blocks((5, 7, 3)), [8]),
        (blocks((5, 5, 1), **{"class": "late"}), blocks((5, 5, 1)), [5, 5]),
        (blocks((5, 9, 5), state="held"), blocks((5, 7, 3), (8, 9, 2)), [5, 5, 8]),
        (blocks((5, 9, 5), producer="p"), blocks((5, 7, 3), (8, 9, 2), producer="q"), [5, 5, 8]),
    ],
    ids=["cut since", "joined since", "cut elsewhere", "turns", "hole", "end", "gone", "class", "state", "producer"],
)
def test_rejects_are_compared_by_offset_however_they_are_cut(listed: list[Row], again: list[Row], differing: list[int]) -> None:
    found = ledger_checks.other_rejects(1, listed, again)
    assert sorted(int(each.where.rpartition(" ")[2]) for each in found) == differing


NAMELESS = ("t", 0, "")


@pytest.mark.parametrize(
    ("segment", "expected"),
    [
        ({"last_offset": 9, "first_sequence": 8, "last_sequence": 12, "records": 10}, "sequences 8 to 12"),
        ({"last_offset": 5, "first_sequence": 7, "last_sequence": 12, "records": 6}, "above (epoch, sequence) (0, 7)"),
    ],
    ids=["more records than sequences", "not above the watermark"],
)
def test_more_accepted_records_than_sequences_above_the_watermark_are_refused(segment: Row, expected: str) -> None:
    known = Watermarks({NAMELESS: Watermark(0, 7, 20, 1, "rules")})
    accepted = {"topic": "t", "partition": 0, "producer": "", "epoch": 0, "class": "accepted", "first_offset": 0}

    with pytest.raises(ConservationError, match="accepted than it has sequences") as refused:
        ledger.stream_loads(pa.Table.from_pylist([accepted | segment], SEGMENT), pa.table({}), {}, known)

    assert expected in str(refused.value)
    assert "producer ''" in str(refused.value)
