"""SQL without Spark, over real Delta tables."""

import io
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lakehouse.contracts.contract import Column, Contract
from lakehouse.contracts.gold import of_records
from lakehouse.contracts.silver import WATERMARKS, silver_records
from lakehouse.errors import ToolError, UsageError
from lakehouse.table import Lakehouse
from tests.support.small_config import write_config
from tests.support.small_tables import write_rows
from tests.support.watched import NOON
from tests.tidemark.conftest import RunCommand, rows
from tidemark.readers.database import connect
from tidemark.readers.files import tables


@pytest.fixture(autouse=True)
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
    write_config(tmp_path, root=str(root))
    return Lakehouse(root=str(root))


def test_every_table_that_is_there_is_a_view_and_nothing_else(lakehouse: Lakehouse) -> None:
    assert sorted(tables(lakehouse)) == ["silver_records", "silver_watermarks"]
    assert rows(lakehouse.root, "SELECT sequence, key FROM silver_records ORDER BY sequence") == [(1, b"A"), (2, b"\xff\x00")]
    in_utc = "SELECT timestamp, timestamp::VARCHAR FROM silver_records LIMIT 1"
    assert rows(lakehouse.root, in_utc) == [(NOON, "2026-11-21 12:00:00+00")]


def test_duckdb_writes_no_progress_bar_into_an_answer(lakehouse: Lakehouse) -> None:
    with connect(lakehouse) as database:
        assert database.rows("SELECT current_setting('enable_progress_bar') AS is_shown", {}) == [{"is_shown": False}]


def test_piped_rows_are_csv_and_json_is_one_array_of_objects(run_command: RunCommand) -> None:
    assert run_command("sql", "SELECT sequence, key, value, headers FROM silver_records ORDER BY 1")[0].splitlines() == [
        "sequence,key,value,headers",
        '1,A,"{""id"": 1}","[{""key"": ""seq"", ""value"": ""1""}]"',
        "2,0xff00,,[]",
    ]
    query = "SELECT sequence, key, timestamp, 1.5 AS share, sum(1) OVER () AS n FROM silver_records ORDER BY 1"
    first = {"sequence": 1, "key": "A", "timestamp": "2026-11-21T12:00:00+00:00", "share": 1.5, "n": 2}
    assert json.loads(run_command("sql", "--json", query)[0])[0] == first
    assert json.loads(run_command("sql", "--format", "json", f"SELECT * FROM ({query}) WHERE false")[0]) == []


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
def test_an_unanswered_query_says_the_way_out(query: str, code: int, said: str, unsaid: str, run_command: RunCommand) -> None:
    out, err = run_command("sql", query, code=code)
    assert said in err
    assert unsaid not in err
    assert "Traceback" not in err
    assert out == ""


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
    write_rows(Path(str(lakehouse.root)), of_records(name="gold_latest"), [{"topic": "incidents", "sequence": 7}])
    assert rows(lakehouse.root, query)


def test_a_root_may_be_a_relative_path_or_link(lakehouse: Lakehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(str(lakehouse.root))
    monkeypatch.chdir(tmp_path)
    for root in ("it's a lake", "link", str(tmp_path / "link")):
        assert rows(root, "SELECT max(value) FROM silver_records") == [(b'{"id": 1}',)]


def test_a_damaged_table_is_named_unless_the_query_names_only_others(lakehouse: Lakehouse, run_command: RunCommand) -> None:
    folder = Path(tables(lakehouse)["silver_watermarks"].location)
    next((folder / "_delta_log").glob("*.json")).write_text("not a commit")
    assert rows(lakehouse.root, "SELECT count(*) FROM Silver_Records") == [(2,)]
    assert str(folder) in run_command("sql", "SELECT 1", code=1)[1]


def test_a_users_table_goes_before_a_view_of_its_name(lakehouse: Lakehouse) -> None:
    mine = Contract("silver_last_accepted", "mine", (Column("n", "bigint", "mine"),))
    write_rows(Path(str(lakehouse.root)), mine, [{"n": 7}])
    assert rows(lakehouse.root, "FROM silver_last_accepted") == [(7,)]


def test_an_answer_goes_into_a_file_in_the_form_that_is_asked_for(run_command: RunCommand, tmp_path: Path) -> None:
    expected = [{"sequence": 1, "epoch": 0}, {"sequence": 2, "epoch": 0}]
    for name, flags in (("a.parquet", []), ("a", ["--format", "parquet"]), ("a.json", []), ("a.csv", ["--json"])):
        run_command("sql", "SELECT sequence, epoch FROM silver_records ORDER BY 1", "-o", str(tmp_path / name), *flags)
        file = tmp_path / name
        assert expected == (json.loads(file.read_text()) if name in ("a.json", "a.csv") else pq.read_table(file).to_pylist())

    query = "SELECT n, key, timestamp, headers FROM silver_records, range(15000) AS t(n)"
    run_command("sql", query, "-o", str(tmp_path / "types.parquet"))
    found = pq.read_table(tmp_path / "types.parquet")
    assert found.num_rows == 30_000  # of every batch
    assert [str(field.type) for field in found.schema][:3] == ["int64", "binary", "timestamp[us, tz=UTC]"]


def test_a_query_is_read_from_a_file_or_stdin(run_command: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = "SELECT count(*) AS n FROM silver_records"
    (tmp_path / "query.sql").write_text(query)
    monkeypatch.setattr("sys.stdin", io.StringIO(query))
    for name in (str(tmp_path / "query.sql"), "-"):
        assert json.loads(run_command("sql", "-f", name, "--json")[0]) == [{"n": 2}]
    for wrong, said in (([], "Exactly one"), ([query, "-f", "-"], "Exactly one"), (["-f", str(tmp_path)], "cannot be read")):
        assert said in run_command("sql", *wrong, code=2)[1]


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
    query: str, flags: list[str], said: str, run_command: RunCommand, *, tmp_path: Path
) -> None:
    before = sorted(tmp_path.iterdir())
    code = 1 if said == "boom" else 2
    assert said in run_command("sql", query, *(flag.format(folder=tmp_path) for flag in flags), code=code)[1]
    assert sorted(tmp_path.iterdir()) == before


def test_a_lack_of_tables_or_extension_is_named(lakehouse: Lakehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="tidemark run"):
        rows(tmp_path / "none", "SELECT * FROM gold_records")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ToolError, match="duckdb-extension-delta"), connect(lakehouse) as database:
        database.rows("FROM silver_records")
