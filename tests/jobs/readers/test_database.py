"""SQL without Spark, over real Delta tables."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from jobs.cli import main
from jobs.readers.database import connect, run_query
from jobs.readers.files import tables
from lakehouse.contracts.contract import Column, Contract
from lakehouse.contracts.gold import gold_latest
from lakehouse.contracts.silver import WATERMARKS, silver_records
from lakehouse.errors import ToolError, UsageError
from lakehouse.table import Lakehouse
from tests.support.small_config import write_config
from tests.support.small_tables import write_rows

if TYPE_CHECKING:
    from collections.abc import Callable

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
    with run_query(lakehouse, "SELECT sequence, key FROM silver_records ORDER BY sequence") as found:
        assert found.columns == ["sequence", "key"]
        assert list(found.rows) == [(1, b"A"), (2, b"\xff\x00")]
    with run_query(lakehouse, "SELECT timestamp, timestamp::VARCHAR FROM silver_records LIMIT 1") as found:
        assert list(found.rows) == [(NOON, "2026-11-21 12:00:00+00")]  # in UTC


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
    ("query", "code", "said", "unsaid"),
    [
        ("SELECT * FROM silver_record", 2, 'Did you mean "silver_records"?', "not there yet"),
        ("SELECT * FROM nothing", 2, "silver_records, silver_watermarks", "not there yet"),
        ("SELECT * FROM gold_records", 2, "gold_records is not there yet", "pg_"),
        ("SELECT offset FROM silver_records", 2, 'the column is "offset", in double quotes', "not there yet"),
        ("SELEKT 1", 2, "syntax error", "Traceback"),
        ("SELECT colour FROM silver_records", 2, 'Referenced column "colour"', "Traceback"),
        ("", 2, "There is nothing to answer", "Traceback"),
        ("SELECT error('boom')", 1, "boom", "Traceback"),
    ],
)
def test_a_query_that_cannot_be_answered_says_why_and_the_way_out(
    query: str, code: int, said: str, unsaid: str, config: Path, *, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sql", "--config", str(config), query]) == code
    captured = capsys.readouterr()
    assert said in captured.err
    assert unsaid not in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    "query",
    [
        "FROM gold_latest",
        "VALUES (1)",
        "DESCRIBE silver_records",
        "SHOW TABLES",
        "explain\nanalyze SELECT 1",
        "EXPLAIN (FORMAT json) SELECT 1",
        "SUMMARIZE silver_records",
        "SELECT unnest([1, 2])",
        "SELECT j.value FROM json_each('[1]') AS j",
        "SELECT table_name FROM information_schema.tables",
        "SELECT table_name FROM duckdb_tables() UNION ALL SELECT view_name FROM duckdb_views()",
        "PIVOT silver_records ON partition IN (0) USING count(*)",
        "FROM histogram(silver_records, sequence)",
        "SELECT headers[1].key FROM silver_records WHERE key = 'A'::BLOB AND timestamp > TIMESTAMP '2020-01-01'",
        "WITH a AS (SELECT 1) FROM a",
    ],
)
def test_what_only_reads_is_answered(query: str, lakehouse: Lakehouse) -> None:
    write_rows(
        Path(tables(lakehouse)["silver_records"].location).parent, gold_latest(), [{"topic": "incidents", "sequence": 7}]
    )
    with run_query(lakehouse, query) as found:
        assert list(found.rows)


def test_the_lakehouse_may_be_named_by_a_relative_path_or_a_link(
    lakehouse: Lakehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(str(lakehouse.root))
    monkeypatch.chdir(tmp_path)
    for root in ("it's a lake", "link", str(tmp_path / "link")):
        with run_query(Lakehouse(root=root), "SELECT max(value) FROM silver_records") as found:
            assert list(found.rows) == [(b'{"id": 1}',)]


def test_a_damaged_table_is_named_unless_the_query_names_only_others(
    lakehouse: Lakehouse, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(tables(lakehouse)["silver_watermarks"].location)
    next((folder / "_delta_log").glob("*.json")).write_text("not a commit")
    with run_query(lakehouse, "SELECT count(*) FROM Silver_Records") as found:
        assert list(found.rows) == [(2,)]
    assert main(["sql", "--config", str(config), "SELECT 1"]) == 1
    assert str(folder) in capsys.readouterr().err


def test_a_users_table_goes_before_a_view_of_its_name(lakehouse: Lakehouse) -> None:
    mine = Contract("silver_last_accepted", "mine", (Column("n", "bigint", "mine"),))
    write_rows(Path(tables(lakehouse)["silver_records"].location).parent, mine, [{"n": 7}])
    with run_query(lakehouse, "FROM silver_last_accepted") as found:
        assert list(found.rows) == [(7,)]


@pytest.mark.parametrize(
    ("name", "flags", "read"),
    [
        ("a.parquet", [], lambda file: pq.read_table(file).to_pylist()),
        ("a", ["--format", "parquet"], lambda file: pq.read_table(file).to_pylist()),
        ("a.json", [], lambda file: json.loads(file.read_text())),
        ("a.csv", ["--json"], lambda file: json.loads(file.read_text())),
    ],
)
def test_an_answer_goes_into_a_file_in_the_form_that_is_asked_for(
    name: str, flags: list[str], read: Callable[[Path], object], config: Path, tmp_path: Path
) -> None:
    query = "SELECT sequence, epoch FROM silver_records ORDER BY 1"
    assert main(["sql", "--config", str(config), query, "-o", str(tmp_path / name), *flags]) == 0
    assert read(tmp_path / name) == [{"sequence": 1, "epoch": 0}, {"sequence": 2, "epoch": 0}]


def test_a_query_is_read_from_a_file_or_stdin(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    query = "SELECT count(*) AS n FROM silver_records"
    (tmp_path / "query.sql").write_text(query)
    monkeypatch.setattr("sys.stdin", io.StringIO(query))
    for name in (str(tmp_path / "query.sql"), "-"):
        assert main(["sql", "--config", str(config), "-f", name, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == [{"n": 2}]
    for wrong in ([], [query, "-f", "-"], ["-f", str(tmp_path)]):
        assert main(["sql", "--config", str(config), *wrong]) == 2


def test_parquet_keeps_types_and_every_batch(lakehouse: Lakehouse, config: Path, tmp_path: Path) -> None:
    query = "SELECT n, key, timestamp, headers FROM silver_records, range(15000) AS t(n)"
    assert main(["sql", "--config", str(config), query, "-o", str(tmp_path / "a.parquet")]) == 0
    found = pq.read_table(tmp_path / "a.parquet")
    assert found.num_rows == 30_000
    assert [str(field.type) for field in found.schema][:3] == ["int64", "binary", "timestamp[us, tz=UTC]"]


@pytest.mark.parametrize(
    ("query", "flags", "said"),
    [
        ("SELECT 1", ["--format", "parquet"], "-o FILE"),
        ("SELECT INTERVAL 1 DAY AS day", ["-o", "{folder}/a.parquet"], "Cast the column"),
        ("SELECT 1", ["-o", "{folder}/none/a.csv"], "No such file or directory"),
        ("SELECT error('boom') FROM range(9)", ["-o", "{folder}/a.csv"], "boom"),
        ("SELECT 1", ["-o", "{folder}/a.xlsx"], "one of .csv, .json, .parquet"),
    ],
)
def test_a_file_that_cannot_be_written_is_said_and_no_part_of_it_stays(
    query: str, flags: list[str], said: str, config: Path, *, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(tmp_path.iterdir())
    assert main(["sql", "--config", str(config), query, *(flag.format(folder=tmp_path) for flag in flags)]) in (1, 2)
    assert said in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before


def test_an_empty_lakehouse_and_a_missing_extension_say_what_to_do(
    lakehouse: Lakehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = Lakehouse(root=str(tmp_path / "none"))
    with pytest.raises(UsageError, match="tidemark run"), run_query(empty, "SELECT * FROM gold_records"):
        pass
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ToolError, match="duckdb-extension-delta"), connect(lakehouse):
        pass
