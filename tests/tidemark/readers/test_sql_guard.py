"""What `tidemark sql` refuses: every way to write, to read a file, or to reach out that DuckDB 1.5 has."""

import hashlib
from pathlib import Path

import duckdb
import pytest

from lakehouse.contracts.silver import WATERMARKS
from lakehouse.errors import TidemarkError
from lakehouse.table import Lakehouse
from tests.support.small_config import write_config
from tests.support.small_tables import write_rows
from tests.tidemark.conftest import RunCommand, rows
from tidemark.readers import sql_guard
from tidemark.readers.database import run_query

REVIEWED, REFUSED = (Path(__file__).with_name(f"{name}.txt") for name in ("duckdb_functions", "refused_queries"))


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
    canary = tmp_path / "canary's.csv"
    canary.write_text("password\nhunter2\n")
    monkeypatch.chdir(tmp_path)
    new = {"new": root / "made.json", "folder": root / "folder"}
    places = {"root": root, "canary": canary, "commit": commit_of(root), **new}
    quoted = {name: str(place).replace("'", "''") for name, place in places.items()}
    queries = [line for line in REFUSED.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert len(queries) > 120
    return [query.format(**quoted) for query in queries]


def test_no_query_writes_reads_or_reaches_out(root: Path, refused: list[str], tmp_path: Path, run_command: RunCommand) -> None:
    write_config(tmp_path, root=str(root))
    before = bytes_of(tmp_path)
    for query in refused:
        out, err = run_command("sql", query, code=2)
        assert out == "", query
        assert not any(word in err for word in ("Traceback", "hunter2")), query
        assert bytes_of(tmp_path) == before, query


def test_what_gets_past_the_words_finds_no_file_and_no_network(
    root: Path, refused: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second wall alone: every one of these is run, and none of them reaches a byte."""
    monkeypatch.setattr(sql_guard, "require_select", lambda *_: None)
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
        assert str(root) not in repr(rows(root, f"FROM {name}")), name


@pytest.mark.parametrize("command", [["sql", "SELECT 1"], ["sql", "SELECT 1", "--format", "parquet"], ["report", "--offline"]])
def test_no_output_replaces_a_lakehouses_file(root: Path, tmp_path: Path, command: list[str], run_command: RunCommand) -> None:
    write_config(tmp_path, root=str(root))
    (tmp_path / "link").symlink_to(root / "silver_watermarks")
    commit = commit_of(root)
    before = bytes_of(root)
    for place in (commit, commit.with_name("made.json"), tmp_path / "link" / "_delta_log" / commit.name, root / "a.csv"):
        run_command(*command, "-o", str(place), code=2)
    assert bytes_of(root) == before
    (root / "_reports").mkdir()
    run_command(*command, "-o", str(root / "_reports" / "a.csv"))


def test_a_table_that_arrow_alone_would_read_wrong_is_copied_before_the_fence(root: Path) -> None:
    commit = commit_of(root)
    commit.write_text(commit.read_text().replace('"minReaderVersion":1', '"minReaderVersion":2'))
    assert rows(root, "SELECT topic, high_watermark FROM silver_watermarks") == [("incidents", 2)]
    copied = "SELECT table_name FROM duckdb_tables() WHERE table_name = 'silver_watermarks'"
    assert rows(root, copied) == [("silver_watermarks",)]
