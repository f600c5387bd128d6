"""What waits in quarantine, read without Spark."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakehouse.contracts.bronze import BRONZE
from lakehouse.contracts.silver import LOADS, REJECTS
from lakehouse.extract.sources import Source
from lakehouse.table import Lakehouse
from silver.rules import Rules
from silver.state.request import RecordFilter
from tests.support.small_config import write_config
from tests.support.small_tables import write_rows
from tests.tidemark.conftest import RunCommand
from tidemark.readers.quarantine import held

NOW = datetime.now(UTC)


def reject(offset: int, kind: str, *, load_seq: int = 1, state: str = "held", **named: Any) -> dict[str, Any]:
    place = {"topic": "t", "partition": 0, "first_offset": offset, "last_offset": offset, "records": 1}
    return {**place, "class": kind, "load_seq": load_seq, "state": state, **named}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "lakehouse"
    rows = [
        reject(5, "late", first_sequence=3),
        reject(1, "invalid", reason="sequence_missing"),
        reject(7, "duplicate", state="discarded"),
        reject(8, "late", state="released"),
        reject(9, "collision", load_seq=2, producer="p\x1b[31m"),
        reject(2, "late", partition=1, load_seq=2),
    ]
    write_rows(folder, REJECTS, rows)
    claims = [{"load_seq": 1, "claimed_at": NOW - timedelta(days=3)}, {"load_seq": 2, "claimed_at": NOW}]
    shared = {"topic": "t", "partition": 0, "last_offset": 9, "rules": Rules(Source("offset")).to_json()}
    write_rows(folder, LOADS, [{**shared, **claim} for claim in claims])
    write_rows(folder, BRONZE, [{"topic": "t", "partition": 0, "offset": 5, "value": b"\xff\x00", "key": b"k", "headers": []}])
    write_config(tmp_path, root=str(folder))
    return folder


def test_only_what_is_held_is_listed_by_class_stream_and_age(root: Path) -> None:
    for wanted, places in (
        (RecordFilter(), [(0, 1), (0, 5), (0, 9), (1, 2)]),
        (RecordFilter(kind="late"), [(0, 5), (1, 2)]),
        (RecordFilter(partition=1), [(1, 2)]),
        (RecordFilter(producer="p\x1b[31m"), [(0, 9)]),
        (RecordFilter(days=1), [(0, 1), (0, 5)]),
        (RecordFilter(topic="other"), []),
    ):
        listed = [(row["partition"], row["first_offset"]) for row in held(Lakehouse(root=str(root)), wanted)[0]]
        assert listed == places, wanted


@pytest.mark.usefixtures("root")
def test_a_record_is_shown_with_its_bytes_and_people_read_a_table_with_a_count(run_command: RunCommand) -> None:
    found = json.loads(run_command("quarantine", "show", "t", "0", "5", "--json")[0])
    assert (found["class"], found["sequence"], found["state"], found["load"]["load_seq"]) == ("late", 3, "held", 1)
    assert (found["record"]["key"], found["record"]["value"]) == ("k", "0xff00")
    assert "4 records wait." in run_command("quarantine", "list")[0]
