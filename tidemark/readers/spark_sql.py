"""Queries in Spark's SQL: our own, translated from DuckDB's so that both count the same, and a user's, to read only."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lakehouse.contracts import views
from lakehouse.errors import UsageError, headline
from lakehouse.settings.model_sql import as_query
from tidemark.readers.answer import not_there_yet
from tidemark.readers.sql_guard import no_select

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

_DESCRIBES = re.compile(r"\s*(SHOW\s+(TABLES|VIEWS)|DESC(RIBE)?\s+(TABLE\s+)?(EXTENDED\s+)?\w+(\.\w+)*)\s*;?\s*", re.IGNORECASE)
_EXPLAIN = re.compile(r"\s*EXPLAIN\s+((EXTENDED|CODEGEN|COST|FORMATTED)\s+)?", re.IGNORECASE)


def statement(query: str, beyond_tables: Callable[[str], str | None]) -> str:
    """Return the statement to run: a DESCRIBE unchanged, everything else in brackets, so that it can only be a query.

    `beyond_tables` names what a query reads or calls beyond tables, or None.

    Raises:
        UsageError: It does more than read tables.
    """
    if not query.strip().rstrip(";"):
        raise UsageError("There is nothing to answer.", where="query", observed=repr(query), expected="a SELECT")
    if _DESCRIBES.fullmatch(query):
        return query.strip().rstrip(";")
    explained = _EXPLAIN.match(query)
    asked = explained.group() if explained else ""
    read = query[len(asked) :]
    if (beyond := beyond_tables(read)) is not None:
        raise no_select(query, beyond)
    return asked + as_query(read)


def wrong(query: str, error: Exception, names: Collection[str]) -> UsageError:
    """Return the error for a user's query with wrong syntax, or a name that does not exist."""
    return UsageError(
        "The query cannot be answered.",
        where=f"query: {query}",
        observed=headline(str(error)),
        expected=f"Spark's SQL over tables: one of {', '.join(sorted(names))}",
        next_step=not_there_yet(query, names),
    )


def translated(query: str, parameters: Mapping[str, Any]) -> tuple[str, str | None]:
    """Translate one of our queries to Spark's SQL; and the name of the temporary table that it makes, or None.

    The views that it names become part of it: those in the catalog may be older. Parameters become literals: with Delta's
    parser, Spark 4.2 does not bind them.

    >>> translated("FROM silver_loads SELECT count(*)::BIGINT AS n WHERE topic = $topic", {"topic": "it's"})
    ("SELECT CAST(COUNT(*) AS BIGINT) AS n FROM silver_loads WHERE topic = CAST(X'69742773' AS STRING)", None)
    >>> translated("CREATE OR REPLACE TEMP TABLE t AS FROM silver_loads", {})
    ('SELECT * FROM silver_loads', 't')
    """
    import sqlglot
    from sqlglot import expressions as exp

    parsed = sqlglot.parse_one(query, read="duckdb").transform(
        lambda node: exp.Var(this=_literal(parameters[node.name])) if isinstance(node, exp.Placeholder) else node
    )
    select = parsed if isinstance(parsed, exp.Query) else parsed.expression
    named = {table.name for table in parsed.find_all(exp.Table)} & views.READ_BY.keys()
    for name in sorted(named):
        select.with_(name, as_=views.queries("spark")[name], dialect="spark", copy=False)
    return select.sql(dialect="spark"), None if select is parsed else parsed.this.name


def _literal(value: Any) -> str:
    """Write a parameter as a literal; a text as bytes, so that nothing in it is read as SQL.

    >>> _literal([7, None, "a"]), _literal(datetime.fromisoformat("2026-11-21T09:00:00+00:00"))
    ("array(7, NULL, CAST(X'61' AS STRING))", "TIMESTAMP '2026-11-21T09:00:00+00:00'")
    """
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return f"CAST(X'{value.encode().hex()}' AS STRING)"
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.isoformat()}'"
    if isinstance(value, list):
        return f"array({', '.join(map(_literal, value))})"
    return str(int(value))
