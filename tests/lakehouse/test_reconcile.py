"""Silver's records and watermarks held against the ledger, on literal rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakehouse import reconcile
from tests.support.silver_rows import KEPT, LEDGER, claim, kept, mark, told

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.reconcile import Difference
    from tests.support.silver_rows import Row


def differences(ledger: Sequence[Row], silver: Sequence[Row]) -> list[Difference]:
    return [*reconcile.sequences_rise(ledger, silver), *reconcile.watermarks_are_reached(ledger, silver)]


def test_sound_tables_differ_in_nothing() -> None:
    assert [*reconcile.loads_are_there(LEDGER, 2), *reconcile.classes_add_up(LEDGER), *reconcile.rows_match(LEDGER, KEPT)] == []
    assert [*differences(LEDGER, KEPT), *reconcile.watermarks_match(LEDGER, [mark()])] == []


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
    found = told(reconcile.classes_add_up([claim(1), claim(2, **edited)]))
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
    found = told(reconcile.watermarks_match(LEDGER, marks))
    assert len(found) == 1
    assert found[0].startswith("silver_watermarks, topic t, partition ")
    assert found[0].endswith(expected)


def test_rows_that_silver_lacks_or_nobody_loaded_are_named_by_load() -> None:
    found = told(reconcile.rows_match(LEDGER, [kept(1, 1, 7), kept(2, 8, 13), kept(9, 20, 20), kept(None, 21, 21)]))
    assert found == [
        "silver_records, load None, topic t, partition 0: 1 rows / 0, as the ledger counts them",
        "silver_records, load 2, topic t, partition 0: 6 rows / 7, as the ledger counts them",
        "silver_records, load 9, topic t, partition 0: 1 rows / 0, as the ledger counts them",
    ]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([kept(2, 7, 14)], "(0, 7) in order / (epoch, sequence) above (0, 7)"),
        ([kept(2, 8, 14, not_increasing=1)], "1 places where rows in order fall"),
        ([kept(2, 8, 15)], "highest row (0, 15) / (0, 14), the watermark after the load"),
    ],
)
def test_rows_that_do_not_lead_to_the_watermark_are_named(rows: list[Row], expected: str) -> None:
    assert any(expected in each for each in told(differences(LEDGER, [kept(1, 1, 7), *rows])))


def test_after_a_reset_lowered_a_watermark_earlier_rows_do_not_count() -> None:
    moved = {"kind": "reset", "records": 0, "accepted": 0, "duplicate": 0, "last_offset": 9}
    after = claim(3, high_watermark_before=3, high_watermark_after=10)

    lowered = [claim(1), claim(2, **moved, high_watermark_after=3), after]
    assert differences(lowered, [kept(1, 1, 7), kept(3, 4, 10)]) == []

    unmoved = [claim(1), claim(2, high_watermark_before=3, high_watermark_after=10)]
    (found,) = reconcile.sequences_rise(unmoved, [kept(1, 1, 7), kept(2, 4, 10)])
    assert (found.observed, found.expected) == (
        "(0, 4) in order",
        "(epoch, sequence) above (0, 7), the highest before the load",
    )


def test_a_difference_says_by_how_much_in_which_stream_and_load() -> None:
    (rows,) = reconcile.rows_match([claim(1)], [kept(1, 1, 4)])
    (classes,) = reconcile.classes_add_up([claim(1, records=12)])
    (load,) = reconcile.loads_are_there([claim(1), claim(3)], 3)

    stream = ("t", 0, None)
    assert [(each.stream, each.load_seq, each.count) for each in (rows, classes, load)] == [
        (stream, 1, 3),
        (stream, 1, 2),
        (None, 2, 1),
    ]
