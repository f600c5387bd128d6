"""`tidemark verify` over real tables: a sound lakehouse passes, and each kind of damage is named."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow.parquet import ParquetFile

from expectations import gate
from gold.publish import publish
from jobs.cli.recovery import write_verified
from lakehouse.errors import TableStateError
from lakehouse.settings.pipeline import Gate, Gold
from pipelines.operate import requests
from pipelines.verify.run import verify
from silver.load import steps
from silver.state.request import Request, Wanted
from tests.support.bronze import put
from tests.support.silver import load_records, message
from tests.support.small_config import settings_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from silver.state.request import Kind
    from tests.support.prepared import Histories, History

pytestmark = pytest.mark.spark


def published(spark: SparkSession, run: Run) -> None:
    gate_run = gate.audit(spark, run, Gate())
    assert gate_run is not None
    publish(spark, run, gate_run, Gold())


def asked(spark: SparkSession, run: Run, what: Kind, **wanted: Any) -> None:
    settings = settings_of(run, value={"format": "json", "schema": "id STRING, n BIGINT"})
    request = Request(what, "asked the sender", "ann", wanted=Wanted(**wanted))
    requests.carry_out(spark, run, settings, request, is_dry_run=False)


def sound(spark: SparkSession, run: Run) -> None:
    """Every class but jump and fenced, a release, a discard and a replay, in five loads; all but the last are published."""
    # A duplicate, a late record, a collision and an invalid one.
    sent = [(0, 1), (1, 2), (2, 3), (3, 2), (4, 6), (5, 4), (7, 7)]
    odd = [message(6, 3, value=b"another"), replace(message(8, 0), headers=(("seq", b"x"),))]
    others = [message(offset, offset + 1, partition=1, key=f"k{offset}") for offset in range(3)]
    load_records(spark, run, [*(message(offset, sequence, key=f"k{sequence}") for offset, sequence in sent), *odd, *others])
    asked(spark, run, "release", kind="late")
    asked(spark, run, "discard", kind="invalid")
    again = message(1, 2, partition=1, key="k1")
    load_records(spark, run, [message(9, 8, key="k8"), message(10, 7, key="k7"), message(3, 4, partition=1), again])
    published(spark, run)
    load_records(spark, run, [message(11, 9, key="k9")])


@pytest.fixture
def lake(prepared: Callable[[History], Run]) -> Run:
    """A copy of the sound lakehouse, to be damaged."""
    return prepared(sound)


def log_of(run: Run, name: str) -> list[Path]:
    """The commits of a table, the last one last."""
    assert run.lakehouse.local_root is not None
    return sorted((run.lakehouse.local_root / name / "_delta_log").glob("*.json"))


def data_file(run: Run, name: str) -> Path:
    assert run.lakehouse.local_root is not None
    return max((run.lakehouse.local_root / name).glob("*.parquet"), key=lambda path: path.stat().st_size)


def failed(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The checks that do not hold, the first one first."""
    return {each["check"]: each for each in found["checks"] if not each["ok"]}


def test_sound_tables_pass(spark: SparkSession, histories: Histories, capsys: pytest.CaptureFixture[str]) -> None:
    found = verify(spark, histories.original(sound), is_deep=True)

    assert failed(found) == {}
    assert (found["ok"], found["last_load_seq"], found["published_load_seq"], found["open_claim"]) == (True, 5, 4, None)
    write_verified(found, as_json=False)
    assert "silver_is_bronze" in capsys.readouterr().out


def damaged(spark: SparkSession, run: Run, *statements: str) -> None:
    """Change tables by hand, each named as in the statement: `{silver_records}`."""
    names = ("bronze_records", "silver_records", "silver_loads", "silver_rejects", "silver_watermarks", "gold_records")
    for statement in statements:
        spark.sql(statement.format(**{name: run.table(name).sql for name in names}))


def test_a_log_or_data_file_that_is_damaged_is_named_before_anything_is_read(
    spark: SparkSession, lake: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    last = log_of(lake, "silver_records")[-1]
    whole = last.read_bytes()
    damages: dict[str, Callable[[], object]] = {
        "0 bytes": lambda: last.write_bytes(b""),
        "0 rows added": lambda: last.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1])),
        "bytes that are no JSON": lambda: last.write_bytes(whole[:-40]),
        "no such file, though": last.unlink,
    }
    for observed, damage in damages.items():
        damage()
        found = verify(spark, lake, is_deep=False)
        assert list(failed(found)) == ["logs_are_whole"]
        with pytest.raises(
            TableStateError, match=rf"logs_are_whole(.|\n)*{last.name}, version 4(.|\n)*{observed}(.|\n)*next: Put"
        ):
            write_verified(found, as_json=True)
        assert '"ok": false' in capsys.readouterr().out
        last.write_bytes(whole)

    file = data_file(lake, "silver_records")
    content = file.read_bytes()
    for observed, left in {"no such file": None, f"{len(content) - 9:,} bytes": content[:-9]}.items():
        file.unlink(missing_ok=True)
        if left is not None:
            file.write_bytes(left)
        first = failed(verify(spark, lake, is_deep=False))["files_are_there"]
        assert (first["where"], first["observed"]) == (str(file), observed)


def test_what_was_edited_by_hand_is_named_with_its_place_and_what_was_done(spark: SparkSession, lake: Run) -> None:
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
    assert "version 6 of silver_watermarks is a UPDATE" in found["watermarks_match_ledger"]["observed"]
    assert "high_watermark 4, as load 4 left it" in found["watermarks_match_ledger"]["expected"]
    assert "version 5 of silver_records is a UPDATE" in found["silver_is_bronze"]["observed"]
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
    with pytest.raises(TableStateError, match=r"silver_matches_ledger(.|\n)*load 4(.|\n)*0 rows(.|\n)*is a DELETE(.|\n)*1, as"):
        write_verified(found, as_json=False)


@pytest.mark.parametrize("damage", ["lost", "restored"])
def test_a_lost_commit_and_a_table_restored_alone_are_named(spark: SparkSession, lake: Run, damage: str) -> None:
    if damage == "lost":  # with all that it left behind, so that the log says nothing
        last = log_of(lake, "silver_records")[-1]
        for file in last.parent.glob(f"*{last.stem}*"):
            file.unlink()
    else:
        damaged(spark, lake, "RESTORE TABLE {silver_records} TO VERSION AS OF 3")

    found = failed(verify(spark, lake, is_deep=False))

    first = next(iter(found.values()))
    assert (first["check"], first["where"]) == ("silver_matches_ledger", "silver_records, load 5, topic t, partition 0")
    assert first["expected"].startswith("1, as")
    assert ("version 5 of silver_records is a RESTORE" in first["observed"]) == (damage == "restored")


def test_deep_finds_a_flipped_bit_a_changed_sequence_in_either_table_and_another_decision(
    spark: SparkSession, lake: Run, histories: Histories, tmp_path: Path
) -> None:
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


def test_a_claim_that_is_open_is_no_failure_and_its_rows_are_left_out(
    spark: SparkSession, lake: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(steps, "advance", stop)
        with pytest.raises(KeyboardInterrupt):
            load_records(spark, lake, [message(12, 10), message(13, 10)])
    put(spark, lake, [message(14, 11)])

    found = verify(spark, lake, is_deep=False)

    assert (failed(found), found["last_load_seq"], found["open_claim"]) == ({}, 5, 6)
