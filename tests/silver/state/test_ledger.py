"""The ledger takes nothing that would keep a record twice."""

import pytest

from lakehouse.errors import ConservationError
from silver.model import Segment
from silver.state import ledger
from silver.state.watermarks import Watermark, Watermarks

STREAM = ("t", 0, "")


@pytest.mark.parametrize(
    ("segment", "expected"),
    [
        (Segment(STREAM, 0, "accepted", None, 0, 9, 8, 12, 10), "sequences 8 to 12"),
        (Segment(STREAM, 0, "accepted", None, 0, 5, 7, 12, 6), "above (epoch, sequence) (0, 7)"),
    ],
    ids=["more records than sequences", "not above the watermark"],
)
def test_more_accepted_records_than_sequences_above_the_watermark_are_refused(segment: Segment, expected: str) -> None:
    known = Watermarks({STREAM: Watermark(0, 7, 20, 1, "rules")})

    with pytest.raises(ConservationError, match="accepted than it has sequences") as refused:
        ledger.stream_loads([segment], [], known)

    assert expected in str(refused.value)
    assert "producer ''" in str(refused.value)
