"""What the functions return, over real tables: each field is what the command prints, and every key has its field."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidemark
from bronze.ingest import Ingested
from gold.publish import Published
from jobs.readers import quarantine, status, why
from lakehouse.contracts.silver import CLASSES
from lakehouse.table import Lakehouse
from pipelines import medallion
from pipelines.job import Job
from silver.state.request import Wanted
from tests.support.bronze import Record, put
from tests.support.quick import QUICK
from tests.support.small_config import settings_of, small_config
from tidemark import answers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run

pytestmark = pytest.mark.spark

Config = dict[str, Any]
SEQUENCES = [1, 2, 5, 3, 5, "x", 6, 1000]
POLICIES = {"max_jump": 100, "max_quarantined_share": 1.0}
NO_FIELD = {
    "KeptOut": {"settled_load_seq"},  # which is never settled yet
    "Fate": set(),
    "Record": {"topic", "partition", "offset", "timestamp", "timestamp_ms", "producer", "epoch", "sequence"}
    | {"erased", "rules_fingerprint"},  # fields of Fate, or what only Silver reads
}


def without_field(kind: str, found: Mapping[str, Any]) -> set[str]:
    """The keys of a command's result, at any depth, that no field of the class is for."""
    cls = getattr(answers, kind)
    known = {field.name.rstrip("_"): field.type for field in fields(cls)}
    lost = {f"{kind}.{key}" for key in found.keys() - known.keys() - NO_FIELD.get(kind, set())}
    for key, value in found.items():
        name = str(known.get(key, "")).removeprefix("tuple[").partition(" ")[0].partition(",")[0]
        if is_dataclass(getattr(answers, name, None)):
            for part in value if isinstance(value, list) else [value]:
                lost |= without_field(name, part) if part is not None else set()
    return lost


@pytest.fixture
def config(spark: SparkSession, run: Run) -> Config:
    """A pipeline whose Bronze holds a record of nearly every class."""
    put(spark, run, [Record.of(offset, sequence) for offset, sequence in enumerate(SEQUENCES)])
    kafka = {"bootstrap_servers": "localhost:1", "topics": ["t"]}
    return small_config(str(run.lakehouse.root), kafka=kafka, policies=POLICIES)


def test_the_fields_of_counts_are_the_classes() -> None:
    assert [field.name for field in fields(answers.Counts)] == ["records", *CLASSES]
    assert {field.name for field in fields(answers.BronzeResult)} == {field.name for field in fields(Ingested)}
    assert {field.name for field in fields(answers.GoldResult)} == {field.name for field in fields(Published)} | {"seconds"}


def test_a_load_is_run_in_the_session_of_the_caller_and_looked_at(spark: SparkSession, run: Run, config: Config) -> None:
    mine = spark.newSession()
    for name, value in {**QUICK, "spark.sql.session.timeZone": "Europe/Berlin"}.items():
        mine.conf.set(name, value)

    done = tidemark.run(config, spark=mine, stage="silver")

    assert done.silver is not None
    assert (done.silver.loads, done.silver.accepted, done.silver.late, done.silver.jump) == ((1,), 4, 1, 1)
    assert (done.bronze, done.gate, done.gold) == (None, None, None)
    # It runs on, with its own settings.
    assert mine.conf.get("spark.sql.session.timeZone") == "Europe/Berlin"
    assert mine.sql("SELECT 1").collect()[0][0] == 1

    seen = tidemark.status(config, lag=True)
    assert seen.streams[0].last_accepted == answers.Accepted(epoch=0, sequence=6)
    assert seen.streams[0].updated_at.utcoffset() is not None
    assert (seen.last_load and seen.last_load.late, seen.lag, seen.published) == (1, None, None)
    assert seen.lag_unknown
    lakehouse = Lakehouse.of(settings_of(run))
    assert without_field("Status", status.status(run.pipeline, lakehouse)) == set()

    for offset, name in ((0, "accepted"), (3, "late"), (4, "duplicate"), (5, "invalid")):
        fate = tidemark.why(config, "t", 0, offset)
        assert (fate.class_, fate.record.key, fate.record.headers and fate.record.headers[0].key) == (name, b"k", "seq")
        told, record = why.why_with_record(lakehouse, "t", 0, offset)
        assert without_field("Fate", {**told, "record": record}) == set()

    waiting = tidemark.quarantine(config)
    assert [(each.class_, each.first_offset) for each in waiting.records] == [("late", 3), ("invalid", 5), ("jump", 7)]
    assert waiting.count == 3
    assert tidemark.quarantine(config, kind="late", limit=1).records == waiting.records[:1]
    assert without_field("Held", quarantine.held(lakehouse, Wanted())[0][0]) == set()

    assert tidemark.sql(config, "select max(sequence) as s from silver_records").to_pylist() == [{"s": 6}]
    with pytest.raises(tidemark.UsageError):
        tidemark.sql(config, "drop table silver_records")


def test_the_gate_gold_decisions_and_the_proof_return_what_their_commands_print(
    spark: SparkSession, run: Run, config: Config
) -> None:
    job = Job.on(spark, settings_of(run, policies=POLICIES), run.report)
    planned = tidemark.plan(config, spark)
    assert (planned.load_seq, planned.records, planned.breaker) == (1, len(SEQUENCES), ())
    kept_out = [(each.class_, each.first_offset) for each in planned.kept_out]
    assert kept_out == [("duplicate", 4), ("late", 3), ("invalid", 5), ("jump", 7)]
    assert without_field("Plan", medallion.plan(job)) == set()
    tidemark.run(config, spark, "silver")

    gate, gold = tidemark.run(config, spark, "gate").gate, tidemark.run(config, spark, "gold").gold

    assert gate is not None
    assert gold is not None
    assert (gate.passed, gate.last_load_seq, gold.records, gold.models) == (True, 1, 4, ())
    for stage in ("silver", "gate", "gold"):
        assert without_field("RunResult", medallion.run(job, stage)) == set()
    assert without_field("Status", status.status(run.pipeline, run.lakehouse)) == set()
    published = tidemark.why(config, "t", 0, 0)
    assert (published.gate and published.gate.passed, published.published is None) == (True, False)

    trial = tidemark.quarantine_release(config, reason="real", topic="t", partition=0, offset=3, dry_run=True, spark=spark)
    assert (trial.kind, trial.is_dry_run, trial.records, trial.classes) == ("release", True, 1, {"late": 1})
    assert [(each.topic, each.partition) for each in trial.streams] == [("t", 0)]
    given_up = tidemark.quarantine_discard(config, reason="no number", kind="invalid", by="ann", spark=spark)
    assert (given_up.load_seq, given_up.records) == (2, 1)
    settled = tidemark.why(config, "t", 0, 5).settled
    assert settled is not None
    assert (settled.requested_by, settled.reason) == ("ann", "no number")

    proof = tidemark.verify(config, spark=spark)
    assert (proof.ok, proof.last_load_seq, proof.published_load_seq, len(proof.checks) > 5) == (True, 2, 1, True)
    assert without_field("Verification", medallion.verify(job)) == set()


def test_a_failed_stage_and_damage_raise_what_says_so(spark: SparkSession, run: Run, config: Config) -> None:
    tidemark.run(config, spark, "silver")
    with pytest.raises(tidemark.GateFailedError, match="budget_late"):
        tidemark.run({**config, "gate": {"budgets": {"late": {"critical": 0}}}}, spark, "gate")
    file = next(Path(str(run.lakehouse.root), "silver_records").glob("*.parquet"))
    file.unlink()
    with pytest.raises(tidemark.NotSoundError, match="files_are_there") as damage:
        tidemark.verify(config, spark=spark)
    assert isinstance(damage.value, tidemark.TableStateError)
    assert [each.check for each in damage.value.verification.checks if not each.ok] == ["files_are_there"]


def test_a_session_that_lacks_a_setting_of_delta_is_told_which_and_goes_on(spark: SparkSession, config: Config) -> None:
    other = spark.newSession()
    other.conf.set("spark.sql.catalog.spark_catalog", "")
    with pytest.raises(tidemark.ToolError) as raised:
        tidemark.plan(config, other)
    assert "spark.sql.catalog.spark_catalog is not set" in str(raised.value)
    assert '.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")' in str(raised.value)
    assert '.config("spark.jars.packages", "io.delta:delta-spark_' in str(raised.value)
    assert other.sql("SELECT 1").collect()[0][0] == 1
