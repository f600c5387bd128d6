"""Which topics a load decides: those of the config. What Bronze holds of others waits, and is not lost."""

import inspect
import shutil
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bronze.progress import topic_registry
from bronze.progress.topic_registry import Topic
from lakehouse.contracts.bronze import BRONZE
from lakehouse.contracts.gate import RELEASED, Decision
from lakehouse.delta import tables
from lakehouse.errors import TableStateError
from lakehouse.protocol import bronze_owner
from lakehouse.run.context import Run
from pipelines import bronze_to_silver, medallion
from pipelines.job import Job
from pipelines.operate import gate_decision
from pipelines.recover import rebuild, restore
from silver.load import steps
from silver.state.request import Erase, Kind, RecordFilter, Request, Reset
from tests.pipelines.operate.test_requests import asked
from tests.support.bronze import Record, put
from tests.support.small_config import settings_of
from tests.support.stages import loaded, ran, require_sound, stopped_at


def of(topic: str, start: int, sequences: list[int]) -> list[Record]:
    records = [Record.of(offset, sequence) for offset, sequence in enumerate(sequences, start)]
    return [Record(each.offset, each.value, headers=each.headers, topic=topic) for each in records]


def kept(spark: SparkSession, run: Run) -> list[tuple[str, int, int]]:
    rows = spark.read.table(run.table("silver_records").sql).orderBy("topic", "offset").collect()
    return [(row["topic"], row["offset"], row["load_seq"]) for row in rows]


def test_a_topic_outside_the_config_waits_until_it_is_in(spark: SparkSession, run: Run) -> None:
    only_t, both = settings_of(run), settings_of(run, topics=["t", "u"])
    tables.create(spark, run.table("bronze_records"), BRONZE)
    topic_registry.write_begun(spark, run, [Topic("t", 1, None, 1, {}), Topic("u", 1, None, 1, {})])
    put(spark, run, [*of("t", 0, [1, 3, 2]), *of("u", 0, [7, 8])])

    first = ran(spark, run, only_t)
    put(spark, run, [*of("u", 2, [9, 8]), *of("u@2", 0, [1])])
    shown = [bronze_to_silver.preview(spark, run, config)["other_topics"] for config in (only_t, both)]
    passed_over = bronze_to_silver.run(spark, run, only_t)
    released = asked(spark, run, only_t, "release")

    assert (first["records"], first["other_topics"], passed_over["loads"]) == (3, ["u"], [])
    assert shown == [["u"], []]
    assert released["load_seq"] == 2

    with stopped_at(steps, "append_silver"):
        bronze_to_silver.run(spark, run, both)  # claims, and dies
    joined = ran(spark, run, both)  # and again what was claimed

    assert (joined["repeated"], joined["accepted"], joined["duplicate"], joined["other_topics"]) == ([3], 4, 1, [])
    decided = [*[("t", 0, 1), ("t", 1, 1), ("t", 2, 2)], *[("u", 0, 3), ("u", 1, 3), ("u", 2, 3), ("u@2", 0, 3)]]
    assert kept(spark, run) == decided

    put(spark, run, [*of("t", 3, [4]), *of("u", 4, [10])])
    bronze_to_silver.run(spark, run, only_t)
    done: dict[str, Any] = rebuild.rebuild(spark, run, only_t, apply=True, reason="tried", by="ann")

    before = [*[("t", offset) for offset in range(4)], ("u", 0), ("u", 1), ("u", 2), ("u@2", 0)]
    with_u = sorted([*before, ("u", 4)])
    assert [row[:2] for row in kept(spark, run)] in (before, with_u)
    assert all(change["before"] != "accepted" for change in done["changes"]), done["changes"]
    ran(spark, run, both)
    assert [row[:2] for row in kept(spark, run)] == with_u
    require_sound(spark, run, is_deep=True)


def asking(kind: Kind) -> Callable[[Job], object]:
    reset = Reset("t", 0, to=9) if kind == "reset" else None
    erase = Erase.of("t", b"k") if kind == "erase" else None
    request = Request(kind, "", "ann", wanted=RecordFilter(topic="t"), reset=reset, erase=erase)
    return lambda job: medallion.decide(job, request)


READS = {"partitions", "verify"}
WRITES: dict[str, list[Callable[[Job], object]]] = {
    "run": [partial(medallion.run, stage=stage) for stage in ("bronze", "silver", "gate", "gold", None)],
    "plan": [medallion.plan],  # writes nothing, and shows no other pipeline's tables as this one's
    "decide": [asking(kind) for kind in ("release", "discard", "reset", "erase", "accept", "retire")],
    "run_alone": [
        partial(
            medallion.run_alone, do=partial(gate_decision.decide, decision=Decision(RELEASED, "", "ann"), is_dry_run=False)
        ),
        partial(medallion.run_alone, do=partial(restore.restore, to=1, reason="", by="ann", is_dry_run=False)),
        partial(medallion.run_alone, do=partial(rebuild.rebuild, apply=True, reason="", by="ann")),
    ],
    "maintain": [partial(medallion.maintain, is_dry_run=False)],
    "forget": [partial(medallion.forget, key=b"k", is_dry_run=False)],
}


def test_every_entry_is_listed() -> None:
    own = {name for name, each in vars(medallion).items() if inspect.isfunction(each) and each.__module__ == medallion.__name__}
    assert {name for name in own if not name.startswith("_")} == READS | set(WRITES)


def require_refused(spark: SparkSession, run: Run) -> None:
    job = Job.on(spark, settings_of(Run("others", run.lakehouse, run.report)), run.report)
    for attempt in chain.from_iterable(WRITES.values()):
        with pytest.raises(TableStateError, match=r"another pipeline's; nothing was written(.|\n)*tests(.|\n)*others"):
            attempt(job)


def test_another_pipeline_writes_nothing_by_any_entry(spark: SparkSession, run: Run) -> None:
    bronze_owner.create_bronze(spark, run)
    put(spark, run, of("t", 0, [1]))
    root = run.lakehouse.local_root
    assert root is not None
    before = sorted(root.rglob("*"))

    with pytest.raises(TableStateError, match=r"another pipeline's; nothing was written(.|\n)*tests(.|\n)*others"):
        bronze_owner.create_bronze(spark, Run("others", run.lakehouse, run.report))
    require_refused(spark, run)
    assert [path for path in sorted(root.rglob("*")) if ".lock" not in path.name] == before


def test_the_ledger_says_whose_tables_they_are_where_bronze_has_no_name_or_is_gone(spark: SparkSession, run: Run) -> None:
    loaded(spark, run, settings_of(run), of("t", 0, [1]))  # its Bronze is made without a name
    with pytest.raises(TableStateError, match="pipeline tests"):
        bronze_owner.create_bronze(spark, Run("others", run.lakehouse, run.report))
    bronze_owner.create_bronze(spark, run)

    assert tables.properties(spark, run.table("bronze_records"))["tidemark.pipeline"] == "tests"
    assert bronze_owner.read_owner(spark, run) == "tests"
    shutil.rmtree(f"{run.lakehouse.root}/bronze_records")
    require_refused(spark, run)
