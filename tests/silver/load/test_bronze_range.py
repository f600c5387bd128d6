"""What a load reads of Bronze: what is not decided yet, and no file in which all is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.delta import tables
from lakehouse.table import BRONZE_RECORDS
from silver.load import bronze_range
from tests.support.bronze import Record, put

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run

_PLACES = [(topic, partition, offset) for topic in ("a", "b") for partition in range(20) for offset in range(8)]


@pytest.mark.spark
def test_a_file_of_several_partitions_that_are_decided_is_not_read(spark: SparkSession, run: Run) -> None:
    for first in (0, 5):
        put(
            spark,
            run,
            [Record.of(first + nth, first + nth, partition=partition) for nth in range(5) for partition in (0, 1, 2)],
        )
    version = tables.version(spark, run.table(BRONZE_RECORDS))
    pinned = bronze_range.pin(spark, run, after_version=version - 1, above={("t", partition): 4 for partition in (0, 1, 2)})

    records = bronze_range.read(spark, run, pinned)

    assert sorted((row["partition"], row["offset"]) for row in records.collect()) == [
        (partition, offset) for partition in (0, 1, 2) for offset in range(5, 10)
    ]
    assert len(records.inputFiles()) < len(tables.read(spark, run.table(BRONZE_RECORDS), version=version).inputFiles())


@pytest.mark.spark
@pytest.mark.parametrize("is_few", [True, False])
def test_records_before_and_behind_hundreds_that_are_decided_are_read(spark: SparkSession, run: Run, *, is_few: bool) -> None:
    partitions = [0] * 100 + [1] * 300 + [2] * 100
    put(spark, run, [Record.of(nth, nth, partition=partition) for nth, partition in enumerate(partitions)])
    pinned = bronze_range.pin(spark, run, after_version=-1, above={("t", 1): 399})

    records = bronze_range.read(spark, run, replace(pinned, is_few=is_few))

    undecided = [(partition, nth) for nth, partition in enumerate(partitions) if partition != 1]
    assert sorted((row["partition"], row["offset"]) for row in records.collect()) == undecided


@given(st.dictionaries(st.tuples(st.sampled_from("ab"), st.integers(0, 19)), st.integers(0, 7)))
def test_what_partitions_have_decided_together_is_what_each_of_them_has(above: dict[tuple[str, int], int]) -> None:
    together = bronze_range.decided_places(above)

    found = [
        place
        for topic, first, last, up_to in together
        for place in _PLACES
        if place[0] == topic and first <= place[1] <= last and place[2] <= up_to
    ]
    assert all(offset <= above[topic, partition] for topic, partition, offset in found)
    assert {place for place in _PLACES if place[2] <= above.get(place[:2], -1)} == set(found)
