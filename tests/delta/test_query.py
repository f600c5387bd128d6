"""SQL without Spark, over real Delta tables."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from jobs.cli import main
from jobs.query import answer, tables
from lakehouse.contracts.gold import gold_latest
from lakehouse.contracts.silver import WATERMARKS, silver_records
from lakehouse.errors import ToolError, UsageError
from lakehouse.table import Lakehouse
from tests.support.small_config import write_config
from tests.support.small_tables import write_rows

if TYPE_CHECKING:
    from pathlib import Path

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.fixture
def lakehouse(tmp_path: Path) -> Lakehouse:
    root = tmp_path / "it's a lake"
    record = {"topic": "incidents", "partition": 0, "epoch": 0, "timestamp": NOON, "arrival": "in_order", "load_seq": 1}
    rows = [
        {**record, "sequence": 1, "offset": 0, "key": b"A", "value": b'{"id": 1}', "headers": [{"key": "seq", "value": b"1"}]},
        {**record, "sequence": 2, "offset": 1, "key": b"\xff\x00", "value": None, "headers": []},
    ]
    write_rows(root, silver_records(), rows)
    write_rows(root, WATERMARKS, [{"topic": "incidents", "partition": 0, "high_watermark": 2, "epoch": 0, "load_seq": 1}])
    (root / "_checkpoints").mkdir()
    return Lakehouse(root=str(root))


@pytest.fixture
def config(lakehouse: Lakehouse, tmp_path: Path) -> Path:
    return write_config(tmp_path, root=str(lakehouse.root))


def test_every_table_that_is_there_is_a_view_and_nothing_else(lakehouse: Lakehouse) -> None:
    assert sorted(tables(lakehouse)) == ["silver_records", "silver_watermarks"]
    with answer(lakehouse, "SELECT sequence, key FROM silver_records ORDER BY sequence") as found:
        assert found.columns == ["sequence", "key"]
        assert list(found.rows) == [(1, b"A"), (2, b"\xff\x00")]


def test_a_users_gold_model_is_a_view_too(lakehouse: Lakehouse) -> None:
    model = gold_latest()
    write_rows(tables(lakehouse)["silver_records"].parent, model, [{"topic": "incidents", "sequence": 7}])
    with answer(lakehouse, "SELECT sequence FROM gold_latest") as found:
        assert list(found.rows) == [(7,)]


def test_times_are_utc(lakehouse: Lakehouse) -> None:
    with answer(lakehouse, "SELECT timestamp, timestamp::VARCHAR FROM silver_records LIMIT 1") as found:
        [(as_time, as_text)] = list(found.rows)
    assert as_time == NOON
    assert as_text == "2026-11-21 12:00:00+00"


def test_piped_rows_are_csv(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "--config", str(config), "SELECT sequence, key, value, headers FROM silver_records ORDER BY 1"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "sequence,key,value,headers",
        '1,A,"{""id"": 1}","[{""key"": ""seq"", ""value"": ""1""}]"',
        "2,0xff00,,[]",
    ]


def test_json_is_one_array_of_objects(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT sequence, key, timestamp, 1.5 AS share, sum(1) OVER () AS n FROM silver_records ORDER BY 1"
    assert main(["sql", "--config", str(config), "--json", query]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows[0] == {"sequence": 1, "key": "A", "timestamp": "2026-11-21T12:00:00+00:00", "share": 1.5, "n": 2}
    assert main(["sql", "--config", str(config), "--format", "json", f"SELECT * FROM ({query}) WHERE false"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_what_a_producer_sent_cannot_steer_the_terminal(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT 'red ' || chr(27) || '[31m [bold]x[/bold]' AS text"
    assert main(["sql", "--config", str(config), "--format", "table", query]) == 0
    printed = capsys.readouterr().out
    assert r"red \x1b[31m [bold]x[/bold]" in printed
    assert "\x1b" not in printed


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM silver_record", "silver_records, silver_watermarks"),
        ("SELEKT 1", "syntax error"),
        ("SELECT colour FROM silver_records", 'Referenced column "colour"'),
        ("", "There is nothing to answer"),
    ],
)
def test_a_wrong_query_is_a_usage_error_that_says_why(
    config: Path, capsys: pytest.CaptureFixture[str], query: str, expected: str
) -> None:
    assert main(["sql", "--config", str(config), query]) == 2
    captured = capsys.readouterr()
    assert expected in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""


def test_a_query_that_fails_while_it_runs_is_an_error(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "--config", str(config), "SELECT error('boom')"]) == 1
    assert "boom" in capsys.readouterr().err


def test_an_empty_lakehouse_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="tidemark run"), answer(Lakehouse(root=str(tmp_path)), "SELECT * FROM gold_records"):
        pass


@pytest.mark.parametrize("place", [Lakehouse(root="s3://bucket/lake"), Lakehouse(catalog="main", schema="tidemark")])
def test_tables_elsewhere_are_left_to_the_platforms_sql(place: Lakehouse) -> None:
    with pytest.raises(UsageError, match="SQL of the platform"), answer(place, "SELECT 1"):
        pass


def test_a_damaged_table_is_named(lakehouse: Lakehouse, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tables(lakehouse)["silver_watermarks"]
    next((folder / "_delta_log").glob("*.json")).write_text("not a commit")
    assert main(["sql", "--config", str(config), "SELECT 1"]) == 1
    assert str(folder) in capsys.readouterr().err


def test_a_missing_extension_is_named(lakehouse: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ToolError, match="duckdb-extension-delta"), answer(lakehouse, "SELECT 1"):
        pass


def test_sql_starts_no_jvm_and_answers_soon(config: Path) -> None:
    program = (
        "import sys, jobs.cli\n"
        f"code = jobs.cli.main(['sql', '--config', {str(config)!r}, 'SELECT count(*) AS n FROM silver_records'])\n"
        "loaded = {'pyspark', 'pandas', 'great_expectations'} & set(sys.modules)\n"
        "sys.exit(code or (f'loaded {loaded}' if loaded else 0))\n"
    )
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "n\n2\n", "")
    assert time.monotonic() - started < 20  # starting a JVM and Spark takes as long on a busy machine; this takes one second
