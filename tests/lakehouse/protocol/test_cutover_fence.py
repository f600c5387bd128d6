"""A run that claimed a load and stood still while others took the tables back: it writes nothing more."""

import hashlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from expectations import gate
from gold import publish
from lakehouse.contracts.silver import REJECTS
from lakehouse.delta import tables
from lakehouse.delta.tables import Transaction
from lakehouse.errors import UndoneError
from lakehouse.protocol import cutover_fence
from lakehouse.run.context import Run
from lakehouse.settings.pipeline import Gate
from lakehouse.spark import frames
from pipelines import bronze_to_silver
from pipelines.operate import requests
from pipelines.recover import restore
from silver.load import planner as plan
from silver.load import recover, steps
from silver.requests import erase_key
from silver.requests import planner as by_request
from silver.rules import Rules
from silver.state import watermarks
from silver.state.ledger import Plan, shared_columns
from silver.state.request import Erase, RecordFilter, Request
from tests.pipelines.operate.test_requests import kept, sent, waiting
from tests.pipelines.recover.test_restore import offsets_in_gold, restored
from tests.support.bronze import put
from tests.support.small_config import settings_of
from tests.support.stages import loaded, ran, require_sound

RELEASE = Request("release", "checked with the sender", "ann", wanted=RecordFilter())
ERASE = Request("erase", "asked", "ann", erase=Erase("t", hashlib.sha256(b"k").hexdigest()))


@pytest.fixture(scope="module")
def two_loads(spark: SparkSession, run_at: Callable[[Path], Run], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Load 1: 1 3 2, the last one late. Load 2: 4."""
    run = run_at(tmp_path_factory.mktemp("two") / "lakehouse")
    loaded(spark, run, settings_of(run), sent(0, [1, 3, 2]))
    loaded(spark, run, settings_of(run), sent(3, [4]))
    return run


@pytest.fixture
def run(two_loads: Run, copied: Callable[[Run, Path], Run], tmp_path: Path) -> Run:
    return copied(two_loads, tmp_path / "copy")


def claimed(spark: SparkSession, run: Run, request: Request | None = None) -> Plan:
    rules = Rules.of(settings_of(run))
    recovered = recover.recover(spark, run, rules)
    if request is None:
        planned = plan.plan(spark, run, rules, recovered)
    else:
        known = recovered.watermarks
        versions = (recovered.bronze_version, recovered.bronze_version)
        claim = shared_columns(run, rules, versions, load_seq=known.load_seq + 1, request=request)
        planned = by_request.plan_request(spark, run, known, claim)
    assert planned is not None
    steps.claim(spark, run, planned)
    return planned


def rows_of(spark: SparkSession, run: Run, table: str, where: str) -> int:
    return spark.read.table(run.table(table).sql).where(where).count()


def is_append_only(spark: SparkSession, run: Run) -> bool:
    return tables.properties(spark, run.table("bronze_records"))["delta.appendOnly"] == "true"


def test_a_release_that_a_restore_took_back_is_not_marked_by_a_run_that_wakes(spark: SparkSession, run: Run) -> None:
    stale = claimed(spark, run, RELEASE)
    steps.append_silver(spark, run, stale)
    bronze_to_silver.run(spark, run, settings_of(run))  # somebody else finishes load 3
    assert waiting(spark, run) == [(2, "late", "released", 3)]
    restored(spark, run, 2)

    with pytest.raises(UndoneError, match="decides these records again"):
        steps.append_rejects(spark, run, stale)
    with pytest.raises(UndoneError):
        steps.apply_claim(spark, run, stale)

    assert waiting(spark, run) == [(2, "late", "held", None)]
    assert [row[0] for row in kept(spark, run)] == [0, 1, 3]
    again = requests.carry_out(spark, run, settings_of(run), RELEASE, is_dry_run=False)
    assert (again["load_seq"], again["records"]) == (5, 1)
    require_sound(spark, run, is_deep=True)


def test_a_run_that_wakes_appends_no_undone_load(spark: SparkSession, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    put(spark, run, [*sent(4, [5, 5, 0]), *sent(0, [1], partition=1)])
    stale = claimed(spark, run)
    read_before = watermarks._marks(spark, run, stale.load_seq)

    restored(spark, run, 2)
    for step in (steps.append_silver, steps.append_rejects):
        step(spark, run, stale)  # Delta skips them
    monkeypatch.setattr(watermarks, "_marks", lambda *_: read_before)
    with pytest.raises(UndoneError):
        steps.advance(spark, run, stale)
    monkeypatch.undo()

    assert [rows_of(spark, run, name, "load_seq = 3") for name in ("silver_records", "silver_rejects")] == [0, 0]
    assert rows_of(spark, run, "silver_watermarks", "partition = 1") == 0
    done: dict[str, Any] = bronze_to_silver.run(spark, run, settings_of(run))
    assert (done["loads"], done["accepted"], done["duplicate"], done["late"] + done["collision"]) == ([5], 2, 1, 1)
    require_sound(spark, run)


def test_undone_or_failed_erasures_leave_bronze_whole(spark: SparkSession, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    stale = claimed(spark, run, ERASE)
    with monkeypatch.context() as patched:
        patched.setattr(restore, "_finish", lambda *_: None)  # as where it cannot be finished
        restored(spark, run, 2)

    with pytest.raises(UndoneError):
        steps.apply_claim(spark, run, stale)

    for name in ("bronze_records", "silver_records"):
        assert rows_of(spark, run, name, "key IS NULL OR erased IS NOT NULL") == 0
    assert waiting(spark, run) == [(2, "late", "held", None)]
    assert is_append_only(spark, run)

    again, update = claimed(spark, run, ERASE), erase_key._update

    def fails_in_bronze(*arguments: Any, **named: Any) -> None:
        if arguments[0] == run.table("bronze_records"):
            raise UndoneError.of("bronze_records")
        update(*arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(erase_key, "_update", fails_in_bronze)
        with pytest.raises(UndoneError):
            steps.apply_claim(spark, run, again)
    assert is_append_only(spark, run)
    steps.apply_claim(spark, run, again)
    assert rows_of(spark, run, "bronze_records", "erased IS NOT NULL") > 0
    require_sound(spark, run)


def test_what_passed_the_gate_before_a_restore_is_not_published_by_who_wakes(spark: SparkSession, run: Run) -> None:
    settings = settings_of(run)
    ran(spark, run, settings)
    put(spark, run, sent(4, [5]))
    bronze_to_silver.run(spark, run, settings)
    passed = gate.audit(spark, run, Gate())
    assert passed is not None
    assert passed.last_load_seq == 3
    restored(spark, run, 2)
    before = offsets_in_gold(spark, run)

    with pytest.raises(UndoneError):
        publish.publish(spark, run, passed, settings.gold)

    assert offsets_in_gold(spark, run) == before
    ran(spark, run, settings)
    assert offsets_in_gold(spark, run)["gold_records"] == [0, 1, 3, 4]
    require_sound(spark, run)


def test_what_is_under_way_when_a_swap_closes_the_fence_conflicts(spark: SparkSession, run: Run, tmp_path: Path) -> None:
    """A changed property ends a MERGE that has begun, but Delta tries an append again; a known number ends an append."""
    rejects = run.table("silver_rejects")
    found: dict[str, str] = {}
    rows = frames.of_contract(spark, [{"class": "late"}], REJECTS)

    def append(slow: DataFrame) -> None:
        reasons = rows.crossJoin(slow).withColumn("reason", F.col("slow"))
        tables.append(reasons, rejects, REJECTS, transaction=Transaction(run.app_id(rejects.name), number))

    def merge(slow: DataFrame) -> None:
        slow.createOrReplaceTempView("slow_source")
        source = f"MERGE INTO {rejects.sql} AS reject USING slow_source AS source ON reject.topic = source.slow"
        try:
            tables.execute(spark, f"{source} WHEN MATCHED THEN UPDATE SET reason = 'x'", rejects)
        finally:
            spark.catalog.dropTempView("slow_source")

    def tried(write: Callable[[DataFrame], None], slow: DataFrame) -> None:
        try:
            write(slow)
        except Exception as error:  # noqa: BLE001 -- whatever it is, the test says so
            found[write.__name__] = f"{type(error).__name__}: {error.__cause__ or error}"

    def stands_still(begun: str, may_end: str) -> str:
        """In the middle of a write, inside its transaction. Within the test: Spark's workers do not find this module."""
        Path(begun).touch()
        while not Path(may_end).exists():
            time.sleep(0.1)
        return "t"

    for number, write in enumerate((append, merge, append), start=9):
        begun, may_end = tmp_path / f"{number}.begun", tmp_path / f"{number}.may_end"
        stand = F.udf(stands_still, "string", useArrow=False)
        slow = spark.range(1).select(stand(F.lit(str(begun)), F.lit(str(may_end))).alias("slow"))
        at_work = threading.Thread(target=tried, args=(write, slow))
        at_work.start()
        while not begun.exists():
            assert at_work.is_alive(), found
            time.sleep(0.1)
        if number == 11:
            tables.set_properties(spark, rejects, {"tidemark.note": "theirs"})
        else:
            cutover_fence.close(spark, run, number, write_marker=True, with_bronze=False)
        may_end.touch()
        at_work.join()

    assert ["MetadataChanged" in found["merge"], "ConcurrentTransaction" in found["append"]] == [True, True]
    assert rows_of(spark, run, rejects.name, "reason = 't'") == 1
