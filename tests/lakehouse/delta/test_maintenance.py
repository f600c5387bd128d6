"""What maintenance would do is the same looked up without Spark as by Spark."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from lakehouse.contracts.gate import RESULTS
from lakehouse.delta import local_files, maintenance, tables
from lakehouse.spark import frames

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from lakehouse.table import Table

pytestmark = pytest.mark.spark

_LONG_AGO = 1_700_000_000


@pytest.fixture
def table(spark: SparkSession, run: Run) -> Table:
    """Three rows in three files, then in one, and one more; an old file that no version ever had, and a new one."""
    made = run.table(RESULTS.name)
    tables.create(spark, made, RESULTS)
    rows = [{**dict.fromkeys(RESULTS.names), "gate_run_id": str(nth)} for nth in range(4)]
    for row in rows[:3]:
        tables.append(frames.of_contract(spark, [row], RESULTS), made, RESULTS)
    maintenance.compact(spark, made, file_mib=1)
    tables.append(frames.of_contract(spark, rows[3:], RESULTS), made, RESULTS)
    assert made.local_folder is not None
    for name in ("part-left.snappy.parquet", "part-being-written.snappy.parquet"):
        (made.local_folder / name).write_bytes(b"of a writer that died")
    os.utime(made.local_folder / "part-left.snappy.parquet", (_LONG_AGO, _LONG_AGO))
    return made


@pytest.mark.parametrize(("retention", "unneeded"), [("168 hours", 1), ("0 hours", 5)])
def test_both_ways_say_the_same(
    spark: SparkSession, table: Table, retention: str, unneeded: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables.set_properties(spark, table, {"delta.deletedFileRetentionDuration": f"interval {retention}"})

    def looked() -> tuple[object, ...]:
        found = maintenance.small_files(spark, table, file_mib=1), maintenance.unneeded_files(spark, table)
        return (maintenance.state(spark, table), *found)

    with monkeypatch.context() as patched:
        for name in ("described", "sizes", "unneeded"):
            patched.setattr(local_files, name, lambda *_: None)
        by_spark = looked()

    assert looked() == by_spark
    assert by_spark[1:] == (2, unneeded)
    maintenance.vacuum(spark, table)
    assert looked()[1:] == (2, 0)
