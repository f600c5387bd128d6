"""What `tidemark verify` looks at, over few rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse.contracts.gate import Rejected
from lakehouse.contracts.silver import RECORDS
from pipelines.verify.snapshot import Pins

if TYPE_CHECKING:
    from collections.abc import Iterator


class CountedLedger(list[dict[str, Any]]):
    """The ledger's rows; how often they were gone through."""

    passes = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        self.passes += 1
        return super().__iter__()


def test_the_ledger_is_gone_through_once_however_many_of_its_rows_are_compared() -> None:
    ledger = CountedLedger(
        {"topic": "t", "partition": 0, "load_seq": load, "kind": RECORDS, "last_offset": load} for load in (1, 2)
    )
    pins = Pins(finished=2, published_to=1, watermarks=[], ledger=ledger, versions={}, rejected=Rejected())
    for _ in range(10):
        assert (pins.published, len(pins.loads), pins.last_offsets) == (1, 2, {("t", 0): 2})
    assert ledger.passes == 1
