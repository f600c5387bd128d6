"""Change events of overlapping transactions, and a restart: what is read of them, and what is decided. Pure."""

import pyarrow as pa
import pytest

from lakehouse.extract import on_driver
from lakehouse.extract.on_driver import Record
from lakehouse.extract.sources import Source
from silver.decide.kernel import decide
from silver.rules import Rules
from silver.state.watermarks import Watermarks
from tests.support.change_events import as_bytes, history


@pytest.mark.parametrize("database", ["mysql", "sqlserver"])
def test_resent_events_of_overlapping_transactions_are_suspects_of_their_originals(database: str) -> None:
    events = [as_bytes(each) for each in history(database)]
    sent = [*events[:130], *events[90:]]  # a connector that is killed, and restarted forty events before
    rules = Rules(Source("debezium", database), epoch=Source("debezium_epoch", database))
    read = [
        [
            on_driver.number(source, Record(value, offset=offset))
            for source in (Source("debezium_epoch", database), rules.sequence)
        ]
        for offset, value in enumerate(sent)
    ]
    assert {problem for each in read for _, problem in each} == {None}
    positions = [(epoch, sequence) for (epoch, _), (sequence, _) in read]
    nothing = pa.nulls(len(sent), pa.string())
    keys = {"topic": ["t"] * len(sent), "partition": [0] * len(sent), "producer": nothing, "problem": nothing}
    epochs, sequences = zip(*positions, strict=True)
    found = decide(
        pa.table({**keys, "offset": range(len(sent)), "epoch": epochs, "sequence": sequences}), Watermarks({}), rules, {}
    )

    counted = found.segments.group_by("class").aggregate([("records", "sum")]).to_pylist()
    assert {row["class"]: row["records_sum"] for row in counted} == {"accepted": len(events), "suspect": 40}
    assert found.suspects["offset"].to_pylist() == [*range(130, 170)]
    original = dict(reversed([*zip(positions, sent, strict=True)]))
    assert [sent[offset] == original[positions[offset]] for offset in range(130, 170)] == [True] * 40
