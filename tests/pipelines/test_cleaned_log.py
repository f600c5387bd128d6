"""Tables whose logs were cleaned, as Delta does it after 30 days, wherever a stage had stood still before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from expectations import gate
from lakehouse.contracts.gate import RELEASED, Decision
from lakehouse.errors import GateFailedError
from pipelines import bronze_to_silver, medallion, silver_to_gold
from pipelines.job import Job
from pipelines.operate import gate_decision, requests
from silver.load import steps
from silver.state.request import Request, Wanted
from tests.support.bronze import Record, put
from tests.support.cleaned import clean
from tests.support.silver import copy_of
from tests.support.small_config import settings_of
from tests.support.stages import Stopped, published, ran, require_sound, stop

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Settings

pytestmark = pytest.mark.spark

RELEASE = Decision(RELEASED, "looked at", "ann")


def offsets(spark: SparkSession, run: Run) -> list[int]:
    rows = spark.read.table(run.table("gold_records").sql).orderBy("partition", "offset").collect()
    return [row["offset"] for row in rows]


def three_commits(spark: SparkSession, run: Run, start: int = 0) -> None:
    """1 2, then 2 read again and 3, then 4, then a resent 1: five offsets, one of which Bronze holds twice."""
    for at in ([start, start + 1], [start + 1, start + 2], [start + 3]):
        put(spark, run, [Record.of(offset, offset + 1, producer="a") for offset in at])
    put(spark, run, [Record.of(start + 4, start + 1, producer="a")])


def test_each_stage_goes_on_wherever_it_had_stood_still(spark: SparkSession, new_run: Callable[[], Run]) -> None:
    run = new_run()
    settings = settings_of(run, producer={"header": "producer"})  # only a named stream retires
    three_commits(spark, run)
    assert clean(spark, run) == {"bronze_records": 4}  # before Silver's first load
    planned: Any = bronze_to_silver.preview(spark, run, settings)
    first = ran(spark, run, settings)
    assert sum(row["accepted"] for row in planned["streams"]) == 4
    assert (first["accepted"], first["duplicate"], offsets(spark, run)) == (4, 1, [0, 1, 2, 3])

    three_commits(spark, run, start=5)
    bronze_to_silver.run(spark, run, settings)
    three_commits(spark, run, start=10)
    clean(spark, run)  # Silver has a load to decide, the gate and Gold have two to take
    done = ran(spark, run, settings)
    assert (done["accepted"], done["duplicate"]) == (4, 1)
    assert offsets(spark, run) == [0, 1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13]

    clean(spark, run)
    rebuilt: Any = medallion.rebuild(Job.on(spark, settings, run.report), is_applied=True, reason="why", by="ann")
    assert rebuilt["changes"] == []  # Bronze holds three offsets twice
    clean(spark, run)
    retire = Request("retire", "quiet", "ann", wanted=Wanted(days=0))
    retired: Any = requests.carry_out(spark, new_run(), settings, retire, is_dry_run=False)
    assert retired["retired"] > 0
    ran(spark, new_run(), settings)
    require_sound(spark, run, is_deep=True)


@pytest.mark.parametrize("grows", [True, False], ids=["its version is gone", "its version is the last one"])
def test_a_claimed_load_whose_versions_left_the_log_is_finished_as_claimed(
    spark: SparkSession, new_run: Callable[[], Run], monkeypatch: pytest.MonkeyPatch, grows: bool
) -> None:
    run, settings = new_run(), settings_of(new_run())
    three_commits(spark, run)
    with monkeypatch.context() as patched:
        patched.setattr(steps, "append_silver", stop)
        with pytest.raises(Stopped):
            bronze_to_silver.run(spark, run, settings)
    if grows:
        three_commits(spark, run, start=5)
    clean(spark, run)

    done = ran(spark, new_run(), settings)

    assert done["repeated"] == [1]
    assert offsets(spark, run) == ([0, 1, 2, 3, 5, 6, 7, 8] if grows else [0, 1, 2, 3])
    claimed = spark.read.table(run.table("silver_loads").sql).where("load_seq = 1").collect()[0]
    assert (claimed["records"], claimed["replay"]) == (6, 1)
    require_sound(spark, run, is_deep=True)


@pytest.fixture(scope="module")
def waits(spark: SparkSession, run_at: Callable[[Path], Run], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Load 1 is published: 1 and 3. Load 2 failed the gate: 2, late and accepted, and 4."""
    run = run_at(tmp_path_factory.mktemp("waits") / "lakehouse")
    put(spark, run, [Record.of(0, 1), Record.of(1, 3)])
    ran(spark, run, strict(run))
    put(spark, run, [Record.of(2, 2), Record.of(3, 4)])
    with pytest.raises(GateFailedError):
        ran(spark, run, strict(run))
    return run


@pytest.fixture
def waiting(waits: Run, tmp_path: Path) -> Run:
    """A run over a copy of those tables."""
    return copy_of(waits, tmp_path / "copy", waits.report)


def strict(run: Run) -> Settings:
    return settings_of(run, gate={"budgets": {"late": {"critical": 0}}}, policies={"late": "accept"})


def load_and_clean(spark: SparkSession, run: Run) -> None:
    """Load 3, so that the versions which the gate run audited are not the last ones, and then clean the logs."""
    put(spark, run, [Record.of(4, 5)])
    bronze_to_silver.run(spark, run, strict(run))
    clean(spark, run)


def test_a_released_range_that_was_not_published_is_published_as_its_loads_are_now(
    spark: SparkSession, waiting: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(silver_to_gold, "publish", stop)
        with pytest.raises(Stopped):
            gate_decision.decide(spark, waiting, strict(waiting), RELEASE, is_dry_run=False)
    load_and_clean(spark, waiting)

    again = gate_decision.decide(spark, waiting, strict(waiting), RELEASE, is_dry_run=True)
    published(spark, waiting, strict(waiting))
    assert (again["records"], offsets(spark, waiting)) == (2, [0, 1, 2, 3])
    published(spark, waiting, strict(waiting))

    assert offsets(spark, waiting) == [0, 1, 2, 3, 4]
    require_sound(spark, waiting, is_deep=True)


def test_what_passed_and_was_not_published_is_published_by_golds_stage_alone(spark: SparkSession, waiting: Run) -> None:
    assert gate.audit(spark, waiting, settings_of(waiting).gate) is not None
    load_and_clean(spark, waiting)

    silver_to_gold.run_gold(spark, waiting, settings_of(waiting))

    assert offsets(spark, waiting) == [0, 1, 2, 3]
