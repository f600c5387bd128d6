"""A Bronze of version 0.1, which has no column `timestamp_ms`: it gets it with the next ingest, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from jobs.readers.why import why
from lakehouse.contracts.bronze import BRONZE
from lakehouse.delta import tables
from lakehouse.protocol import bronze_owner
from tests.support.bronze import Record, put
from tests.support.small_config import settings_of
from tests.support.stages import ran, require_sound

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run

pytestmark = pytest.mark.spark


def test_a_bronze_of_0_1_is_read_without_the_column_and_continued_with_it(
    spark: SparkSession, new_run: Callable[[], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run()
    settings, bronze = settings_of(run), run.table("bronze_records")
    of_0_1 = replace(BRONZE, columns=tuple(column for column in BRONZE.columns if not column.is_added_later))
    assert [column.name for column in BRONZE.columns if column.is_added_later] == ["timestamp_ms"]
    with monkeypatch.context() as patch:
        patch.setattr("tests.support.bronze.BRONZE", of_0_1)
        put(spark, run, [Record.of(0, 1), Record.of(1, 2)])
        assert ran(spark, run, settings)["accepted"] == 2
        put(spark, run, [Record.of(2, 3)])
    assert "timestamp_ms" not in spark.read.table(bronze.sql).columns
    assert why(run.lakehouse, "t", 0, 0)["timestamp_ms"] is None

    bronze_owner.create_bronze(spark, run)
    version = tables.version(spark, bronze)
    bronze_owner.create_bronze(spark, new_run())
    assert tables.version(spark, bronze) == version
    assert spark.read.table(bronze.sql).columns == BRONZE.names
    # Records that were read again are counted off the change feed, across the version that brought the column.
    put(spark, run, [Record.of(1, 2), Record.of(2, 3), replace(Record.of(3, 4), timestamp=None)])
    done = ran(spark, new_run(), settings)
    assert (done["accepted"], done["replay"]) == (2, 2)
    require_sound(spark, new_run(), is_deep=True)
