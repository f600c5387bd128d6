"""All tables back to one load, whatever state they are in; the pipeline goes on from there and loses and repeats nothing."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.delta import tables
from lakehouse.errors import ClaimStuckError, TableStateError, UsageError
from lakehouse.run.context import Run
from pipelines import bronze_to_silver, silver_to_gold
from pipelines.recover import restore
from tests.pipelines.operate.test_requests import asked, kept, sent, waiting
from tests.support.bronze import put
from tests.support.prepared import copy_of
from tests.support.small_config import settings_of
from tests.support.stages import ran, require_sound


def restored(spark: SparkSession, run: Run, to: int, *, is_dry_run: bool = False) -> dict[str, Any]:
    settings = settings_of(run)
    return restore.restore(spark, run, settings, to, reason="a wrong release", by="ann", is_dry_run=is_dry_run)


def offsets_in_gold(spark: SparkSession, run: Run) -> dict[str, list[int]]:
    tables_of_gold = {name: spark.read.table(run.table(name).sql) for name in ("gold_records", "gold_latest")}
    return {name: [row["offset"] for row in rows.orderBy("offset").collect()] for name, rows in tables_of_gold.items()}


def three_loads(spark: SparkSession, run: Run) -> None:
    """Load 1: 1 2 4 3, the last one late. Load 2 releases it. Load 3: 5 and 2 again. All published; all keys the same."""
    settings = settings_of(run)
    put(spark, run, sent(0, [1, 2, 4, 3]))
    ran(spark, run, settings)
    asked(spark, run, settings, "release")
    put(spark, run, sent(4, [5, 2]))
    ran(spark, run, settings)


run = copy_of(three_loads)


def test_a_restore_is_the_way_out_where_some_or_all_tables_were_put_back_or_emptied(spark: SparkSession, run: Run) -> None:
    settings = settings_of(run)
    spark.sql(f"RESTORE TABLE {run.table('silver_records').sql} TO VERSION AS OF 1")
    tables.delete(spark, run.table("silver_watermarks"), "true")
    with pytest.raises(TableStateError, match="tidemark restore --to LOAD"):
        bronze_to_silver.run(spark, run, settings)
    with pytest.raises(TableStateError, match=r"load 2(.|\n)*0 rows(.|\n)*Restore to an earlier load"):
        restored(spark, run, 2)
    assert restored(spark, run, 1)["load_seq"] == 4

    for name in ("silver_records", "silver_rejects", "silver_loads", "silver_watermarks"):  # Delta remembers transactions
        spark.sql(f"RESTORE TABLE {run.table(name).sql} TO VERSION AS OF 1")
    with pytest.raises(TableStateError, match=r"claim is gone(.|\n)*tidemark restore --to 1"):
        bronze_to_silver.run(spark, run, settings)
    assert restored(spark, run, 1)["load_seq"] == 5
    after = ran(spark, run, settings)

    assert (after["loads"], after["accepted"], after["duplicate"]) == ([6], 1, 1)
    assert [row[0] for row in kept(spark, run)] == [0, 1, 2, 4]
    watermarks = spark.read.table(run.table("silver_watermarks").sql)
    assert watermarks.select("high_watermark", "last_offset").collect() == [(5, 5)]
    require_sound(spark, run)


def test_only_a_load_of_the_ledger_is_gone_back_to_and_old_audits_are_void(spark: SparkSession, run: Run) -> None:
    settings = settings_of(run)
    put(spark, run, sent(6, [6]))
    bronze_to_silver.run(spark, run, settings)
    silver_to_gold.run_gate(spark, run, settings)
    before = (kept(spark, run), waiting(spark, run))
    with pytest.raises(UsageError, match=r"load 9(.|\n)*a load from 1 to 4"):
        restored(spark, run, 9)
    tried = restored(spark, run, 1, is_dry_run=True)
    assert (kept(spark, run), waiting(spark, run)) == before

    done = restored(spark, run, 3)

    assert (tried["undone"], tried["records"], tried["rejects"], tried["load_seq"]) == ([2, 4], 3, 1, None)
    assert (done["undone"], done["load_seq"]) == ([4, 4], 5)
    claimed = spark.read.table(run.table("silver_loads").sql).where("load_seq = 5").collect()
    assert [(row["kind"], row["reason"], row["requested_by"]) for row in claimed] == [("restore", "a wrong release", "ann")]
    assert silver_to_gold.run_gold(spark, run, settings)["gate_run_id"] is None
    with pytest.raises(UsageError, match="load 4"):
        restored(spark, run, 4)
    assert offsets_in_gold(spark, run)["gold_records"] == [0, 1, 2, 3, 4]


def test_a_restore_gives_up_a_claim_that_a_table_never_takes(spark: SparkSession, run: Run) -> None:
    silver = run.table("silver_records").sql
    spark.sql(f"ALTER TABLE {silver} ADD CONSTRAINT small CHECK (sequence < 100)")
    put(spark, run, sent(6, [6, 100, 7]))
    settings = settings_of(run)
    for _ in range(2):
        with pytest.raises(ClaimStuckError, match=r"Load 4(.|\n)*(CHECK|small)(.|\n)*tidemark restore --to 3"):
            bronze_to_silver.run(spark, run, settings)
    with pytest.raises(UsageError, match=r"load 99(.|\n)*a load from 1 to 4"):  # before the claim is tried again
        restored(spark, run, 99)

    done = restored(spark, run, 3)
    after = ran(spark, run, settings_of(run, policies={"max_jump": 10}))

    assert (done["undone"], done["load_seq"]) == ([4, 4], 5)
    assert (after["loads"], after["accepted"], after["jump"]) == ([6], 2, 1)
    assert [row[0] for row in kept(spark, run)] == [0, 1, 2, 3, 4, 6, 8]
    require_sound(spark, run, is_deep=True)
