"""Keep a user's query in DuckDB from writing, and from opening files or addresses.

Either guard would suffice: `require_select` refuses what is not known to only read, and `fence` removes files and network.
"""

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

import duckdb

from lakehouse.errors import UsageError

TABLE_FUNCTIONS = frozenset(
    {
        *("generate_series", "range", "repeat", "repeat_row", "unnest", "json_each", "json_tree"),
        *("histogram", "histogram_values"),
        *("duckdb_columns", "duckdb_functions", "duckdb_keywords", "duckdb_tables", "duckdb_types", "duckdb_views"),
        *("icu_calendar_names", "pg_timezone_names", "pragma_table_info", "pragma_version"),
    }
)
"""Table functions that a query may call: they make rows from their arguments, or describe this database."""

SYSTEM_VIEWS = frozenset(
    {
        *("tables", "columns", "schemata", "views"),  # of information_schema
        *("duckdb_columns", "duckdb_tables", "duckdb_types", "duckdb_views", "sqlite_master"),
    }
)
"""DuckDB's own views that a query may read: they describe our tables. Others show settings, logs or files."""

REFUSED_FUNCTIONS = frozenset(
    {
        *("write_blob", "write_log"),  # write
        *("getenv", "read_blob", "read_text", "current_setting", "parse_duckdb_log_message"),  # disclose details of the host
        *("json_execute_serialized_sql", "query", "query_table"),  # run a text as SQL, which is known too late
        *("nextval", "currval", "setseed", "sleep_ms", "pg_sleep"),  # are not part of reading tables
    }
)
"""Scalar functions and macros that a query may not call. A test checks that all others of DuckDB's were reviewed."""

_EXPLAIN = re.compile(r"\s*explain(\s+analyze)?(\s*\(\s*format\s+\w+\s*\))?\s", re.IGNORECASE)


def require_select(database: duckdb.DuckDBPyConnection, query: str) -> None:
    """Refuse all but one SELECT, its short forms (FROM, VALUES, DESCRIBE, SHOW), or an EXPLAIN of one.

    UsageError also if it calls a function that is not known only to read, or reads a view of DuckDB's own that does not
    describe tables. duckdb.ParserException if it is not SQL.
    """
    try:
        statements = database.extract_statements(query)
    except duckdb.PermissionException:  # to parse IMPORT DATABASE, DuckDB opens the files it names
        raise no_select(query, "a statement that opens a file") from None
    if not statements:
        raise UsageError("There is nothing to answer.", where="query", observed=repr(query), expected="a SELECT")
    read = _EXPLAIN.sub("", query, count=1) if _EXPLAIN.match(query) else query
    # As a literal, not a parameter: to take a Python value, DuckDB first imports pandas and pyarrow, which takes 0.4 s.
    [serialized] = database.execute(f"SELECT json_serialize_sql({sql_text(read)})").fetchone() or ("{}",)
    parsed = json.loads(serialized)
    own = database.execute("SELECT view_name FROM duckdb_views() WHERE internal").fetchall()
    refused = sorted(_refused(parsed, {name for (name,) in own} - SYSTEM_VIEWS))
    if len(statements) > 1:
        raise no_select(query, f"{len(statements)} statements")
    if statements[0].type not in {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN} or parsed["error"]:
        raise no_select(query, "a statement that is no SELECT")
    if refused:
        raise no_select(query, ", ".join(refused))


def fence(database: duckdb.DuckDBPyConnection) -> None:
    """Cut a database off from files and network, for good; what is open already stays open."""
    database.execute("SET enable_external_access = false")
    database.execute("SET lock_configuration = true")


def sql_text(text: str) -> str:
    """Quote text as a DuckDB SQL literal."""
    escaped = text.replace("'", "''")
    return f"'{escaped}'"


def no_select(query: str, observed: str) -> UsageError:
    """The error for a query that does more than SELECT from the tables."""
    return UsageError(
        "The query does more than read.",
        where=f"query: {query}",
        observed=observed,
        expected="one SELECT, WITH, FROM, VALUES, DESCRIBE, SUMMARIZE, SHOW, or EXPLAIN of one",
        next_step="For a file of the answer: --format csv, json or parquet, with -o FILE.",
    )


def _refused(parsed: Any, views: Collection[str]) -> Iterator[str]:
    """Yield the calls of forbidden functions, and the reads of DuckDB's own `views`."""
    if isinstance(parsed, dict):
        if parsed.get("type") == "TABLE_FUNCTION":
            name = str(parsed["function"].get("function_name", "a table function")).lower()
            if name not in TABLE_FUNCTIONS:
                yield f"a call of {name}"
        elif parsed.get("type") == "BASE_TABLE" and parsed["table_name"].lower() in views:
            yield f"a read of DuckDB's {parsed['table_name'].lower()}"
        elif "function_name" in parsed and parsed["function_name"].lower() in REFUSED_FUNCTIONS:
            yield f"a call of {parsed['function_name'].lower()}"
        parsed = list(parsed.values())
    if isinstance(parsed, list):
        for part in parsed:
            yield from _refused(part, views)
