"""`tidemark verify` over real tables: a sound lakehouse passes, and each kind of damage is named."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow.parquet import ParquetFile
from pyspark.sql import SparkSession

from lakehouse.contracts.gate import Rejected
from lakehouse.contracts.silver import RECORDS
from lakehouse.errors import TableStateError
from lakehouse.run.context import Run
from pipelines.operate import requests
from pipelines.verify.run import verify
from pipelines.verify.snapshot import VerifySnapshot
from silver.load import steps
from silver.state.request import RecordFilter, Request
from tests.support.bronze import put
from tests.support.prepared import Histories, copy_of
from tests.support.silver import load_records, message
from tests.support.small_config import settings_of
from tests.support.stages import published, stopped_at
from tidemark.commands.recovery import write_verified


def sound(spark: SparkSession, run: Run) -> None:
    """Every class but jump and fenced, a release, a discard and replays in five loads; all but the last are published."""
    # A duplicate, a late record, a collision and an invalid one.
    sent = [(0, 1), (1, 2), (2, 3), (3, 2), (4, 6), (5, 4), (7, 7)]
    odd = [message(6, 3, value=b"another"), replace(message(8, 0), headers=(("seq", b"x"),))]
    others = [message(offset, offset + 1, partition=1, key=f"k{offset}") for offset in range(3)]
    resent = [message(offset, sequence, partition=2, key=f"r{sequence}") for offset, sequence in enumerate([1, 2, 3, 1, 2, 3])]
    in_turn = [message(offset, sequence, key=f"k{sequence}") for offset, sequence in sent]
    load_records(spark, run, [*in_turn, *odd, *others, *resent])
    settings = settings_of(run, value={"format": "json", "schema": "id STRING, n BIGINT"})
    release = Request("release", "asked the sender", "ann", wanted=RecordFilter(kind="late"))
    for request in (release, Request("discard", "a mistake", "ann", wanted=RecordFilter(kind="invalid"))):
        requests.carry_out(spark, run, settings, request, is_dry_run=False)
    again = [message(1, 2, partition=1, key="k1"), resent[4]]
    load_records(spark, run, [message(9, 8, key="k8"), message(10, 7, key="k7"), message(3, 4, partition=1), *again])
    published(spark, run, settings)
    load_records(spark, run, [message(11, 9, key="k9")])


lake = copy_of(sound)


def data_file(run: Run, name: str) -> Path:
    assert run.lakehouse.local_root is not None
    return max((run.lakehouse.local_root / name).glob("*.parquet"), key=lambda path: path.stat().st_size)


def failed(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["check"]: each for each in found["checks"] if not each["ok"]}


def damaged(spark: SparkSession, run: Run, *statements: str) -> None:
    names = ("bronze_records", "silver_records", "silver_loads", "silver_rejects", "silver_watermarks", "gold_records")
    for statement in statements:
        spark.sql(statement.format(**{name: run.table(name).sql for name in names}))


def test_a_damaged_log_or_data_file_is_named(spark: SparkSession, lake: Run, capsys: pytest.CaptureFixture[str]) -> None:
    file = data_file(lake, "silver_records")
    last = max((file.parent / "_delta_log").glob("*.json"))
    whole = last.read_bytes()
    last.unlink()
    found = verify(spark, lake, is_deep=False)
    assert list(failed(found)) == ["logs_are_whole"]
    seen = rf"logs_are_whole(.|\n)*{last.name}, version 4(.|\n)*no such file, though(.|\n)*next: Put"
    with pytest.raises(TableStateError, match=seen):
        write_verified(found, as_json=True)
    assert '"ok": false' in capsys.readouterr().out
    last.write_bytes(whole)

    content = file.read_bytes()
    file.write_bytes(content[:-9])
    first = failed(verify(spark, lake, is_deep=False))["files_are_there"]
    assert (first["where"], first["observed"]) == (str(file), f"{len(content) - 9:,} bytes")


def test_what_was_edited_by_hand_is_named_with_its_place(spark: SparkSession, lake: Run) -> None:
    damaged(
        spark,
        lake,
        "UPDATE {silver_watermarks} SET high_watermark = 8 WHERE partition = 1",
        "UPDATE {silver_loads} SET accepted = accepted + 1 WHERE load_seq = 4 AND partition = 1",
        "UPDATE {silver_records} SET value = cast('{{}}' AS binary) WHERE partition = 0 AND offset = 4",
        "DELETE FROM {silver_rejects} WHERE class = 'collision'",
        "DELETE FROM {gold_records} WHERE partition = 1 AND offset = 2",
    )

    found = failed(verify(spark, lake, is_deep=False))

    places = {check: each["where"] for check, each in found.items()}
    assert places == {
        "classes_add_up": "silver_loads, load 4, topic t, partition 1",
        "watermarks_match_ledger": "silver_watermarks, topic t, partition 1",
        "silver_matches_ledger": "silver_records, load 4, topic t, partition 1",
        "rejects_match_ledger": "silver_rejects, load 1, topic t, partition 0, class collision",
        "each_offset_once": "bronze_records, topic t, partition 0, offset 6",
        "silver_is_bronze": "silver_records, topic t, partition 0, offset 4",
        "gold_is_silver": "gold_records, topic t, partition 1, offset 2",
        "health_matches_ledger": "gold_stream_health, load 4, topic t, partition 1",
    }
    assert "high_watermark 4, as load 4 left it" in found["watermarks_match_ledger"]["expected"]
    assert found["rejects_match_ledger"]["observed"].startswith("0 records")


def test_rows_that_are_gone_from_bronze_or_silver_are_named(spark: SparkSession, lake: Run) -> None:
    damaged(
        spark,
        lake,
        "ALTER TABLE {bronze_records} SET TBLPROPERTIES (delta.appendOnly = false)",
        "DELETE FROM {bronze_records} WHERE partition = 1 AND offset = 2",
        "DELETE FROM {silver_records} WHERE partition = 0 AND offset = 9",
    )

    found = verify(spark, lake, is_deep=False)

    assert {check: each["where"] for check, each in failed(found).items()} == {
        "silver_matches_ledger": "silver_records, load 4, topic t, partition 0",
        "sequences_rise": "silver_records, load 4, topic t, partition 0",
        "bronze_is_complete": "bronze_records, topic t, partition 1",
        "each_offset_once": "silver_records, topic t, partition 1, offset 2",
        "gold_is_silver": "gold_records, topic t, partition 0, offset 9",
    }
    with pytest.raises(TableStateError, match=r"silver_matches_ledger(.|\n)*load 4(.|\n)*0 rows(.|\n)*1, as"):
        write_verified(found, as_json=False)


def test_deep_finds_flipped_bits_and_changed_rows(spark: SparkSession, lake: Run, histories: Histories, tmp_path: Path) -> None:
    flipped = histories.copy(sound, tmp_path / "flipped")
    file = data_file(flipped, "bronze_records")
    value = ParquetFile(file).metadata.row_group(0).column(6)
    content = bytearray(file.read_bytes())
    content[(value.dictionary_page_offset or value.data_page_offset) + value.total_compressed_size - 3] ^= 1
    file.write_bytes(content)
    (file.parent / f".{file.name}.crc").unlink()  # Hadoop's own, which is lost where files are copied
    damaged(
        spark,
        lake,
        "UPDATE {silver_records} SET sequence = 5 WHERE partition = 0 AND offset = 4",
        "UPDATE {silver_rejects} SET class = 'fenced', reason = NULL WHERE class = 'collision'",
        "UPDATE {silver_loads} SET collision = 0, fenced = 1 WHERE collision = 1",
        "ALTER TABLE {bronze_records} SET TBLPROPERTIES ('delta.appendOnly' = 'false')",
        # What other sources read says nothing of these.
        "UPDATE {bronze_records} SET sequence = 70, rules_fingerprint = 'other' WHERE partition = 0 AND offset = 0",
        "UPDATE {bronze_records} SET sequence = 70 WHERE partition = 0 AND offset = 1",
        "UPDATE {bronze_records} SET problem = NULL WHERE problem IS NOT NULL",
    )

    read = failed(verify(spark, flipped, is_deep=True))
    found = failed(verify(spark, lake, is_deep=True))

    assert read["files_can_be_read"]["where"].endswith(file.name)
    assert found["silver_is_bronze"]["where"] == "silver_records, topic t, partition 0, offset 4"
    assert found["bronze_columns"]["where"] == "bronze_records, topic t, partition 0, offset 1"
    assert found["bronze_columns"]["observed"].startswith("2 records whose producer, epoch, sequence or problem")
    assert found["decided_again"]["where"] == "silver_loads, load 1, topic t, partition 0"
    assert found["decided_again"]["observed"].startswith("collision 0, fenced 1")


def test_sound_tables_pass_with_an_open_claim(spark: SparkSession, lake: Run, capsys: pytest.CaptureFixture[str]) -> None:
    whole = verify(spark, lake, is_deep=True)
    with stopped_at(steps, "advance"):
        load_records(spark, lake, [message(12, 10), message(13, 10)])
    put(spark, lake, [message(14, 11)])

    found = verify(spark, lake, is_deep=False)

    known = ("ok", "last_load_seq", "published_load_seq", "open_claim")
    assert [(failed(each), *(each[name] for name in known)) for each in (whole, found)] == [
        ({}, True, 5, 4, None),
        ({}, True, 5, 4, 6),
    ]
    write_verified(whole, as_json=False)
    assert "silver_is_bronze" in capsys.readouterr().out


def test_the_ledger_is_gone_through_once_however_many_of_its_rows_are_compared() -> None:
    rows = [{"topic": "t", "partition": 0, "load_seq": load, "kind": RECORDS, "last_offset": load} for load in (1, 2)]
    once = iter(rows)
    snapshot = VerifySnapshot(2, 1, watermarks=[], ledger=once, versions={}, rejected=Rejected())  # type: ignore[arg-type] # no second time
    for _ in range(10):
        assert (snapshot.published, snapshot.loads, snapshot.last_offsets) == (1, rows, {("t", 0): 2})
