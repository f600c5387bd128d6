"""Tables that are read through a Spark session: those of a catalog, or under a root that only Spark reaches.

Our own queries are translated from DuckDB's SQL, so that both engines count the same. A user's query is in Spark's SQL.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, ParseException

from lakehouse.contracts import views
from lakehouse.delta import tables
from lakehouse.delta.errors import SPARK_ERRORS
from lakehouse.errors import TidemarkError, UsageError, headline
from lakehouse.settings.model_sql import as_query
from lakehouse.spark.query_sandbox import beyond_tables, no_file_relations
from lakehouse.table import TABLE_NAMES
from tidemark.process.context import open_session, reporting
from tidemark.readers.database import FETCHED_ROWS, QueryResult, Rows, Tables, not_there_yet
from tidemark.readers.sql_guard import no_select

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.table import Lakehouse


_DESCRIBES = re.compile(r"\s*(SHOW\s+(TABLES|VIEWS)|DESC(RIBE)?\s+(TABLE\s+)?(EXTENDED\s+)?\w+(\.\w+)*)\s*;?\s*", re.IGNORECASE)
_EXPLAIN = re.compile(r"\s*EXPLAIN\s+((EXTENDED|CODEGEN|COST|FORMATTED)\s+)?", re.IGNORECASE)


@dataclass
class Session(Tables):
    """A session in which the tables and views of a lakehouse have their bare names."""

    names: Collection[str]
    spark: SparkSession

    def rows(self, query: str, parameters: dict[str, Any] | None = None) -> Rows:
        """See `Tables.rows`."""
        rows: Rows = self.spark.sql(translated(query, parameters or {})).toArrow().to_pylist()
        return rows


@contextlib.contextmanager
def connect(lakehouse: Lakehouse) -> Iterator[Session]:
    """Open the tables of a lakehouse, see `tidemark.readers.database.connect`; at the end the session's names are as before."""
    with reporting() as report:
        spark = open_session(lakehouse, report, "tidemark")
    try:
        with (_schema if lakehouse.root is None else _views)(spark, lakehouse) as names:
            yield Session(names, spark)
    except SPARK_ERRORS as error:
        raise TidemarkError(
            "The tables cannot be read.",
            where=lakehouse.name,
            observed=headline(str(error)),
            expected="tables that this session may read",
            next_step="Look at the keys of lakehouse, at the rights on its tables, and at the session: see docs/catalogs.md.",
        ) from error


@contextlib.contextmanager
def _schema(spark: SparkSession, lakehouse: Lakehouse) -> Iterator[list[str]]:
    before = spark.catalog.currentCatalog(), spark.catalog.currentDatabase()
    try:
        spark.catalog.setCurrentCatalog(str(lakehouse.catalog))
        spark.catalog.setCurrentDatabase(str(lakehouse.schema))
        yield [row["tableName"] for row in spark.sql("SHOW TABLES").collect() if not row["isTemporary"]]
    finally:
        with contextlib.suppress(*SPARK_ERRORS):  # the former catalog or schema may be gone
            spark.catalog.setCurrentCatalog(before[0])
            spark.catalog.setCurrentDatabase(before[1])


@contextlib.contextmanager
def _views(spark: SparkSession, lakehouse: Lakehouse) -> Iterator[list[str]]:
    """Name the tables under a root, and the views over them, but no Gold models: a root has no list of them."""
    made: list[str] = []
    try:
        for name in TABLE_NAMES:
            if (rows := tables.open_if_exists(spark, lakehouse.table(name))) is not None:
                rows.createOrReplaceTempView(name)
                made.append(name)
        for name, query in views.queries().items():
            if views.READ_BY[name] <= set(made):
                spark.sql(query).createOrReplaceTempView(name)
                made.append(name)
        yield made
    finally:
        for name in made:
            spark.catalog.dropTempView(name)


@contextlib.contextmanager
def run_query(lakehouse: Lakehouse, query: str) -> Iterator[QueryResult]:
    """See `tidemark.readers.database.run_query`. The query has a Gold model's limits, and all tables of its catalogs."""
    with connect(lakehouse) as session:
        try:
            beyond = partial(beyond_tables, session.spark, is_in_catalog=lakehouse.root is None)
            checked = statement(query, beyond)
            with no_file_relations(session.spark):
                found = session.spark.sql(checked).toArrow()
        except (AnalysisException, ParseException) as error:
            raise UsageError(
                "The query cannot be answered.",
                where=f"query: {query}",
                observed=headline(str(error)),
                expected=f"Spark's SQL over tables: one of {', '.join(sorted(session.names))}",
                next_step=not_there_yet(query, session.names),
            ) from error
        except SPARK_ERRORS as error:
            raise TidemarkError("The query failed.", where=f"query: {query}", observed=headline(str(error))) from error
        batches = found.to_batches(FETCHED_ROWS)
        rows = (row for batch in batches for row in zip(*(each.to_pylist() for each in batch.columns), strict=True))
        yield QueryResult(found.column_names, rows, partial(found.to_reader, FETCHED_ROWS))


def statement(query: str, beyond_tables: Callable[[str], str | None]) -> str:
    """Return the statement to run: a DESCRIBE unchanged, everything else in brackets, so that it can only be a query.

    UsageError if it does more than read tables: `beyond_tables` says what.
    """
    if not query.strip().rstrip(";"):
        raise UsageError("There is nothing to answer.", where="query", observed=repr(query), expected="a SELECT")
    if _DESCRIBES.fullmatch(query):
        return query.strip().rstrip(";")
    explained = _EXPLAIN.match(query)
    prefix = explained.group() if explained else ""
    read = query.removeprefix(prefix)
    if (beyond := beyond_tables(read)) is not None:
        raise no_select(query, beyond)
    return prefix + as_query(read)


def translated(query: str, parameters: Mapping[str, Any]) -> str:
    """Translate one of our queries to Spark's SQL.

    The query takes in the views that it names: those in the catalog may be older. Parameters become literals: with Delta's
    parser, Spark 4.2 does not bind them.

    >>> translated("FROM silver_loads SELECT count(*)::BIGINT AS n WHERE topic = $topic", {"topic": "it's"})
    "SELECT CAST(COUNT(*) AS BIGINT) AS n FROM silver_loads WHERE topic = CAST(X'69742773' AS STRING)"
    """
    import sqlglot
    from sqlglot import expressions as exp

    select: Any = sqlglot.parse_one(query, read="duckdb").transform(
        lambda node: exp.Var(this=_literal(parameters[node.name])) if isinstance(node, exp.Placeholder) else node
    )
    for name in sorted({table.name for table in select.find_all(exp.Table)} & views.READ_BY.keys()):
        select.with_(name, as_=views.queries()[name], dialect="spark", copy=False)
    text: str = select.sql(dialect="spark")
    return text


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
