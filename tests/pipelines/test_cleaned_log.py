"""Tables whose logs were cleaned, as Delta does it after 30 days, wherever a stage had stood still before."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from expectations import gate
from gold import publish
from lakehouse.contracts.gate import RELEASED, Decision
from lakehouse.errors import GateFailedError
from lakehouse.run.context import Run
from pipelines import bronze_to_silver, silver_to_gold
from pipelines.operate import gate_decision, requests
from pipelines.recover.rebuild import rebuild
from silver.load import steps
from silver.state.request import RecordFilter, Request
from tests.support.bronze import Record, put
from tests.support.cleaned import clean
from tests.support.small_config import settings_of
from tests.support.stages import published, ran, require_sound, stopped_at

RELEASE = Decision(RELEASED, "looked at", "ann")


def offsets(spark: SparkSession, run: Run) -> list[int]:
    rows = spark.read.table(run.table("gold_records").sql).orderBy("partition", "offset").collect()
    return [row["offset"] for row in rows]


def three_commits(spark: SparkSession, run: Run, start: int = 0) -> None:
    """1 2, then 2 read again and 3, then 4, then a resent 1: five offsets, one of which Bronze holds twice."""
    for at in ([start, start + 1], [start + 1, start + 2], [start + 3]):
        put(spark, run, [Record.of(offset, offset + 1, producer="a") for offset in at])
    put(spark, run, [Record.of(start + 4, start + 1, producer="a")])


def test_each_stage_goes_on_where_it_stood_still_and_with_its_claim(spark: SparkSession, new_run: Callable[[], Run]) -> None:
    run = new_run()
    settings = settings_of(run, producer={"header": "producer"})  # only a named stream retires

    def claims_and_dies() -> None:
        with stopped_at(steps, "append_silver"):
            bronze_to_silver.run(spark, run, settings)

    three_commits(spark, run)
    assert clean(spark, run) == {"bronze_records": 4}  # before Silver's first load
    planned: Any = bronze_to_silver.preview(spark, run, settings)
    assert sum(row["accepted"] for row in planned["streams"]) == 4
    claims_and_dies()
    clean(spark, run)  # the version that was claimed is the last one
    assert (ran(spark, run, settings)["repeated"], offsets(spark, run)) == ([1], [0, 1, 2, 3])

    three_commits(spark, run, start=5)
    claims_and_dies()
    three_commits(spark, run, start=10)
    clean(spark, run)  # the version that was claimed is gone; then Silver has a load to decide, the gate and Gold have two
    assert ran(spark, run, settings)["repeated"] == [2]
    assert offsets(spark, run) == [0, 1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13]
    ledger = spark.read.table(run.table("silver_loads").sql).orderBy("load_seq").collect()
    counts = ("records", "replay", "accepted", "duplicate")
    by_stream = sorted(tuple(row[name] for name in counts) for row in ledger)
    assert by_stream == [(1, 1, 0, 0)] * 3 + [(5, 0, 4, 1)] * 3  # a replay is counted in the row of the partition

    clean(spark, run)
    rebuilt = rebuild(spark, run, settings, apply=True, reason="why", by="ann")
    assert rebuilt["changes"] == []  # Bronze holds three offsets twice
    clean(spark, run)
    retire = Request("retire", "quiet", "ann", wanted=RecordFilter(days=0))
    retired: Any = requests.carry_out(spark, new_run(), settings, retire, is_dry_run=False)
    assert retired["retired"] > 0
    ran(spark, new_run(), settings)
    require_sound(spark, run, is_deep=True)


def test_what_was_let_out_is_published_as_it_is_now(spark: SparkSession, run: Run) -> None:
    settings = settings_of(run, gate={"budgets": {"late": {"critical": 0}}}, policies={"late": "accept"})

    def load(*records: Record) -> None:
        put(spark, run, records)
        bronze_to_silver.run(spark, run, settings)

    load(Record.of(0, 1), Record.of(1, 3))
    published(spark, run, settings)
    load(Record.of(2, 2), Record.of(3, 4))  # one of them is late
    with pytest.raises(GateFailedError):
        published(spark, run, settings)
    with stopped_at(publish, "publish"):
        gate_decision.decide(spark, run, settings, RELEASE, is_dry_run=False)
    load(Record.of(4, 5))  # so that the versions which the gate run audited are not the last ones
    clean(spark, run)

    again = gate_decision.decide(spark, run, settings, RELEASE, is_dry_run=True)
    published(spark, run, settings)
    assert (again["records"], offsets(spark, run)) == (2, [0, 1, 2, 3])

    assert gate.audit(spark, run, settings.gate) is not None
    load(Record.of(5, 6))
    clean(spark, run)
    silver_to_gold.run_gold(spark, run, settings)  # alone
    assert offsets(spark, run) == [0, 1, 2, 3, 4]
    published(spark, run, settings)
    assert offsets(spark, run) == [0, 1, 2, 3, 4, 5]
    require_sound(spark, run, is_deep=True)
