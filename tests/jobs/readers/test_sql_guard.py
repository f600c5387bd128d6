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

REFUSED = Path(__file__).with_name("refused_queries.txt")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    row = {"topic": "incidents", "partition": 0, "high_watermark": 2, "epoch": 0, "load_seq": 1}
    write_rows(tmp_path / "it's a lake", WATERMARKS, [row])
    return tmp_path / "it's a lake"


def commit_of(root: Path) -> Path:
    return next((root / "silver_watermarks" / "_delta_log").glob("*.json"))


def bytes_of(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture
def refused(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every refused query, over a file with a password and the files of the tables."""
    canary = tmp_path / "canary's.csv"
    canary.write_text("password\nhunter2\n")
    monkeypatch.chdir(tmp_path)
    new = {"new": root / "made.json", "folder": root / "folder"}
    places = {"root": root, "canary": canary, "commit": commit_of(root), **new}
    quoted = {name: str(place).replace("'", "''") for name, place in places.items()}
    queries = [line for line in REFUSED.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert len(queries) > 120
    return [query.format(**quoted) for query in queries]


def test_no_query_writes_reads_a_file_or_reaches_out(
    root: Path, refused: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config(tmp_path, root=str(root))
    before = bytes_of(tmp_path)
    for query in refused:
        code = main(["sql", "--config", str(config), query])
        said = capsys.readouterr()
        assert (code, said.out) == (2, ""), (query, said)
        assert "Traceback" not in said.err, query
        assert "hunter2" not in said.err, query
        assert bytes_of(tmp_path) == before, query


def test_what_gets_past_the_words_finds_no_file_and_no_network(
    root: Path, refused: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second wall alone: every one of these is run, and none of them reaches a byte."""
    monkeypatch.setattr(sql_guard, "require", lambda *_: None)
    before = bytes_of(tmp_path)
    for query in refused:
        if any(word in query for word in ("sleep", "_scan(14", "python_map")):
            continue  # a long wait, and pointers that end the process
        shown = ""
        try:
            with run_query(Lakehouse(root=str(root)), query) as found:
                shown = repr(list(found.rows)) if found.columns else ""
        except (TidemarkError, duckdb.Error, TypeError):
            pass
        assert "hunter2" not in shown, query
        assert bytes_of(tmp_path) == before, query


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


@pytest.mark.parametrize("command", [["sql", "SELECT 1"], ["sql", "SELECT 1", "--format", "parquet"], ["report", "--offline"]])
def test_no_output_replaces_a_file_of_the_lakehouse(root: Path, tmp_path: Path, command: list[str]) -> None:
    config = str(write_config(tmp_path, root=str(root)))
    (tmp_path / "link").symlink_to(root / "silver_watermarks")
    commit = commit_of(root)
    before = bytes_of(root)
    for place in (commit, commit.with_name("made.json"), tmp_path / "link" / "_delta_log" / commit.name, root / "a.csv"):
        assert main([*command, "--config", config, "-o", str(place)]) == 2
    assert bytes_of(root) == before
    (root / "_reports").mkdir()
    assert main([*command, "--config", config, "-o", str(root / "_reports" / "a.csv")]) == 0


def test_a_table_that_arrow_alone_would_read_wrong_is_copied_before_the_fence(root: Path) -> None:
    commit = commit_of(root)
    commit.write_text(commit.read_text().replace('"minReaderVersion":1', '"minReaderVersion":2'))
    with run_query(Lakehouse(root=str(root)), "SELECT topic, high_watermark FROM silver_watermarks") as found:
        assert list(found.rows) == [("incidents", 2)]
    query = "SELECT table_name FROM duckdb_tables() WHERE table_name = 'silver_watermarks'"
    with run_query(Lakehouse(root=str(root)), query) as found:
        assert list(found.rows) == [("silver_watermarks",)]
