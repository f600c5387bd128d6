"""An erasure brought to its end: the key is in no file under the root, unpacked, and everything still holds."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from jobs.cli import main
from lakehouse import table
from lakehouse.delta import tables
from lakehouse.errors import TableStateError
from pipelines import maintenance
from pipelines.operate import erasure, requests
from pipelines.recover import rebuild, shadows
from silver.load import steps
from silver.rules import Rules
from silver.state.request import Erase, Request
from tests.support.bronze import Record, put
from tests.support.small_config import settings_of, write_config
from tests.support.stages import Stopped, loaded, published, require_sound, stop
from tests.support.unpacked import files_with

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Settings

pytestmark = pytest.mark.spark

ANN, BOB = b"ann-5f1c7a52-0b44-4c6e-9d0e-6f6a3f6f9a17", b"bob-0d9a4be1-6f1e-4f6b-8d53-3c51a1a0c7b2"
FORM: dict[str, Any] = {"value": {"format": "json", "schema": "id STRING, n BIGINT"}}


def of(key: bytes, offset: int, sequence: object, *, topic: str = "t") -> Record:
    value = json.dumps({"id": key.decode(), "n": offset}).encode()
    return Record(offset, value, key, (("seq", str(sequence).encode()), ("who", key)), topic=topic)


def asked(topic: str = "t") -> Request:
    return Request("erase", "she asked for it", "bob", erase=Erase.of(topic, ANN))


def keys(spark: SparkSession, run: Run, name: str) -> list[bytes | None]:
    return [row["key"] for row in spark.read.table(run.table(name).sql).orderBy("topic", "partition", "offset").collect()]


@pytest.fixture
def root(new_run: Callable[[], Run]) -> Path:
    root = new_run().lakehouse.local_root
    assert root is not None
    return root


@pytest.fixture
def settings(new_run: Callable[[], Run], tmp_path: Path) -> Settings:
    file = tmp_path / "by_person.sql"
    file.write_text("SELECT payload.id AS person, count(*) AS records FROM gold_records GROUP BY 1", encoding="utf-8")
    return settings_of(new_run(), gold={"models": [{"name": "by_person", "sql": str(file)}]}, **FORM)


def test_an_erased_key_is_in_no_file_after_the_documented_procedure_whatever_incarnation_shadow_or_version_held_it(
    spark: SparkSession,
    new_run: Callable[[], Run],
    settings: Settings,
    root: Path,
    tmp_path: Path,
    *,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = new_run()
    with monkeypatch.context() as patched:  # tables as version 0.1 made them: statistics of every column in the log
        patched.setattr(table, "statistics", lambda _: {})
        first = [of(ANN, 0, 1), of(BOB, 1, 2), of(ANN, 2, 1), of(ANN, 3, "x")]
        anew = [of(ANN, 0, 1, topic="t@2"), of(BOB, 1, 2, topic="t@2"), of(ANN, 2, 9, topic="t@2")]
        loaded(spark, new_run(), settings, [*first, *anew])
        published(spark, new_run(), settings)
        rebuild.rebuild(spark, new_run(), settings, is_applied=False, reason="a look", by="ann")
    held = files_with(root, ANN[:20])
    assert {name.partition("/")[0] for name in held} >= {
        "_shadow",
        "bronze_records",
        "silver_records",
        "gold_latest",
        "by_person",
    }
    assert any("/_delta_log/" in name for name in held)

    erased = requests.carry_out(spark, new_run(), settings, asked(), is_dry_run=False)

    assert erased["erased"] == 5
    assert set(erased["left_until"]) == {"old_versions", "log"}  # type: ignore[call-overload] # a mapping
    assert (keys(spark, run, "bronze_records"), keys(spark, run, "silver_records"), keys(spark, run, "gold_records")) == (
        [None, BOB, None, None, None, BOB, None],
        [None, BOB, None, BOB, None],
        [BOB, BOB],
    )
    assert not (root / "_shadow").exists()
    last = (root / f"silver_records/_delta_log/{tables.version(spark, run.table('silver_records')):020}.json").read_text()
    rewritten = [json.loads(each["add"]["stats"])["minValues"] for each in map(json.loads, last.splitlines()) if "add" in each]
    assert rewritten[-1].keys() <= {"topic", "partition", "offset", "epoch", "sequence", "load_seq"}
    version = tables.version(spark, run.table("bronze_records"))
    looked = erasure.forget(spark, new_run(), settings, ANN, is_dry_run=True)
    assert not looked["is_proven"]
    assert {each["key_rows"] for each in looked["tables"]} == {0}
    counted = {each["table"]: each["old_files"] for each in looked["tables"]}
    assert {name.partition("/")[0] for name in files_with(root, ANN)} <= {name for name, old in counted.items() if old}
    assert tables.version(spark, run.table("bronze_records")) == version

    file = tmp_path / "key"
    file.write_bytes(ANN + b"\n")
    config = write_config(
        tmp_path,
        root=str(root),
        **FORM,
        gold=settings.gold.model_dump(mode="json"),
        kafka={"bootstrap_servers": "localhost:9092", "topics": ["t"]},
    )
    code = main(["maintain", "--erase", "--key-file", str(file), "--config", str(config)])

    assert (code, "only the current version is left" in capsys.readouterr().out) == (0, True)
    assert files_with(root, ANN[:20]) == []
    assert files_with(root, BOB[:20]) != []
    properties = spark.sql(f"DESCRIBE DETAIL {run.table('bronze_records').sql}").collect()[0]["properties"]
    assert (properties["delta.deletedFileRetentionDuration"], properties["delta.appendOnly"]) == ("interval 168 hours", "true")
    more = loaded(spark, new_run(), settings, [of(BOB, 4, 5), of(ANN, 5, 1), of(BOB, 3, 10, topic="t@2")])
    assert (more.counts["accepted"], more.counts["duplicate"]) == (2, 1)
    require_sound(spark, run, is_deep=True)


def test_what_no_load_has_decided_holds_up_no_erasure_of_the_rest_and_is_counted(
    spark: SparkSession,
    new_run: Callable[[], Run],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = new_run()
    loaded(spark, run, settings_of(run), [of(ANN, 0, 50), of(BOB, 1, 51)])
    put(spark, run, [of(ANN, offset, offset) for offset in range(2, 14)])  # all late: the breaker opens
    put(spark, run, [of(ANN, 0, 1, topic="gone")])  # a topic that the config no longer names
    kafka = {"bootstrap_servers": "localhost:9092", "topics": ["t"]}
    write_config(tmp_path, root=str(run.lakehouse.root), kafka=kafka)
    monkeypatch.chdir(tmp_path)
    key = ["--key", ANN.decode(), "--reason", "she asked for it"]

    ended, told = [], []
    for topic in ("t", "gone"):
        ended.append(main(["erase", "--topic", topic, *key, "--json"]))
        told.append(json.loads(capsys.readouterr().out))

    assert ended == [1, 1]
    assert [(each["erased"], each["left"]) for each in told] == [(1, {"undecided": 12}), (0, {"undecided": 1})]
    assert keys(spark, run, "silver_records") == [None, BOB]
    assert main(["erase", "--topic", "t", *key, "--set", "policies.max_quarantined_share=1"]) == 0
    assert keys(spark, run, "bronze_records").count(ANN) == 1


def test_nothing_is_proven_while_a_row_has_the_key_or_a_file_is_left(
    spark: SparkSession, new_run: Callable[[], Run], settings: Settings, root: Path
) -> None:
    loaded(spark, new_run(), settings, [of(ANN, 0, 1), of(BOB, 1, 2), of(ANN, 2, "x")])

    not_erased = erasure.forget(spark, new_run(), settings, ANN, is_dry_run=False)
    (root / "silver_records" / "part-copied-by-hand.parquet").write_bytes(ANN)
    with_a_file = erasure.forget(spark, new_run(), settings, b"key-of-nobody", is_dry_run=True)

    assert {each["table"]: (each["key_rows"], each["old_files"]) for each in not_erased["tables"]} == {
        "bronze_records": (2, 0),
        "silver_records": (1, 0),
        "silver_rejects": (0, 0),
    }
    assert {each["table"]: each["old_file"] for each in with_a_file["tables"]} == {
        "bronze_records": None,
        "silver_records": "part-copied-by-hand.parquet",
        "silver_rejects": None,
    }
    assert (not_erased["is_proven"], with_a_file["is_proven"]) == (False, False)


def test_shadows_that_cannot_be_removed_are_named(new_run: Callable[[], Run]) -> None:
    run = replace(new_run(), lakehouse=table.Lakehouse(root="s3://bucket/lake"))
    assert shadows.drop(None, run) == "s3://bucket/lake/_shadow"  # type: ignore[arg-type] # no session is needed to see it


def test_nothing_is_removed_while_an_open_claim_reads_an_earlier_version_and_it_is_done_when_that_is_finished(
    spark: SparkSession, new_run: Callable[[], Run], settings: Settings, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded(spark, new_run(), settings, [of(ANN, 0, 1), of(BOB, 1, 2)])
    requests.carry_out(spark, new_run(), settings, asked(), is_dry_run=False)
    put(spark, new_run(), [of(BOB, 2, 3)])
    with monkeypatch.context() as patched:
        patched.setattr(steps, "append_silver", stop)
        with pytest.raises(Stopped):
            loaded(spark, new_run(), settings, [of(BOB, 3, 4)])

    with pytest.raises(TableStateError, match="claimed and not finished"):
        erasure.forget(spark, new_run(), settings, ANN, is_dry_run=False)
    assert files_with(root, ANN) != []
    steps.load_once(spark, new_run(), Rules.of(settings))

    with monkeypatch.context() as patched:
        patched.setattr(erasure, "_start_log_anew", stop)
        with pytest.raises(Stopped):
            erasure.forget(spark, new_run(), settings, ANN, is_dry_run=False)
    assert not erasure.forget(spark, new_run(), settings, ANN, is_dry_run=True)["is_proven"]
    again = erasure.forget(spark, new_run(), settings, ANN, is_dry_run=False)

    assert (again["is_proven"], files_with(root, ANN)) == (True, [])
    require_sound(spark, new_run(), is_deep=True)


def test_tables_that_keep_statistics_of_what_records_hold_get_the_property_by_maintenance(
    spark: SparkSession, new_run: Callable[[], Run], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(table, "statistics", lambda _: {})
        loaded(spark, new_run(), settings, [of(ANN, 0, 1)])
        published(spark, new_run(), settings)
    run = new_run()

    done: list[dict[str, Any]] = maintenance.maintain(spark, run, settings, is_dry_run=True)

    lacking = {row["table"] for row in done if any("dataSkipping" in name for name in row["properties"])}
    assert lacking == {row["table"] for row in done if table.statistics(row["table"])}
    assert lacking >= {"bronze_records", "silver_records", "silver_rejects", "gold_records", "gold_latest", "by_person"}
