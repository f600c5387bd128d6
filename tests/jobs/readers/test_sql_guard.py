"""What `tidemark sql` refuses: every way to write, to read a file, or to reach out that DuckDB 1.5 has."""

from __future__ import annotations

import hashlib
from pathlib import Path

import duckdb
import pytest

from jobs.cli import main
from jobs.readers import sql_guard
from jobs.readers.database import run_query
from lakehouse.contracts.silver import WATERMARKS
from lakehouse.errors import TidemarkError
from lakehouse.table import Lakehouse
from tests.support.small_config import write_config
from tests.support.small_tables import write_rows

REVIEWED = Path(__file__).with_name("duckdb_functions.txt")

WRITES = [
    # profiles and logs, which land where the caller says
    "SELECT * FROM enable_profiling(format='json', coverage='all', save_location='{commit}')",
    "SELECT * FROM enable_profiling(format='json', coverage='all', save_location='{commit}'); SELECT 1",
    "CALL enable_profiling(format='json', save_location='{new}')",
    "PRAGMA enable_profiling='json'",
    "PRAGMA profiling_output='{new}'",
    "SET profiling_output='{new}'",
    "FROM disable_profiling()",
    "SELECT * FROM enable_logging(storage='file', storage_config={{'path': '{folder}'}})",
    "CALL enable_logging('QueryLog', storage='file', storage_path='{folder}')",
    "SELECT write_log('hello', level := 'error')",
    "SELECT list_transform([1], lambda x: write_log('hello'))",
    "FROM truncate_duckdb_logs()",
    "SET log_query_path='{new}'",
    # files
    "COPY (SELECT 1) TO '{new}'",
    "COPY silver_watermarks TO '{new}' (FORMAT parquet)",
    "COPY (SELECT 1) TO '{folder}' (FORMAT csv, PARTITION_BY (a))",
    "COPY silver_watermarks FROM '{canary}'",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{new}'",
    "EXPLAIN (ANALYZE, FORMAT json) COPY (SELECT 1) TO '{new}'",
    "SELECT 1; COPY (SELECT 1) TO '{new}'",
    "WITH a AS (SELECT 1) COPY (FROM a) TO '{new}'",
    "SELECT write_blob('{commit}', 'x'::BLOB)",
    "SELECT list_transform([1], lambda x: system.main.\"WRITE_blob\"('{commit}', 'x'::BLOB))",
    "SELECT (SELECT write_blob('{new}', 'x'::BLOB)) FROM range(1)",
    "FROM silver_watermarks WHERE write_blob('{new}', 'x'::BLOB) IS NOT NULL",
    "SELECT 1 ORDER BY write_blob('{new}', 'x'::BLOB)",
    "FROM copy_dir('{root}/silver_watermarks', '{folder}')",
    "EXPORT DATABASE '{folder}'",
    "IMPORT DATABASE '{folder}'",
    "COPY FROM DATABASE memory TO other",
    "PRAGMA import_database('{folder}')",
    "PRAGMA copy_database('memory', 'other')",
    "ATTACH '{new}' AS other",
    "ATTACH '{new}' AS other (TYPE sqlite)",
    "DETACH memory",
    "USE memory",
    "FROM checkpoint()",
    "FROM force_checkpoint()",
    "CHECKPOINT",
    "VACUUM",
    "ANALYZE",
    # this database
    "CREATE TABLE more AS SELECT 1",
    "CREATE OR REPLACE VIEW silver_watermarks AS SELECT 1",
    "CREATE MACRO f() AS TABLE FROM read_text('{canary}')",
    "CREATE SECRET (TYPE s3, KEY_ID 'a', SECRET 'b')",
    "CREATE PERSISTENT SECRET (TYPE s3, KEY_ID 'a', SECRET 'b')",
    "CREATE TYPE mood AS ENUM ('a')",
    "INSERT INTO silver_watermarks DEFAULT VALUES",
    "UPDATE silver_watermarks SET high_watermark = 0",
    "DELETE FROM silver_watermarks",
    "TRUNCATE silver_watermarks",
    "MERGE INTO silver_watermarks USING (SELECT 1) ON true WHEN MATCHED THEN DELETE",
    "DROP VIEW silver_watermarks",
    "ALTER VIEW silver_watermarks RENAME TO gone",
    "BEGIN TRANSACTION",
    "COMMIT",
    "PREPARE p AS COPY (SELECT 1) TO '{new}'",
    "EXECUTE p",
    "FROM delta_set_transaction_version('{root}/silver_watermarks', 'app', 7)",
    # text that is run as SQL
    "FROM query('SELECT write' || '_blob(''{new}'', ''x''::BLOB)')",
    "FROM query_table('{canary}')",
    "FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
    "PRAGMA json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
    # settings
    "SET enable_external_access = true",
    "RESET enable_external_access",
    "SET GLOBAL allowed_directories = ['/']",
    "SET temp_directory = '{folder}'",
    "SET lock_configuration = false",
    "SET SESSION search_path = 'temp'",
    "SET VARIABLE a = (SELECT content FROM read_text('{canary}'))",
    "PRAGMA temp_directory='{folder}'",
]

READS_ELSEWHERE = [
    "FROM '{canary}'",
    'FROM "{canary}"',
    "SELECT * FROM '{root}/silver_watermarks/*.parquet'",
    "SELECT * FROM '/etc/hostname.csv'",
    "FROM read_csv('{canary}')",
    "FROM read_csv_auto('{canary}')",
    "FROM sniff_csv('{canary}')",
    "FROM read_text('{canary}')",
    "FROM read_text('{root}/silver_watermarks/_delta_log/*.json')",
    "FROM read_blob('/proc/self/environ')",
    "FROM glob('/etc/*')",
    "FROM read_json('{canary}')",
    "FROM read_json_auto('{canary}')",
    "FROM read_ndjson('{canary}')",
    "FROM read_json_objects('{canary}')",
    "FROM read_parquet('{root}/silver_watermarks/*.parquet')",
    "FROM parquet_scan('{root}/silver_watermarks/*.parquet')",
    "FROM parquet_metadata('{root}/silver_watermarks/*.parquet')",
    "FROM parquet_schema('{root}/silver_watermarks/*.parquet')",
    "FROM parquet_file_metadata('{root}/silver_watermarks/*.parquet')",
    "FROM parquet_kv_metadata('{root}/silver_watermarks/*.parquet')",
    "FROM parquet_bloom_probe('{root}/silver_watermarks/*.parquet', 'topic', 'a')",
    "FROM delta_scan('{root}/silver_watermarks')",
    "FROM delta_list_files('{root}/silver_watermarks')",
    "FROM read_duckdb('{canary}')",
    "SELECT (SELECT content FROM read_text('{canary}'))",
    "WITH a AS (FROM read_text('{canary}')) FROM a",
    "SELECT * FROM range(1), LATERAL (FROM read_text('{canary}'))",
    "DESCRIBE FROM read_csv('{canary}')",
    "SUMMARIZE FROM read_csv('{canary}')",
    "DESCRIBE '{canary}'",
    "SUMMARIZE '{canary}'",
    "PIVOT read_csv('{canary}') ON password IN ('a')",
    "SHOW TABLES FROM read_csv('{canary}')",
    "EXPLAIN ANALYZE FROM read_text('{canary}')",
    "SELECT getenv('HOME')",
    "SELECT current_setting('temp_directory')",
    "FROM duckdb_settings()",
    "FROM duckdb_secrets()",
    "FROM duckdb_extensions()",
    "FROM duckdb_logs()",
    "FROM duckdb_logs_parsed('QueryLog')",
    "FROM duckdb_temporary_files()",
    "FROM pg_settings",
    "SELECT * FROM pg_catalog.pg_settings",
    'SELECT "setting" FROM system.pg_catalog."PG_Settings"',
    "SELECT (SELECT any_value(setting) FROM pg_settings WHERE name = 'temp_directory')",
    "DESCRIBE pg_settings",
    "SUMMARIZE pg_settings",
    "SHOW pg_settings",
    "EXPLAIN ANALYZE FROM pg_settings",
    "FROM duckdb_logs",
    "FROM duckdb_databases",
    "FROM pragma_database_list",
    "FROM system.main.duckdb_databases",
    "FROM pg_database",
    "FROM pg_prepared_statements",
    "FROM which_secret('s3://bucket', 's3')",
    "FROM pandas_scan(140000000000000)",
    "FROM arrow_scan(140000000000000, 140000000000000, 140000000000000)",
    "FROM python_map_function(1)",
    "FROM sqlite_scan('{canary}', 'a')",
    "FROM postgres_scan('host=127.0.0.1', 'public', 'a')",
    "FROM read_xlsx('{canary}')",
    "FROM iceberg_scan('{root}')",
    "FROM 'https://127.0.0.1:1/x.parquet'",
    "FROM read_csv('http://127.0.0.1:1/x.csv')",
    "FROM read_parquet('s3://bucket/x.parquet')",
    "FROM 's3://bucket/x.parquet'",
    "INSTALL httpfs",
    "FORCE INSTALL httpfs FROM 'http://127.0.0.1:1'",
    "LOAD httpfs",
    "LOAD '{canary}'",
    "UPDATE EXTENSIONS",
    "SELECT sleep_ms(100000)",
    "SELECT pg_sleep(100000)",
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    row = {"topic": "incidents", "partition": 0, "high_watermark": 2, "epoch": 0, "load_seq": 1}
    write_rows(tmp_path / "it's a lake", WATERMARKS, [row])
    return tmp_path / "it's a lake"


def _bytes_of(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_no_query_writes_reads_a_file_or_reaches_out(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config(tmp_path, root=str(root))
    canary = tmp_path / "canary's.csv"
    canary.write_text("password\nhunter2\n")
    commit = next((root / "silver_watermarks" / "_delta_log").glob("*.json"))
    monkeypatch.chdir(tmp_path)
    places = {"root": root, "canary": canary, "commit": commit, "new": root / "made.json", "folder": root / "folder"}
    quoted = {name: str(place).replace("'", "''") for name, place in places.items()}
    before = _bytes_of(tmp_path)
    assert len(WRITES) + len(READS_ELSEWHERE) > 120
    for query in [*WRITES, *READS_ELSEWHERE]:
        code = main(["sql", "--config", str(config), query.format(**quoted)])
        said = capsys.readouterr()
        assert (code, said.out) == (2, ""), (query, said)
        assert "Traceback" not in said.err, query
        assert "hunter2" not in said.err, query
        assert _bytes_of(tmp_path) == before, query


def test_what_gets_past_the_words_finds_no_file_and_no_network(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second wall alone: every one of these is run, and none of them reaches a byte."""
    monkeypatch.setattr(sql_guard, "require", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    canary = tmp_path / "canary's.csv"
    canary.write_text("password\nhunter2\n")
    commit = next((root / "silver_watermarks" / "_delta_log").glob("*.json"))
    places = {"root": root, "canary": canary, "commit": commit, "new": root / "made.json", "folder": root / "folder"}
    quoted = {name: str(place).replace("'", "''") for name, place in places.items()}
    before = _bytes_of(tmp_path)
    harmless = ("sleep", "_scan(14", "python_map")  # a long wait, and pointers that end the process
    for query in [*WRITES, *READS_ELSEWHERE]:
        if any(word in query for word in harmless):
            continue
        shown = ""
        try:
            with run_query(Lakehouse(root=str(root)), query.format(**quoted)) as found:
                shown = repr(list(found.rows)) if found.columns else ""
        except (TidemarkError, duckdb.Error, TypeError):
            pass
        assert "hunter2" not in shown, query
        assert _bytes_of(tmp_path) == before, query


def test_every_function_of_duckdb_was_looked_at() -> None:
    """Another DuckDB has other functions: look whether one writes or reaches out, then list it, or refuse it."""
    with duckdb.connect() as database:
        query = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type IN ('scalar', 'macro', 'aggregate')"
        there = {name for (name,) in database.execute(query).fetchall()}
    assert there == set(REVIEWED.read_text(encoding="utf-8").split())


def test_every_view_of_duckdb_was_looked_at(root: Path) -> None:
    with duckdb.connect() as database:
        own = {name for (name,) in database.execute("SELECT view_name FROM duckdb_views() WHERE internal").fetchall()}
    assert own > sql_guard.SYSTEM_VIEWS
    for name in sql_guard.SYSTEM_VIEWS - {"tables", "columns", "schemata", "views"}:
        with run_query(Lakehouse(root=str(root)), f"FROM {name}") as found:
            assert str(root) not in repr(list(found.rows)), name


@pytest.mark.parametrize(("command", "name"), [(["sql", "SELECT 1"], "a.csv"), (["report", "--offline"], "a.html")])
def test_no_output_replaces_a_file_of_the_lakehouse(root: Path, tmp_path: Path, command: list[str], name: str) -> None:
    config = str(write_config(tmp_path, root=str(root)))
    (tmp_path / "link").symlink_to(root / "silver_watermarks")
    commit = next((root / "silver_watermarks" / "_delta_log").glob("*.json"))
    before = _bytes_of(root)
    for place in (commit, commit.with_name("made.json"), tmp_path / "link" / "_delta_log" / commit.name, root / "a.csv"):
        for more in ([], ["--format", "parquet"]) if command[0] == "sql" else ([],):
            assert main([*command, *more, "--config", config, "-o", str(place)]) == 2
    assert _bytes_of(root) == before
    (root / "_reports").mkdir()
    assert main([*command, "--config", config, "-o", str(root / "_reports" / name)]) == 0


def test_a_table_that_arrow_alone_would_read_wrong_is_copied_before_the_fence(root: Path) -> None:
    commit = next((root / "silver_watermarks" / "_delta_log").glob("*.json"))
    commit.write_text(commit.read_text().replace('"minReaderVersion":1', '"minReaderVersion":2'))
    with run_query(Lakehouse(root=str(root)), "SELECT topic, high_watermark FROM silver_watermarks") as found:
        assert list(found.rows) == [("incidents", 2)]
    query = "SELECT table_name FROM duckdb_tables() WHERE table_name = 'silver_watermarks'"
    with run_query(Lakehouse(root=str(root)), query) as found:
        assert list(found.rows) == [("silver_watermarks",)]
