"""What a person decides of a gate run that failed, over real tables: released ranges, rejected ones, and what stays sound."""

import hashlib
import json
import shutil
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from expectations import gate
from gold import publish as publishing
from lakehouse.contracts.gate import REJECTED, RELEASED, Decision
from lakehouse.contracts.gold import of_records
from lakehouse.delta import tables
from lakehouse.errors import GateFailedError, TableStateError, UsageError
from lakehouse.run.context import Run
from lakehouse.settings.pipeline import Gate, Settings
from pipelines import bronze_to_silver, medallion, silver_to_gold
from pipelines.job import Job
from pipelines.operate import gate_decision, requests
from pipelines.recover import rebuild, restore
from pipelines.verify import run as verify
from silver.state.request import Erase, Request
from tests.support.bronze import Record, put
from tests.support.prepared import Histories, copy_of, empty
from tests.support.small_config import settings_of
from tests.support.stages import Stopped, ran, require_sound, stop
from tidemark.readers.why import why

NO_DUPLICATES = {"budgets": {"duplicate": {"critical": 0}}}
RELEASE = Decision(RELEASED, "looked at: a resend", "ann")
REJECT = Decision(REJECTED, "a test run of the sender", "ann")


def failed(spark: SparkSession, run: Run) -> None:
    """Load 1 is published: 1 and 2. Load 2 failed the gate: 3, and 1 again. All of the key k, but 2 of the key m."""
    put(spark, run, [Record.of(0, 1), Record(1, b"v2", key=b"m", headers=(("seq", b"2"),))])
    ran(spark, run, strict(run))
    put(spark, run, [Record.of(2, 3), Record.of(3, 1)])
    with pytest.raises(GateFailedError, match=r"tidemark gate release"):
        ran(spark, run, strict(run))


run = copy_of(failed)


def strict(run: Run, **more: Any) -> Settings:
    return settings_of(run, gate=NO_DUPLICATES, **more)


def loaded(spark: SparkSession, run: Run, *records: Record) -> None:
    put(spark, run, records)
    bronze_to_silver.run(spark, run, strict(run))


def asked(spark: SparkSession, run: Run, decision: Decision, *, is_dry_run: bool = False) -> dict[str, Any]:
    return gate_decision.decide(spark, run, strict(run), decision, is_dry_run=is_dry_run)


def offsets(spark: SparkSession, run: Run, name: str = "gold_records") -> list[int]:
    rows = spark.read.table(run.table(name).sql).orderBy("offset").collect()
    return [row["offset"] for row in rows]


def decisions(spark: SparkSession, run: Run) -> list[tuple[object, ...]]:
    names = ("first_load_seq", "last_load_seq", "decision", "expectations", "reason", "decided_by")
    return [tuple(row[name] for name in names) for row in gate.decisions(spark, run)]


def gate_runs(spark: SparkSession, run: Run) -> list[tuple[int, int]]:
    rows = spark.read.table(run.table("gate_results").sql).select("gate_run_id", "first_load_seq", "last_load_seq").distinct()
    return [(row["first_load_seq"], row["last_load_seq"]) for row in rows.orderBy("last_load_seq", "first_load_seq").collect()]


def test_a_release_publishes_the_audited_range_once(spark: SparkSession, run: Run) -> None:
    loaded(spark, run, Record.of(4, 4))
    waiting = gate.last_gate_run(spark, run)
    assert waiting is not None

    tried = asked(spark, run, RELEASE, is_dry_run=True)
    assert (decisions(spark, run), offsets(spark, run)) == ([], [0, 1])
    done = asked(spark, run, RELEASE)

    assert (tried["records"], tried["published"]) == (1, None)
    assert (done["gate_run_id"], done["published"]["records"]) == (waiting.gate_run_id, 1)
    assert done["expectations"] == ["budget_duplicate"]
    assert decisions(spark, run) == [(2, 2, "released", "budget_duplicate", "looked at: a resend", "ann")]
    assert (offsets(spark, run), offsets(spark, run, "gold_latest")) == ([0, 1, 2], [1, 2])
    named = json.loads(tables.last_metadata(spark, run.table("gold_records")) or "")
    assert named == {"gate_run_id": waiting.gate_run_id, "silver_version": waiting.silver_version}
    with pytest.raises(UsageError, match=r"loads 2 to 2(.|\n)*released"):
        asked(spark, run, RELEASE)


def test_a_rejected_range_leaves_gold_and_may_be_erased(spark: SparkSession, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    silver_to_gold.run_gate(spark, run, settings_of(run))  # which lets the range out
    erase = Request("erase", "she asked", "bob", erase=Erase("t", hashlib.sha256(b"m").hexdigest()))
    with monkeypatch.context() as patched:
        patched.setattr(publishing, "_write_health", stop)  # the publishing dies in Gold, the others before Gold
        patched.setattr(requests, "amend_gold", stop)
        with pytest.raises(Stopped):
            silver_to_gold.run_gold(spark, run, settings_of(run))
        with pytest.raises(Stopped):
            requests.carry_out(spark, run, strict(run), erase, is_dry_run=False)
        patched.setattr(silver_to_gold, "amend_gold", stop)
        with pytest.raises(Stopped):
            silver_to_gold.run_gate(spark, run, strict(run))
    assert offsets(spark, run) == [0, 1, 2]

    done = asked(spark, run, REJECT)

    assert (done["first_load_seq"], done["last_load_seq"], done["records"], done["published"]) == (2, 3, 1, None)
    assert decisions(spark, run) == [(2, 3, "rejected", "budget_duplicate", "a test run of the sender", "ann")]
    assert (offsets(spark, run), offsets(spark, run, "gold_latest")) == ([0], [0])
    assert silver_to_gold.run_gate(spark, run, strict(run))["gate_run_id"] is None
    assert silver_to_gold.run_gold(spark, run, strict(run))["gate_run_id"] is None
    with pytest.raises(UsageError, match=r"loads 2 to 3(.|\n)*rejected"):
        asked(spark, run, RELEASE)
    found = why(run.lakehouse, "t", 0, 2)
    assert (found["decision"]["decision"], found["gate"]["passed"], found["published"]) == ("rejected", False, None)

    loaded(spark, run, Record.of(4, 4))
    ran(spark, run, strict(run))
    assert (gate_runs(spark, run)[-1], offsets(spark, run)) == ((4, 4), [0, 4])
    before, count = health(spark, run), len(gate_runs(spark, run))
    for name in ("gold_records", "gold_latest", "gold_stream_health"):
        shutil.rmtree(f"{run.lakehouse.root}/{name}")
    ran(spark, run, strict(run))
    assert gate_runs(spark, run)[-2:] == [(1, 4), (4, 4)]
    assert (offsets(spark, run), len(gate_runs(spark, run)), health(spark, run)) == ([0, 4], count + 1, before)
    require_sound(spark, run, is_deep=True)

    silver = spark.read.table(run.table("silver_records").sql).where("load_seq = 2").drop("erased")
    tables.append(silver.withColumn("gate_run_id", F.lit("by hand")), run.table("gold_records"), of_records())
    checks: Any = verify.verify(spark, run, is_deep=False)["checks"]
    wrong = [(each["check"], each["where"]) for each in checks if not each["ok"]]
    assert wrong == [("gold_is_silver", "gold_records, topic t, partition 0, offset 2")]


def health(spark: SparkSession, run: Run) -> list[str]:
    rows = spark.read.table(run.table("gold_stream_health").sql).drop("gate_run_id", "published_at").collect()
    return sorted(map(str, rows))


def test_a_range_undone_after_its_rejection_is_decided_again_and_a_rebuild_whole(spark: SparkSession, run: Run) -> None:
    asked(spark, run, REJECT)

    restore.restore(spark, run, strict(run), 1, reason="let them in after all", by="ann", is_dry_run=False)
    ran(spark, run, settings_of(run))

    assert (gate_runs(spark, run)[-1], offsets(spark, run)) == ((3, 4), [0, 1, 2])
    loaded(spark, run, Record.of(4, 1))
    with pytest.raises(GateFailedError):
        ran(spark, run, strict(run))
    asked(spark, run, REJECT)
    rebuild.rebuild(spark, run, strict(run), apply=True, reason="all of it", by="ann")
    with pytest.raises(GateFailedError, match=r"loads 6 to 7"):
        ran(spark, run, strict(run))
    with pytest.raises(UsageError, match=r"holds a rebuild(.|\n)*rebuild --apply"):
        asked(spark, run, REJECT)

    asked(spark, run, RELEASE)

    assert offsets(spark, run) == [0, 1, 2]
    require_sound(spark, run)


def test_what_cannot_be_decided_is_refused_and_leaves_no_decision(spark: SparkSession, run: Run, histories: Histories) -> None:
    with pytest.raises(UsageError, match="no gate run yet"):
        asked(spark, histories.original(empty), RELEASE)
    other = Decision(RELEASED, "looked at", "ann", gate_run_id="20261121T093000-abcdef")
    with pytest.raises(UsageError, match=r"not the last one(.|\n)*loads 2 to 2(.|\n)*20261121T093000-abcdef"):
        asked(spark, run, other)
    loaded(spark, run, Record.of(4, 4))
    removing = strict(run, maintenance={"retain_hours": 0, "allow_short_retention": True})
    medallion.maintain(Job.on(spark, removing, run.report), is_dry_run=False)
    with pytest.raises(TableStateError, match=r"is gone, or its files are(.|\n)*run --stage gate"):
        asked(spark, run, RELEASE)
    gate.audit(spark, run, Gate())
    with pytest.raises(UsageError, match=r"loads 2 to 3(.|\n)*has passed"):
        asked(spark, run, REJECT)
    spark.sql(f"DELETE FROM {run.table('silver_records').sql} WHERE offset = 2")
    with pytest.raises(GateFailedError):
        silver_to_gold.run_gate(spark, run, strict(run))
    with pytest.raises(TableStateError, match=r"silver_matches_ledger(.|\n)*tidemark verify"):
        asked(spark, run, RELEASE)

    assert decisions(spark, run) == []
