"""What keeps a query of `tidemark sql` from writing: what it may say, and what it may touch. Knows DuckDB only."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb

from lakehouse.errors import UsageError

_WRITING = {"copy_dir", "delta_set_transaction_version", "write_blob"}
_READING_SQL = {"json_execute_serialized_sql", "query"}
"""Functions that run text as SQL: what it says is known too late."""

_EXPLAIN = re.compile(r"\s*explain(\s+analyze)?\s", re.IGNORECASE)


def require(database: duckdb.DuckDBPyConnection, query: str) -> None:
    """Refuse a query that could write: all but SELECT, what DuckDB makes one (FROM, VALUES, DESCRIBE, SHOW), and its EXPLAIN.

    Raises:
        UsageError: It is another statement, or calls a function that writes.
        duckdb.ParserException: It is not SQL.
    """
    if not database.extract_statements(query):
        raise UsageError("There is nothing to answer.", where="query", observed=repr(query), expected="a SELECT")
    read = _EXPLAIN.sub("", query, count=1) if _EXPLAIN.match(query) else query
    # As text, not as a parameter: to take a Python value, DuckDB imports pandas and pyarrow first, four tenths of a second.
    [parsed] = database.execute(f"SELECT json_serialize_sql({sql_text(read)})").fetchone() or ("{}",)
    parsed = json.loads(parsed)
    called = sorted(set(_functions(parsed)) & (_WRITING | _READING_SQL))
    if parsed["error"] or called:
        raise UsageError(
            "The query does more than read.",
            where=f"query: {query}",
            observed=f"a call of {', '.join(called)}" if called else "a statement that is no SELECT",
            expected="SELECT, WITH, FROM, VALUES, DESCRIBE, SUMMARIZE, SHOW, or EXPLAIN of one",
            next_step="For a file of the answer: --format csv, json or parquet, with -o FILE.",
        )


def fence(database: duckdb.DuckDBPyConnection, root: Path) -> None:
    """Leave a database the files under one folder, no network, and no way to undo that."""
    database.execute(f"SET allowed_directories = [{sql_text(str(root.absolute()))}]")
    database.execute("SET enable_external_access = false")
    database.execute("SET lock_configuration = true")


def sql_text(text: str) -> str:
    """Text as a literal of DuckDB's SQL."""
    escaped = text.replace("'", "''")
    return f"'{escaped}'"


def _functions(parsed: Any) -> Iterator[str]:
    """The names of the functions that a parsed query calls, in small letters."""
    if isinstance(parsed, dict):
        if "function_name" in parsed:
            yield parsed["function_name"].lower()
        parsed = list(parsed.values())
    if isinstance(parsed, list):
        for part in parsed:
            yield from _functions(part)
