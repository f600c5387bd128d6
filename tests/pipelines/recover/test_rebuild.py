"""Silver made anew from Bronze: what would change is shown, and put in place, all at once, only when asked for."""

import hashlib
import shutil
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.delta import tables
from lakehouse.errors import AnotherWriterError
from lakehouse.run.context import Run
from lakehouse.settings.pipeline import Settings
from pipelines import bronze_to_silver
from pipelines.operate import requests
from pipelines.recover import rebuild, restore
from silver import replay
from silver.requests import erase_key
from silver.state.request import Erase, Request
from tests.pipelines.operate.test_requests import asked, kept, waiting
from tests.pipelines.recover.test_restore import offsets_in_gold
from tests.support.bronze import Record, put
from tests.support.prepared import Histories, copy_of
from tests.support.small_config import settings_of
from tests.support.stages import ran, require_sound, stopped_at


def numbered(start: int, pairs: list[tuple[int, int]]) -> list[Record]:
    named = [(("seq", str(seq).encode()), ("n", str(n).encode())) for seq, n in pairs]
    return [Record(offset, key=b"k", value=headers[0][1], headers=headers) for offset, headers in enumerate(named, start)]


def rebuilt(spark: SparkSession, run: Run, settings: Settings, *, apply: bool = False) -> dict[str, Any]:
    return rebuild.rebuild(spark, run, settings, apply=apply, reason="another extractor", by="ann")


def changes(done: dict[str, Any]) -> set[tuple[str, str, int]]:
    return {(row["before"], row["after"], row["records"]) for row in done["changes"]}


def decided(spark: SparkSession, run: Run) -> None:
    """Load 1: 1 2 100 3 4 2, of which 3 and 4 are late. Load 2 releases 3. Load 3: 101 twice. All published."""
    settings = settings_of(run)
    put(spark, run, numbered(0, [(1, 1), (2, 2), (100, 3), (3, 4), (4, 5), (2, 2)]))
    ran(spark, run, settings)
    asked(spark, run, settings, "release", offset=3, days=0)
    put(spark, run, numbered(6, [(101, 6), (101, 6)]))
    ran(spark, run, settings)


run = copy_of(decided)


def test_what_would_change_is_shown_record_by_record(spark: SparkSession, histories: Histories) -> None:
    run = histories.original(decided)

    stricter = rebuilt(spark, run, settings_of(run, policies={"max_jump": 10}))

    assert (stricter["records"], stricter["repeated"], stricter["load_seq"]) == (8, 1, None)
    assert changes(stricter) == {
        ("accepted", "jump, held", 2),
        ("late, kept", "accepted", 1),
        ("late, held", "accepted", 1),
        ("duplicate", "jump, held", 1),
    }
    first = stricter["samples"][0]
    assert (first["offset"], first["before"], first["after"], first["sequence_after"]) == (2, "accepted", "jump, held", 100)


def test_damaged_tables_are_rebuilt_and_restored_and_rebuilt_without_a_ledger(spark: SparkSession, run: Run) -> None:
    settings = settings_of(run)
    tables.delete(spark, run.table("silver_records"), "offset = 1")
    damaged = rebuilt(spark, run, settings, apply=True)
    assert changes(damaged) == {("nothing", "accepted", 1)}
    restored: list[dict[str, Any]] = [
        restore.restore(spark, run, settings, to, reason="a wrong release", by="ann", is_dry_run=to != 5) for to in (4, 6, 5)
    ]
    # Gold has loads 1 to 3; loads 4 to 6 are the same again, 5 the release.
    assert [(each["undone"], each["records"], each["load_seq"]) for each in restored] == [
        ([5, 7], 2, None),
        ([7, 7], 0, None),
        ([6, 7], 1, 8),
    ]
    ran(spark, run, settings)
    assert [row[0] for row in kept(spark, run)] == offsets_in_gold(spark, run)["gold_records"] == [0, 1, 2, 3, 6]

    for name in ("silver_loads", "silver_watermarks"):
        shutil.rmtree(f"{run.lakehouse.root}/{name}")
    without = rebuilt(spark, run, settings, apply=True)
    ran(spark, run, settings)

    assert changes(without) == {("late, kept", "late, held", 1)}
    assert waiting(spark, run)[0] == (3, "late", "held", None)
    require_sound(spark, run)


ERASE = Request("erase", "a person asked", "ann", erase=Erase("t", hashlib.sha256(b"k").hexdigest()))


def test_an_erasure_unfinished_or_taken_back_holds_through_a_rebuild(spark: SparkSession, run: Run) -> None:
    settings, bronze = settings_of(run), run.table("bronze_records")
    with stopped_at(erase_key, "erase_in_bronze"):
        requests.carry_out(spark, run, settings, ERASE, is_dry_run=False)

    before = tables.version(spark, bronze)
    rebuilt(spark, run, settings)
    assert tables.version(spark, bronze) == before, "a look leaves Bronze as it is"
    done = rebuilt(spark, run, settings, apply=True)
    assert spark.read.table(bronze.sql).where("key IS NOT NULL OR value IS NOT NULL").isEmpty()
    ran(spark, run, settings)
    assert (done["repeated"], changes(done)) == (2, set())
    assert [row[0] for row in kept(spark, run)] == [0, 1, 2, 3, 6]
    assert {state for _, _, state, _ in waiting(spark, run)} == {"released", "discarded"}
    assert spark.read.table(run.table("silver_records").sql).where("key IS NOT NULL OR value IS NOT NULL").isEmpty()
    assert offsets_in_gold(spark, run) == {"gold_records": [], "gold_latest": []}

    restore.restore(spark, run, settings, 5, reason="a wrong release", by="ann", is_dry_run=False)
    assert spark.read.table(run.table("silver_loads").sql).where("kind = 'erase'").isEmpty()
    rebuilt(spark, run, settings, apply=True)

    assert spark.read.table(run.table("silver_records").sql).where("key IS NOT NULL OR value IS NOT NULL").isEmpty()
    require_sound(spark, run, is_deep=True)


def test_a_load_that_is_claimed_stops_a_rebuild(spark: SparkSession, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(run)
    replayed = replay.replay

    def overtaken(*args: Any) -> replay.Replayed:
        done = replayed(*args)
        put(spark, run, numbered(8, [(102, 7)]))
        bronze_to_silver.run(spark, run, settings)
        return done

    monkeypatch.setattr(replay, "replay", overtaken)
    with pytest.raises(AnotherWriterError):
        rebuilt(spark, run, settings, apply=True)

    ledger = spark.read.table(run.table("silver_loads").sql)
    assert ledger.where("kind = 'rebuild'").count() == 0
    assert ledger.groupBy("load_seq").count().where("count > 1").count() == 0
    require_sound(spark, run)
