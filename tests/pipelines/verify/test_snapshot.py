"""What `tidemark verify` looks at, over few rows."""

from lakehouse.contracts.gate import Rejected
from lakehouse.contracts.silver import RECORDS
from pipelines.verify.snapshot import VerifySnapshot


def test_the_ledger_is_gone_through_once_however_many_of_its_rows_are_compared() -> None:
    rows = [{"topic": "t", "partition": 0, "load_seq": load, "kind": RECORDS, "last_offset": load} for load in (1, 2)]
    once = iter(rows)
    snapshot = VerifySnapshot(2, 1, watermarks=[], ledger=once, versions={}, rejected=Rejected())  # type: ignore[arg-type] # no second time
    for _ in range(10):
        assert (snapshot.published, snapshot.loads, snapshot.last_offsets) == (1, rows, {("t", 0): 2})
