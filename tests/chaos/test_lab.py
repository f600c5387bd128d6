"""The chaos lab, briefly: a leader is killed under three senders, and Silver keeps each number once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.chaos.lab import Lab
from tests.chaos.results import faults_of
from tests.chaos.setting import RECORDS, Planned, Setting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.chaos.results import Row

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.fault, pytest.mark.slow]

WITHOUT, WITH, KIT = (
    Setting("java", "all", False, 5, "leader_killed"),
    Setting("java", "all", True, 5, "leader_killed"),
    Setting("kit", "all", True, 5, "leader_killed"),
)


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> dict[Setting, Row]:
    with Lab() as lab:
        ran = [lab.run(Planned(setting, 1), RECORDS) for setting in (WITHOUT, WITH, KIT)]
        return {row.setting: row for row in lab.through_tables(spark, ran)}


def test_without_idempotence_a_killed_leader_turns_the_order_and_order_says_why(rows: dict[Setting, Row]) -> None:
    row = rows[WITHOUT]

    assert (row.JB > 0, row.DJF, row.NotReceived, row.Findings) == (True, 0, 0, "reordering")


@pytest.mark.parametrize("setting", [WITH, KIT], ids=["idempotence", "the kit"])
def test_with_idempotence_and_by_the_kit_every_record_is_there_once_and_in_order(
    rows: dict[Setting, Row], setting: Setting
) -> None:
    row = rows[setting]

    assert (row.PosAckCount, row.Received, row.MsgsWithDups, row.JF, row.JB) == (RECORDS, RECORDS, 0, 0, 0)


def test_the_tables_hold_what_the_topics_do_and_nothing_twice(rows: dict[Setting, Row]) -> None:
    for row in rows.values():
        assert (row.Silver + row.Held, row.SilverAccept, row.Gold) == (RECORDS, RECORDS, RECORDS)
    assert [fault for fault in faults_of(list(rows.values())) if "no duplicate in" not in fault] == []
