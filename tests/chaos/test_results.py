"""The marks of the chaos lab's runs, their file, and their page."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.chaos import results
from tests.chaos.page import CSV, PAGE, page
from tests.chaos.results import Row
from tests.chaos.setting import matrix, plan

if TYPE_CHECKING:
    from pathlib import Path

CLEAN = Row(
    *("java", "all", "on", 5, "leader_killed", 20, 1),
    *(150, 150, 0, 150, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    *(150, 150, 0, 0, 0, 150, 0, 150),
    *("none", "", 15.2, 1.5, "2026-11-26T20:00:00Z"),
)
OF_PULSAR = replace(
    CLEAN, Sender="pulsar", InFlight=0, Delay=100, Received=160, MsgsWithDups=10, DJB=1, Idempotence="off", Bronze=165
)
TURNED = replace(CLEAN, Idempotence="off", Received=158, MsgsWithDups=8, DJB=1, JF=2, JB=3, Findings="reordering")


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "runs.csv"
    results.append(file, [CLEAN])
    results.append(file, [TURNED])
    assert results.read(file) == [CLEAN, TURNED]


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
        (replace(OF_PULSAR, Findings="client_retries"), ""),
        (replace(OF_PULSAR, Idempotence="on"), "twice or out of order"),
        (replace(OF_PULSAR, MsgsWithDups=0, DJB=0), "no duplicate in 1 runs"),
        (replace(OF_PULSAR, JB=1), "jumps other than back to a number that came before"),
    ],
)
def test_a_run_that_misses_a_mark_is_named(row: Row, expected: str) -> None:
    missed = results.missed_marks([TURNED, row])
    assert (expected in " ".join(missed)) if expected else missed == []


@pytest.mark.parametrize(
    ("row", "is_named"),
    [
        (CLEAN, True),
        (TURNED, True),
        (replace(TURNED, Findings="none"), False),
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


def test_a_plan_has_each_run_once_and_the_articles_settings_in_turns() -> None:
    planned = plan(3, 1, 2)
    assert len({each.topic for each in planned}) == len(planned) == 3 * 4 + len(list(matrix())) + 2 * 4
    assert [each.nth for each in planned[:12]] == [1] * 4 + [2] * 4 + [3] * 4


def test_the_page_has_the_rows_of_pulsar_and_names_missed_marks() -> None:
    text = page([CLEAN, TURNED, OF_PULSAR, replace(OF_PULSAR, Fault="tcp_killed", NotReceived=2)], ["broken"])
    assert "| Pulsar, owner killed | article | 50 | 13 | 25,610 | 10,000 | 0 / 13 / 0 / 0 | 0 | 0 |" in text
    assert "| Pulsar, owner killed | ours | 1 | 1 | 10 | 10 | 0 / 1 / 0 / 0 | 0 | 0 |" in text
    assert "| Pulsar, TCP killed | ours | 1 | 1 | 10 | 10 | 0 / 1 / 0 / 0 | 0 | 2 |" in text
    assert "brought\n10 records into Kafka once more" in text
    assert "MISSED MARKS:\n\n- broken" in text


def test_the_committed_page_follows_from_the_committed_rows() -> None:
    rows = results.read(CSV)
    missed = results.missed_marks(rows)
    committed, made = (
        [line for line in text.splitlines() if not line.startswith("- Kafka ")]  # the machine that writes the page
        for text in (PAGE.read_text(encoding="utf-8"), page(rows, missed))
    )
    assert committed == made
    assert missed == []
