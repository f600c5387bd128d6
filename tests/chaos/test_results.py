"""The marks of the chaos lab's runs, their file, and their page."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from tests.chaos import results
from tests.chaos.results import Row, plan
from tests.chaos.run import CSV, PAGE, page

NOTHING: dict[str, Any] = {each.name: 0 for each in fields(Row) if each.kw_only} | {"Findings": "none", "Wrong": "", "At": ""}
CLEAN = Row("java", "all", "on", 5, "leader_killed", **NOTHING)
TURNED = replace(CLEAN, Idempotence="off", MsgsWithDups=8, DJB=1, JF=2, JB=3, Findings="reordering")


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (TURNED, ""),
        (replace(CLEAN, JB=1), "twice or out of order"),
        (replace(CLEAN, NotReceived=3), "3 records that all replicas had acknowledged are lost"),
        (replace(CLEAN, Wrong="Gold is not Silver"), "Gold is not Silver"),
        (replace(CLEAN, Findings="resends"), "without a reason"),
        (replace(TURNED, JB=0), "only 1 of 2 runs without idempotence jump backwards"),
        (replace(TURNED, Findings="none"), "names the cause in 1 of 2 runs"),
        (replace(TURNED, Fault="tcp_killed", MsgsWithDups=0), "tcp_killed: no duplicate in 1 runs"),
    ],
)
def test_a_run_that_misses_a_mark_is_named(row: Row, expected: str) -> None:
    missed = results.missed_marks([TURNED, row])
    assert (expected in " ".join(missed)) if expected else missed == []
    assert ("MISSED MARKS" in page([TURNED, row], missed)) == bool(missed)


@pytest.mark.parametrize(
    ("row", "is_named"),
    [
        (CLEAN, True),
        (replace(TURNED, JB=0, Findings="client_retries"), True),
        (replace(TURNED, JB=0, Findings="resends"), False),
        (replace(CLEAN, Acks="0", Idempotence="off", Missing=9, Gap=9, JF=1, Findings="lost"), True),
        (replace(CLEAN, Acks="0", Idempotence="off", Missing=9, Gap=9, JF=1), False),
        (replace(CLEAN, Acks="0", Idempotence="off", Missing=9), True),  # lost at the end, which nobody can see
        (replace(TURNED, Acks="1", Missing=9, Gap=9, Findings="reordering lost"), True),
    ],
)
def test_a_finding_is_right_if_it_names_the_cause_of_the_traces(row: Row, *, is_named: bool) -> None:
    assert row.is_named is is_named


def test_the_committed_rows_are_the_plans_and_the_committed_page_follows_from_them(tmp_path: Path) -> None:
    rows = results.read(CSV)
    planned = plan(50, 1)
    assert len({each.topic for each in planned} & {row.topic for row in rows}) == len(planned)  # each of them once
    assert [each.TestRun for each in plan(3, 0)] == [1] * 4 + [2] * 4 + [3] * 4  # in turns
    results.append(tmp_path / "runs.csv", rows[:1])
    results.append(tmp_path / "runs.csv", rows[1:])
    assert (tmp_path / "runs.csv").read_bytes() == CSV.read_bytes()
    missed = results.missed_marks(rows)
    committed, made = (
        [line for line in text.splitlines() if not line.startswith("- Kafka ")]  # the machine that writes the page
        for text in (PAGE.read_text(encoding="utf-8"), page(rows, missed))
    )
    assert committed == made
    assert missed == []
