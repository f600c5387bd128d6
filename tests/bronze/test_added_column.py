"""A Bronze of version 0.1 lacks some columns: it gets them with the next ingest, and nothing else changes."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from lakehouse.contracts.bronze import BRONZE
from lakehouse.delta import tables
from lakehouse.protocol import bronze_owner
from lakehouse.run.context import Run
from pipelines import bronze_to_silver, maintenance
from silver.rules import Rules
from tests.support.bronze import Record, put
from tests.support.small_config import settings_of
from tests.support.stages import ran, require_sound


def test_a_bronze_of_0_1_is_read_without_the_columns_and_continued_with_them(
    spark: SparkSession, new_run: Callable[[], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run()
    settings, bronze = settings_of(run), run.table("bronze_records")
    of_0_1 = replace(BRONZE, columns=tuple(column for column in BRONZE.columns if not column.is_added_later))
    with monkeypatch.context() as patch:
        patch.setattr("tests.support.bronze.BRONZE", of_0_1)
        patch.setattr("lakehouse.table.statistics", lambda _: {})
        put(spark, run, [Record.of(0, 1), Record.of(1, 2)])
        assert bronze_to_silver.run(spark, run, settings)["accepted"] == 2
        put(spark, run, [Record.of(2, 3)])
    added = {"timestamp_ms", "producer", "epoch", "sequence", "problem", "rules_fingerprint"}
    assert {*BRONZE.names} - {*spark.read.table(bronze.sql).columns} == added
    # Before the columns are there, the log can keep no statistics of them.
    maintained = {row["table"]: row for row in maintenance.maintain(spark, new_run(), settings, is_dry_run=False)}
    assert maintained["bronze_records"]["properties"] == {"delta.dataSkippingStatsColumns": "topic,partition,offset"}

    bronze_owner.create_bronze(spark, run)
    version = tables.version(spark, bronze)
    bronze_owner.create_bronze(spark, new_run())
    assert tables.version(spark, bronze) == version
    assert spark.read.table(bronze.sql).columns == BRONZE.names
    # Records that were read again are counted off the change feed, across the version that brought the column.
    put(spark, run, [Record.of(1, 2), Record.of(2, 3), replace(Record.of(3, 4), timestamp=None)])
    done = ran(spark, new_run(), settings)
    assert (done["accepted"], done["replay"]) == (2, 2)
    read = spark.read.table(bronze.sql).select("offset", "sequence", "rules_fingerprint").collect()
    by = Rules.of(settings).fingerprint
    of_before, of_now = [(offset, None, None) for offset in range(3)], [(1, 2, by), (2, 3, by), (3, 4, by)]
    assert sorted(map(tuple, read), key=str) == sorted([*of_before, *of_now], key=str)
    require_sound(spark, new_run(), is_deep=True)
