"""What `tidemark verify` looks at, over few rows."""

from lakehouse.contracts.gate import Rejected
from lakehouse.contracts.silver import RECORDS
from pipelines.verify.snapshot import Pins


def test_the_ledger_is_gone_through_once_however_many_of_its_rows_are_compared() -> None:
    rows = [{"topic": "t", "partition": 0, "load_seq": load, "kind": RECORDS, "last_offset": load} for load in (1, 2)]
    once = iter(rows)
    pins = Pins(2, 1, watermarks=[], ledger=once, versions={}, rejected=Rejected())  # type: ignore[arg-type] # no second time
    for _ in range(10):
        assert (pins.published, pins.loads, pins.last_offsets) == (1, rows, {("t", 0): 2})
