"""Streams that are retired and come back: decided as if they had never left the watermark table."""

from collections.abc import Callable, Iterable
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.run.context import Run
from lakehouse.settings.pipeline import Settings
from pipelines import bronze_to_silver, maintenance
from pipelines.operate import requests
from pipelines.recover import rebuild, restore
from silver.load import recover, steps
from silver.rules import Rules
from silver.state import watermarks
from silver.state.request import RecordFilter, Request, Reset
from tests.support.bronze import Record, put
from tests.support.prepared import History
from tests.support.small_config import settings_of
from tests.support.stages import require_sound, stopped_at

CONFIG: dict[str, Any] = {
    "producer": {"header": "producer"},
    "epoch": {"header": "epoch"},
    "policies": {"max_quarantined_share": 1, "contiguous": True},
    "maintenance": {"retire_streams_days": 30},
}


def retired(spark: SparkSession, run: Run, config: Settings, *, is_dry_run: bool = False) -> int:
    """Retire what no load has moved until now; how many streams that were."""
    request = Request("retire", "quiet", "tests", wanted=RecordFilter(days=0))
    done: Any = requests.carry_out(spark, run, config, request, is_dry_run=is_dry_run)
    assert (done["load_seq"] is None) == (done["retired"] == 0)
    return int(done["retired"])


def loaded(spark: SparkSession, run: Run, config: Settings, records: Iterable[Record]) -> dict[str, Any]:
    if sent := list(records):
        put(spark, run, sent)
    return bronze_to_silver.run(spark, run, config)


def standing(spark: SparkSession, run: Run) -> dict[tuple[int, str | None], tuple[object, ...]]:
    rows = spark.read.table(run.table("silver_watermarks").sql).collect()
    return {(r["partition"], r["producer"]): (r["epoch"], r["high_watermark"], r["last_offset"]) for r in rows}


def decided(spark: SparkSession, run: Run) -> set[tuple[object, ...]]:
    kept = spark.read.table(run.table("silver_records").sql).select("partition", "offset", "arrival", "sequence").collect()
    names = ("partition", "first_offset", "last_offset", "class", "state", "content_sha256")
    out = spark.read.table(run.table("silver_rejects").sql).select(*names).collect()
    return {tuple(row) for row in (*kept, *out)}


def named(offset: int, producer: str, sequence: object, *, epoch: int = 1) -> Record:
    return Record.of(offset, sequence, producer=producer, epoch=epoch)


FIRST = [named(offset, "a", 10 * (offset + 1)) for offset in range(3)] + [named(3, "b", 5), named(4, "c", 1)]
BACK = [
    named(5, "a", 20),  # a resent copy
    named(6, "a", 15),  # never seen
    named(7, "a", 40),  # new
    named(8, "b", 9, epoch=0),  # its epoch has ended
    named(9, "b", 1, epoch=2),  # a new one
    named(10, "d", 1),  # never seen
]


def came_back(spark: SparkSession, run: Run) -> None:
    """Load 1: FIRST. Load 2 retires its streams, and was killed before its last step. Load 3: BACK."""
    config = settings_of(run, **CONFIG)
    loaded(spark, run, config, FIRST)
    assert retired(spark, run, config, is_dry_run=True) == 3
    with stopped_at(steps, "advance"):
        retired(spark, run, config)
    assert loaded(spark, run, config, [])["repeated"] == [2]
    assert standing(spark, run) == {(0, None): (None, None, 4)}
    for load_seq in (1, 2):  # runners that stood still before their last step
        watermarks.advance(spark, run, load_seq)
    assert standing(spark, run) == {(0, None): (None, None, 4)}, "a retired stream is back"
    assert retired(spark, run, config) == 0
    done = loaded(spark, run, config, BACK)
    assert [done[name] for name in ("accepted", "duplicate", "late", "fenced")] == [3, 1, 1, 1]


def test_a_decision_on_a_retired_stream_knows_where_it_stood(spark: SparkSession, new_run: Callable[[], Run]) -> None:
    config = settings_of(new_run(), **{name: value for name, value in CONFIG.items() if name != "epoch"})
    loaded(spark, new_run(), config, [named(0, "a", 10), named(1, "a", 20), named(2, "a", 15), named(3, "b", 5)])
    retired(spark, new_run(), config)

    def asks(request: Request) -> Any:
        done: Any = requests.carry_out(spark, new_run(), config, request, is_dry_run=False)
        return done

    released = asks(Request("release", "checked", "ann", wanted=RecordFilter(kind="late")))
    reset = asks(Request("reset", "installed anew", "ann", reset=Reset("t", 0, "b", is_new_epoch=True)))

    assert (released["records"], released["streams"][0]["high_watermark_before"]) == (1, 20)
    assert reset["streams"][0]["high_watermark_before"] == 5
    assert standing(spark, new_run()) == {(0, None): (None, None, 3), (0, "a"): (0, 20, 2), (0, "b"): (0, 5, 3)}
    assert retired(spark, new_run(), config) == 1, "the epoch of b is declared: it stays"
    done = loaded(spark, new_run(), config, [named(4, "a", 15), named(5, "a", 20), named(6, "a", 21), named(7, "b", 1)])
    assert (done["duplicate"], done["accepted"]) == (2, 2)
    require_sound(spark, new_run())


def test_a_restore_and_a_rebuild_know_retired_streams(spark: SparkSession, prepared: Callable[[History], Run]) -> None:
    run = prepared(came_back)
    config = settings_of(run, **CONFIG)
    whole = decided(spark, run)
    assert set(standing(spark, run)) == {(0, None), (0, "a"), (0, "b"), (0, "d")}, "c stays away"

    for to, streams in ((2, {(0, None)}), (1, {(0, "a"), (0, "b"), (0, "c")})):
        restore.restore(spark, run, config, to, reason="-", by="ann", is_dry_run=False)
        assert set(standing(spark, run)) == streams
    loaded(spark, run, config, [])
    assert decided(spark, run) == whole
    retired(spark, run, config)

    shown: Any = rebuild.rebuild(spark, run, config, apply=True, reason="-", by="ann")
    assert shown["changes"] == []
    assert set(standing(spark, run)) == {(0, "a"), (0, "b"), (0, "c"), (0, "d")}
    require_sound(spark, run, is_deep=True)


def test_maintain_retires_what_was_quiet_for_the_time_of_the_config(spark: SparkSession, new_run: Callable[[], Run]) -> None:
    run = new_run()
    config = settings_of(run, **CONFIG)
    loaded(spark, run, config, FIRST)

    def maintained(days: int | None, *, is_dry_run: bool = False) -> Any:
        asked = settings_of(run, **{**CONFIG, "maintenance": {"retire_streams_days": days}})
        return maintenance.retire(spark, run, asked, is_dry_run=is_dry_run)

    assert maintained(None) == maintained(1) == {"load_seq": None, "streams": 0, "skipped": None}
    spark.sql(f"UPDATE {run.table('silver_loads').sql} SET claimed_at = claimed_at - INTERVAL 2 DAYS")
    assert maintained(3) == {"load_seq": None, "streams": 0, "skipped": None}
    assert maintained(1, is_dry_run=True) == maintained(1) == {"load_seq": 2, "streams": 3, "skipped": None}
    assert maintained(1) == {"load_seq": None, "streams": 0, "skipped": None}
    assert recover.recover(spark, run, Rules.of(config)).watermarks.load_seq == 2
