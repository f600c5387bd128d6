"""A checkpoint that was put back is found out however many commits the table has seen since, also where its log was cleaned."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from bronze.progress import checkpoint
from lakehouse.contracts.bronze import BRONZE
from lakehouse.delta import tables
from lakehouse.run.context import Run
from lakehouse.table import Lakehouse
from tests.support.bronze import Record, put

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def streamed_into(spark: SparkSession, run: Run, source: Run, folder: str) -> None:
    """One run of a streaming query, as Bronze's: a micro-batch of what the source gained."""
    rows = spark.readStream.format("delta").load(source.table("bronze_records").location)
    query = rows.writeStream.format("delta").option("checkpointLocation", folder).trigger(availableNow=True)
    query.start(run.table("bronze_records").location).awaitTermination()


def test_a_checkpoint_that_was_put_back_is_set_aside_after_many_commits_and_without_the_log(
    spark: SparkSession, run: Run, tmp_path: Path
) -> None:
    source = Run("source", Lakehouse(root=str(tmp_path / "source")), run.report)
    folder, backup = run.lakehouse.folder("_checkpoints/bronze_records"), str(tmp_path / "backup")
    bronze = run.table("bronze_records")
    tables.create(spark, bronze, BRONZE)
    for offset in range(2):
        put(spark, source, [Record.of(offset, offset)])
        streamed_into(spark, run, source, folder)
        if offset == 0:
            shutil.copytree(folder, backup)
    for nth in range(12):
        tables.set_properties(spark, bronze, {"tests.nth": str(nth)})

    _, known = tables.streamed(spark, bronze)
    assert known is not None
    assert known.batch == 1
    assert checkpoint.choose(spark, run, first=1, streamed=known).number == 1
    shutil.rmtree(folder)
    shutil.copytree(backup, folder)
    assert checkpoint.choose(spark, run, first=1, streamed=known).number == 2

    last = tables.version(spark, bronze)
    for commit in range(11):  # a checkpoint was written at version 10
        (tmp_path / "lakehouse" / "bronze_records" / "_delta_log" / f"{commit:020}.json").unlink()
    assert tables.streamed(spark, bronze) == (last, None)
    put_back = checkpoint.choose(spark, run, first=1, streamed=None)
    assert (put_back.number, put_back.is_begun) == (2, False)
    assert tables.last_batch(spark, bronze, known.query_id) == known
    assert tables._transaction_in_checkpoints(spark, bronze, known.query_id) == 1
    assert tables._transaction_in_checkpoints(spark, bronze, "another") == -1


def test_a_restore_is_seen_where_the_log_has_lost_the_batches_that_it_undid(
    spark: SparkSession, run: Run, tmp_path: Path
) -> None:
    source = Run("source", Lakehouse(root=str(tmp_path / "source")), run.report)
    bronze = run.table("bronze_records")
    tables.create(spark, bronze, BRONZE)
    for offset in range(2):
        put(spark, source, [Record.of(offset, offset)])
        streamed_into(spark, run, source, run.lakehouse.folder("_checkpoints/bronze_records"))
    for nth in range(9):
        tables.set_properties(spark, bronze, {"tests.nth": str(nth)})
    assert checkpoint.choose(spark, run, first=1, streamed=None).number == 1
    spark.sql(f"RESTORE TABLE {bronze.sql} TO VERSION AS OF 1").collect()
    for commit in range(11):  # a checkpoint was written at version 10
        (tmp_path / "lakehouse" / "bronze_records" / "_delta_log" / f"{commit:020}.json").unlink()

    assert tables.streamed(spark, bronze)[1] is None
    assert checkpoint.choose(spark, run, first=1, streamed=None).number == 2
