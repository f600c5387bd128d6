"""How the runs of the chaos lab are judged, and kept between sittings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.chaos import results
from tests.chaos.page import page
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


def test_rows_come_back_from_the_file_as_they_were(tmp_path: Path) -> None:
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
        (replace(CLEAN, Wrong="Silver holds not what it has to"), "Silver holds not"),
        (replace(CLEAN, Findings="resends"), "without a reason"),
        (replace(TURNED, JB=0), "a jump backwards in no more than 1 of 2 runs"),
        (replace(OF_PULSAR, Findings="client_retries"), ""),
        (replace(OF_PULSAR, Idempotence="on"), "twice or out of order"),
        (replace(OF_PULSAR, MsgsWithDups=0, DJB=0), "no duplicate in 1 runs"),
        (replace(OF_PULSAR, JB=1), "jumps other than back to what was read before"),
    ],
    ids=[
        *("as it has to be", "an idempotent client reorders", "acknowledged and lost", "a table", "a false finding", "no jump"),
        *("Pulsar", "Pulsar deduplicates", "Pulsar without a duplicate", "Pulsar reorders"),
    ],
)
def test_a_run_that_does_not_hold_a_mark_is_named(row: Row, expected: str) -> None:
    faults = results.faults_of([TURNED, row])

    assert (expected in " ".join(faults)) if expected else faults == []


@pytest.mark.parametrize(
    ("row", "is_told"),
    [
        (CLEAN, True),
        (TURNED, True),
        (replace(TURNED, Findings="none"), False),
        (replace(TURNED, JB=0, Findings="client_retries"), True),
        (replace(TURNED, JB=0, Findings="resends"), False),
        (replace(CLEAN, Acks="0", Idempotence="off", Missing=9, Gap=9, JF=1, Findings="lost"), True),
        (replace(CLEAN, Acks="0", Idempotence="off", Missing=9, Gap=9, JF=1), False),
        (replace(CLEAN, Acks="0", Idempotence="off", Missing=9), True),
        (replace(TURNED, Acks="1", Missing=9, Gap=9, Findings="reordering lost"), True),
    ],
    ids=["clean", "turned", "missed", "again", "for a restart", "lost", "lost, missed", "lost at the end", "both"],
)
def test_a_finding_is_right_where_it_names_what_the_setting_made(row: Row, *, is_told: bool) -> None:
    assert row.is_told is is_told


def test_a_plan_has_each_run_once_and_the_articles_settings_in_turns() -> None:
    planned = plan(3, 1, 2)

    assert len({each.topic for each in planned}) == len(planned) == 3 * 4 + len(list(matrix())) + 2 * 4
    assert [each.nth for each in planned[:12]] == [1] * 4 + [2] * 4 + [3] * 4


def test_the_page_has_pulsars_rows_beside_the_articles() -> None:
    told = page([CLEAN, TURNED, OF_PULSAR, replace(OF_PULSAR, Fault="tcp_killed", NotReceived=2)], [])

    assert "| owner killed | article | 50 | 13 | 25,610 / 10,000 | 0 / 13 / 0 / 0 | 0 | 0 |" in told
    assert "| owner killed | ours | 1 | 1 | 10 / 10 | 0 / 1 / 0 / 0 | 0 | 0 |" in told
    assert "| TCP killed | ours | 1 | 1 | 10 / 10 | 0 / 1 / 0 / 0 | 0 | 2 |" in told
    assert "brought 10 records\ninto Kafka once more" in told


def test_the_page_names_what_is_not_as_it_has_to_be() -> None:
    assert "NOT" not in page([CLEAN, TURNED], [])
    assert "NOT AS IT HAS TO BE:\n\n- broken" in page([CLEAN, TURNED], ["broken"])
