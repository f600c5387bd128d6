"""Erasing the records of a key, over real tables: what goes, what stays, until no file has it, and everything still holds."""

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from gold import undo
from gold.publish import publish
from lakehouse import table
from lakehouse.contracts.gate import GateRun
from lakehouse.delta import tables
from lakehouse.errors import TableStateError
from lakehouse.run.context import Run
from lakehouse.settings.pipeline import Settings
from pipelines import maintenance, silver_to_gold
from pipelines.operate import erasure, requests
from pipelines.recover import shadows
from silver.load import steps
from silver.rules import Rules
from silver.state.request import Erase, Request
from tests.conftest import Runs
from tests.support.bronze import Record, put
from tests.support.small_config import settings_of, write_config
from tests.support.stages import loaded, published, require_sound, stopped_at
from tidemark.commands import main

ANN, BOB = b"ann-5f1c7a52-0b44-4c6e-9d0e-6f6a3f6f9a17", b"bob-0d9a4be1-6f1e-4f6b-8d53-3c51a1a0c7b2"
TABLES = ("bronze_records", "silver_records", "gold_records", "gold_latest", "silver_loads", "silver_rejects", "by_person")
FORM: dict[str, Any] = {"value": {"format": "json", "schema": "id STRING, n BIGINT"}}
KAFKA = {"bootstrap_servers": "localhost:9092", "topics": ["t"]}


def of(key: bytes, offset: int, sequence: object, *, topic: str = "t", n: object = None) -> Record:
    value = json.dumps({"id": key.decode(), "n": n or sequence}).encode()
    return Record(offset, value, key, (("seq", str(sequence).encode()), ("who", key)), topic=topic)


def passed(spark: SparkSession, run: Run, load_seq: int) -> GateRun:
    silver, loads = (tables.version(spark, run.table(name)) for name in ("silver_records", "silver_loads"))
    return GateRun(f"gate{load_seq}", load_seq, load_seq, silver_version=silver, loads_version=loads)


def erased(spark: SparkSession, run: Run, settings: Settings, *, is_dry_run: bool = False) -> dict[str, Any]:
    request = Request("erase", "she asked", "bob", erase=Erase.of("t", ANN))
    return requests.carry_out(spark, run, settings, request, is_dry_run=is_dry_run)


def files_with(root: Path, text: bytes) -> list[str]:
    """The files whose bytes, or whose rows as DuckDB reads them, hold a text; plain ASCII, so that no JSON escapes it."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and text in whole(path))


def whole(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix == ".parquet":
        content += repr(duckdb.execute("SELECT * FROM read_parquet(?)", [str(path)]).fetchall()).encode()
    if path.suffix in (".gz", ".zst"):
        program = {".gz": "gzip", ".zst": "zstd"}[path.suffix]
        content += subprocess.run([program, "-dc", str(path)], capture_output=True, check=True).stdout
    return content


def tables_with_ann(spark: SparkSession, run: Run) -> list[str]:
    there = [name for name in TABLES if tables.exists(spark, run.table(name))]
    return [name for name in there if ANN.decode() in repr(spark.read.table(run.table(name).sql).collect())]


def keys(spark: SparkSession, run: Run, name: str) -> list[bytes | None]:
    return [row["key"] for row in spark.read.table(run.table(name).sql).orderBy("topic", "partition", "offset").collect()]


@pytest.fixture
def root(new_run: Runs) -> Path:
    root = new_run().lakehouse.local_root
    assert root is not None
    return root


@pytest.fixture
def settings(new_run: Runs, tmp_path: Path) -> Settings:
    file = tmp_path / "by_person.sql"
    file.write_text("SELECT payload.id AS person, count(*) AS records FROM gold_records GROUP BY 1", encoding="utf-8")
    return settings_of(new_run(), gold={"models": [{"name": "by_person", "sql": str(file)}]}, **FORM)


HISTORY = [
    of(ANN, 0, 1),
    of(BOB, 1, 2),
    of(ANN, 2, 5),
    of(ANN, 3, 1),  # a duplicate, in a block with the next
    of(BOB, 4, 2),
    of(ANN, 5, 3),  # late
    of(ANN, 6, 3),  # its duplicate
    of(ANN, 7, 2),  # a collision with Bob's
    of(BOB, 8, 1),  # a collision with Ann's
    of(ANN, 9, 1, n=99),  # another
    of(ANN, 10, "x"),  # invalid
    of(BOB, 11, 6),
]


def test_a_key_is_gone_from_every_table_and_does_not_come_back(spark: SparkSession, new_run: Runs, settings: Settings) -> None:
    run = new_run()
    first = loaded(spark, run, settings, HISTORY)
    assert [first.counts[name] for name in ("accepted", "duplicate", "late", "collision", "invalid")] == [4, 3, 1, 3, 1]
    publish(spark, run, passed(spark, run, 1), settings.gold)
    loaded(spark, new_run(), settings, [of(ANN, 12, 7)])
    passed_before = passed(spark, run, 2)
    looked = erased(spark, new_run(), settings, is_dry_run=True)
    with stopped_at(undo, "remove_key"):
        erased(spark, new_run(), settings)
    publish(spark, new_run(), passed_before, settings.gold)
    assert tables_with_ann(spark, run) == ["gold_records", "gold_latest", "by_person"]

    followed = [silver_to_gold.amend_gold(spark, new_run(), settings) for _ in range(2)]

    assert (followed, tables_with_ann(spark, run)) == ([3, 3], [])
    assert (looked["erased"], looked["records"], looked["classes"]) == (9, 4, {"late": 1, "collision": 2, "invalid": 1})
    assert [(row["high_watermark_before"], row["high_watermark_after"]) for row in looked["streams"]] == [(7, 7)]
    kept = spark.read.table(run.table("silver_records").sql).orderBy("offset").collect()
    assert [(row["sequence"], row["key"], row["erased"] and row["erased"]["load_seq"]) for row in kept] == [
        (1, None, 3),
        (2, BOB, None),
        (5, None, 3),
        (6, BOB, None),
        (7, None, 3),
    ]
    assert spark.read.table(run.table("by_person").sql).collect() == [(BOB.decode(), 2)]
    publish(spark, new_run(), passed(spark, run, 3), settings.gold)
    assert silver_to_gold.amend_gold(spark, new_run(), settings) is None
    assert erased(spark, new_run(), settings)["load_seq"] is None

    resent = [of(ANN, 13, 1), of(ANN, 14, 3), of(ANN, 15, 5), of(BOB, 16, 2), of(BOB, 17, 8)]
    again = loaded(spark, new_run(), settings, [*resent, of(ANN, 18, 9)])
    assert [again.counts[name] for name in ("duplicate", "accepted")] == [4, 2]
    assert tables_with_ann(spark, run) == ["bronze_records", "silver_records"]
    assert erased(spark, new_run(), settings)["erased"] == 4
    published(spark, new_run(), settings)
    assert (tables_with_ann(spark, run), keys(spark, run, "gold_records")) == ([], [BOB, BOB, BOB])
    require_sound(spark, run, is_deep=True)


def test_an_erased_key_is_in_no_file_after_the_procedure_whatever_held_it(
    spark: SparkSession,
    new_run: Runs,
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
        recreated = [of(ANN, 0, 1, topic="t@2"), of(BOB, 1, 2, topic="t@2"), of(ANN, 2, 9, topic="t@2")]
        loaded(spark, new_run(), settings, [*first, *recreated])
        published(spark, new_run(), settings)
    shutil.copytree(
        root / "silver_records", root / "_shadow" / "rebuild" / "silver_records"
    )  # as a look at a rebuild leaves it
    held = files_with(root, ANN[:20])
    of_records = {"bronze_records", "silver_records", "gold_latest", "by_person"}
    assert {name.partition("/")[0] for name in held} >= {"_shadow", *of_records}
    assert any("/_delta_log/" in name for name in held)
    shown: list[dict[str, Any]] = maintenance.maintain(spark, run, settings, is_dry_run=True)
    lacking = {row["table"] for row in shown if any("dataSkipping" in name for name in row["properties"])}
    assert lacking == {row["table"] for row in shown if table.statistics(row["table"])}
    assert lacking >= {"silver_rejects", "gold_records", *of_records}

    done = erased(spark, new_run(), settings)

    assert done["erased"] == 5
    assert (keys(spark, run, "bronze_records"), keys(spark, run, "silver_records"), keys(spark, run, "gold_records")) == (
        [None, BOB, None, None, None, BOB, None],
        [None, BOB, None, BOB, None],
        [BOB, BOB],
    )
    assert not (root / "_shadow").exists()
    last = (root / f"silver_records/_delta_log/{tables.version(spark, run.table('silver_records')):020}.json").read_text()
    rewritten = [json.loads(each["add"]["stats"])["minValues"] for each in map(json.loads, last.splitlines()) if "add" in each]
    assert rewritten[-1].keys() <= {"topic", "partition", "offset", "epoch", "sequence", "load_seq"}
    looked = erasure.forget(spark, new_run(), settings, ANN, is_dry_run=True)
    assert not looked["is_proven"]
    assert {each["key_rows"] for each in looked["tables"]} == {0}
    counted = {each["table"]: each["old_files"] for each in looked["tables"]}
    assert {name.partition("/")[0] for name in files_with(root, ANN)} <= {name for name, old in counted.items() if old}

    file = tmp_path / "key"
    file.write_bytes(ANN + b"\n")
    config = write_config(tmp_path, root=str(root), **FORM, gold=settings.gold.model_dump(mode="json"), kafka=KAFKA)
    code = main(["maintain", "--erase", "--key-file", str(file), "--config", str(config)])

    assert (code, "only the current version is left" in capsys.readouterr().out) == (0, True)
    assert files_with(root, ANN[:20]) == []
    assert files_with(root, BOB[:20]) != []
    properties = spark.sql(f"DESCRIBE DETAIL {run.table('bronze_records').sql}").collect()[0]["properties"]
    assert (properties["delta.deletedFileRetentionDuration"], properties["delta.appendOnly"]) == ("interval 168 hours", "true")
    more = loaded(spark, new_run(), settings, [of(BOB, 4, 5), of(ANN, 5, 1), of(BOB, 3, 10, topic="t@2")])
    assert (more.counts["accepted"], more.counts["duplicate"]) == (2, 1)
    require_sound(spark, run, is_deep=True)


def test_what_is_undecided_or_claimed_and_what_is_left_in_a_row_or_a_file_is_said(
    spark: SparkSession,
    new_run: Runs,
    root: Path,
    tmp_path: Path,
    *,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = new_run()
    settings = settings_of(run)
    loaded(spark, run, settings, [of(ANN, 0, 50), of(BOB, 1, 51)])
    put(spark, run, [of(ANN, offset, offset) for offset in range(2, 14)])  # all late: the breaker opens
    put(spark, run, [of(ANN, 0, 1, topic="gone")])  # a topic that the config no longer names
    write_config(tmp_path, root=str(root), kafka=KAFKA)
    monkeypatch.chdir(tmp_path)
    key = ["--key", ANN.decode(), "--reason", "she asked"]

    ended, said = [], []
    for topic in ("t", "gone"):
        ended.append(main(["erase", "--topic", topic, *key, "--json"]))
        said.append(json.loads(capsys.readouterr().out))

    assert ended == [1, 1]
    assert [(each["erased"], each["left"]) for each in said] == [(1, {"undecided": 12}), (0, {"undecided": 1})]
    assert keys(spark, run, "silver_records") == [None, BOB]
    assert main(["erase", "--topic", "t", *key, "--set", "policies.max_quarantined_share=1"]) == 0

    with stopped_at(steps, "append_silver"):
        loaded(spark, new_run(), settings, [of(BOB, 14, 52)])
    with pytest.raises(TableStateError, match="claimed and not finished"):
        erasure.forget(spark, new_run(), settings, ANN, is_dry_run=False)
    assert files_with(root / "silver_records", ANN) != []
    steps.load_once(spark, new_run(), Rules.of(settings))
    a_row_is_left = erasure.forget(spark, new_run(), settings, ANN, is_dry_run=False)
    assert files_with(root / "silver_records", ANN) == []
    (root / "silver_records" / "part-copied-by-hand.parquet").write_bytes(ANN)
    a_file_is_left = erasure.forget(spark, new_run(), settings, b"key-of-nobody", is_dry_run=True)

    assert {each["table"]: (each["key_rows"], each["old_files"]) for each in a_row_is_left["tables"]} == {
        "bronze_records": (1, 0),
        "silver_records": (0, 0),
        "silver_rejects": (0, 0),
    }
    assert {each["table"]: each["old_file"] for each in a_file_is_left["tables"]} == {
        "bronze_records": None,
        "silver_records": "part-copied-by-hand.parquet",
        "silver_rejects": None,
    }
    assert (a_row_is_left["is_proven"], a_file_is_left["is_proven"]) == (False, False)
    require_sound(spark, run)


def test_shadows_that_cannot_be_removed_are_named(new_run: Runs) -> None:
    run = replace(new_run(), lakehouse=table.Lakehouse(root="s3://bucket/lake"))
    assert shadows.drop(None, run) == "s3://bucket/lake/_shadow"  # type: ignore[arg-type] # no session is needed to see it
