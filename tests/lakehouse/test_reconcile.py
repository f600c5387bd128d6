"""Silver's records and watermarks held against the ledger, on literal rows."""

from collections.abc import Sequence

import pytest

from lakehouse import reconcile
from lakehouse.reconcile import Difference
from tests.support.silver_rows import KEPT, LEDGER, Row, as_lines, claim, kept, mark


def of_counts(**edited: int | str) -> list[Difference]:
    return [*reconcile.classes_add_up([claim(1), claim(2, **edited)])]


def of_marks(*marks: Row) -> list[Difference]:
    return [*reconcile.watermarks_match(LEDGER, marks)]


def of_rows(silver: Sequence[Row], ledger: Sequence[Row] = LEDGER) -> list[Difference]:
    return [*reconcile.sequences_rise(ledger, silver), *reconcile.watermarks_are_reached(ledger, silver)]


COUNTS, ROWS, MARKS = (f"silver_{name}, topic t, partition 0: " for name in ("loads, load 2", "records, load 2", "watermarks"))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (of_counts(accepted=8), f"{COUNTS}11 records in all classes / 10, the row's records"),
        (of_counts(kind="release"), f"{COUNTS}10 records of Bronze / none: the load is a release"),
        (of_counts(released=1), f"{COUNTS}1 released / none: the load is of kind records"),
        (
            of_counts(late_accepted=2),
            f"{COUNTS}counts below 0, or late_accepted that is neither 0 nor late / counts of records",
        ),
        (
            of_counts(missing=-5),
            f"{COUNTS}-5 missing sequences: more records were accepted than the stream has sequences / 0 or more",
        ),
        (of_marks(mark(high_watermark=15)), f"{MARKS}high_watermark 15 / high_watermark 14, as load 2 left it"),
        (of_marks(), f"{MARKS}no row / that of load 2"),
        (of_marks(mark(), mark(partition=1)), "silver_watermarks, topic t, partition 1: a row / none"),
        (
            of_rows([KEPT[0], kept(2, 7, 14)]),
            f"{ROWS}(0, 7) in order / (epoch, sequence) above (0, 7), the highest before the load",
        ),
        (
            of_rows([KEPT[0], kept(2, 8, 14, not_increasing=1)]),
            f"{ROWS}1 places where rows in order fall / sequences that rise with the offsets",
        ),
        (of_rows([KEPT[0], kept(2, 8, 15)]), f"{ROWS}highest row (0, 15) / (0, 14), the watermark after the load"),
    ],
)
def test_what_was_edited_is_named_with_its_place(found: list[Difference], expected: str) -> None:
    assert as_lines(found) == [expected]


def test_rows_that_silver_lacks_or_nobody_loaded_are_named_by_load() -> None:
    found = as_lines(reconcile.rows_match(LEDGER, [kept(1, 1, 7), kept(2, 8, 13), kept(9, 20, 20), kept(None, 21, 21)]))
    assert found == [
        "silver_records, load None, topic t, partition 0: 1 rows / 0, as the ledger counts them",
        "silver_records, load 2, topic t, partition 0: 6 rows / 7, as the ledger counts them",
        "silver_records, load 9, topic t, partition 0: 1 rows / 0, as the ledger counts them",
    ]


def test_after_a_reset_lowered_a_watermark_earlier_rows_do_not_count() -> None:
    moved = {"kind": "reset", "records": 0, "accepted": 0, "duplicate": 0, "last_offset": 9}
    after = claim(3, high_watermark_before=3, high_watermark_after=10)
    lowered = [claim(1), claim(2, **moved, high_watermark_after=3), after]
    assert of_rows([kept(1, 1, 7), kept(3, 4, 10)], lowered) == []

    unmoved = [claim(1), claim(2, high_watermark_before=3, high_watermark_after=10)]
    [found] = reconcile.sequences_rise(unmoved, [kept(1, 1, 7), kept(2, 4, 10)])
    assert found.expected == "(epoch, sequence) above (0, 7), the highest before the load"


def test_a_difference_says_by_how_much_in_which_stream_and_load() -> None:
    found = [
        *reconcile.rows_match([claim(1)], [kept(1, 1, 4)]),
        *reconcile.classes_add_up([claim(1, records=12)]),
        *reconcile.loads_are_there([claim(1), claim(3)], 3),
    ]
    stream = ("t", 0, None)
    assert [(each.stream, each.load_seq, each.count) for each in found] == [(stream, 1, 3), (stream, 1, 2), (None, 2, 1)]
