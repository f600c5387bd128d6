"""`order` tells a block that the client sent again by itself from one that an application did: by its timestamps."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from lakehouse.run.context import Run
from pipelines.arrival_order import orders
from silver.audit.arrival_order import diagnose
from tests.support.bronze import Record, put
from tests.support.small_config import settings_of

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("created_tables")]

_AT = datetime(2026, 11, 26, 20, tzinfo=UTC)


def sent(partition: int, *numbers: tuple[int, datetime | None]) -> list[Record]:
    made = [(Record.of(offset, number, partition=partition), at) for offset, (number, at) in enumerate(numbers)]
    return [replace(record, timestamp=at) for record, at in made]


def test_a_block_is_a_retry_if_it_has_the_timestamps_of_its_first_copy(spark: SparkSession, run: Run) -> None:
    first = [(number, _AT + timedelta(milliseconds=number)) for number in (1, 2, 3)]
    later = [(number, at + timedelta(seconds=9)) for number, at in first]
    unknown = [(number, None) for number, _ in first]
    put(spark, run, [*sent(0, *first, *first), *sent(1, *first, *later), *sent(2, *unknown, *unknown), *sent(3, *first[::2])])

    found = orders(spark, run, settings_of(run))["bronze"]
    contiguous = orders(spark, run, settings_of(run, policies={"contiguous": True}))["bronze"]

    assert {order.stream[1]: [jump.is_retry for jump in order.jumps] for order in found} == {
        0: [True],
        1: [False],
        2: [None],
        3: [None],  # a gap
    }
    named = [["client_retries"], ["resends"], ["resends"], []]
    assert [[finding.name for finding in diagnose(order)] for order in found] == named
    assert [finding.name for finding in diagnose(contiguous[3])] == ["lost"]  # what is missing where nothing may be
