"""Tables that are read through a Spark session: those of a catalog, and those under a root that only Spark reaches.

The session is the platform's, a Spark Connect server's, or one that is started.

Our queries are translated from DuckDB's SQL into Spark's, so that they count the same on both.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

from jobs.process.context import open_session, reporting
from jobs.readers.answer import FETCHED_ROWS, not_there_yet
from jobs.readers.sql_guard import no_select
from lakehouse.contracts import views
from lakehouse.delta import tables
from lakehouse.delta.errors import SPARK_ERRORS
from lakehouse.errors import TidemarkError, UsageError, headline
from lakehouse.spark.only_tables import as_query, beyond_tables
from lakehouse.spark.session import no_file_relations
from lakehouse.table import TABLE_NAMES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    import pyarrow as pa

    from lakehouse.table import Lakehouse

_DESCRIBES = re.compile(r"\s*(SHOW\s+(TABLES|VIEWS)|DESC(RIBE)?\s+(TABLE\s+)?(EXTENDED\s+)?\w+(\.\w+)*)\s*;?\s*", re.IGNORECASE)
_EXPLAIN = re.compile(r"\s*EXPLAIN\s+((EXTENDED|CODEGEN|COST|FORMATTED)\s+)?", re.IGNORECASE)


@dataclass(frozen=True)
class _Answer:
    """An answer that has arrived whole."""

    table: pa.Table

    @property
    def columns(self) -> list[str]:
        return list(self.table.column_names)

    @property
    def rows(self) -> Iterator[tuple[Any, ...]]:
        for batch in self.table.to_batches(FETCHED_ROWS):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def arrow(self) -> pa.RecordBatchReader:
        return self.table.to_reader(FETCHED_ROWS)


@dataclass(frozen=True)
class Session:
    """A session in which the tables of a lakehouse have their bare names.

    Attributes:
        names: The tables, and the views beside them.
        spark: The session.
        made: The temporary views that queries have made.
    """

    names: Collection[str]
    spark: SparkSession
    made: set[str] = field(default_factory=set)

    def rows(self, query: str, parameters: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        """See `jobs.readers.answer.Tables`."""
        text, name = translated(query, parameters or {})
        if name is not None:
            self.spark.sql(text).createOrReplaceTempView(name)
            self.made.add(name)
            return []
        rows: list[dict[str, Any]] = self.spark.sql(text).toArrow().to_pylist()
        return rows


@contextlib.contextmanager
def connect(lakehouse: Lakehouse) -> Iterator[Session]:
    """Open the tables of a lakehouse; the session's names are what they were, at the end.

    Raises:
        ToolError: Java or the jars are missing.
        TidemarkError: The catalog has no such schema, or the session may not read it.
    """
    with reporting() as report:
        spark = open_session(lakehouse, report, "tidemark")
    with _spark_errors_named(lakehouse.name), (_schema if lakehouse.root is None else _views)(spark, lakehouse) as names:
        session = Session(names, spark)
        try:
            yield session
        finally:
            _drop(spark, session.made)


@contextlib.contextmanager
def _schema(spark: SparkSession, lakehouse: Lakehouse) -> Iterator[list[str]]:
    """Make the schema of a lakehouse the current one."""
    before = spark.catalog.currentCatalog(), spark.catalog.currentDatabase()
    try:
        _use(spark, str(lakehouse.catalog), str(lakehouse.schema))
        yield [row["tableName"] for row in spark.sql("SHOW TABLES").collect() if not row["isTemporary"]]
    finally:
        with contextlib.suppress(*SPARK_ERRORS):  # what was current may be gone
            _use(spark, *before)


def _use(spark: SparkSession, catalog: str, schema: str) -> None:
    spark.catalog.setCurrentCatalog(catalog)
    spark.catalog.setCurrentDatabase(schema)


@contextlib.contextmanager
def _views(spark: SparkSession, lakehouse: Lakehouse) -> Iterator[list[str]]:
    """Name the tables under a root, and the views over them. Gold models are not among them: a root has no list."""
    made: list[str] = []
    try:
        for name in TABLE_NAMES:
            if (rows := tables.found(spark, lakehouse.table(name))) is not None:
                rows.createOrReplaceTempView(name)
                made.append(name)
        for name, query in views.queries("spark").items():
            if views.READ_BY[name] <= set(made):
                spark.sql(query).createOrReplaceTempView(name)
                made.append(name)
        yield made
    finally:
        _drop(spark, made)


def _drop(spark: SparkSession, names: Iterable[str]) -> None:
    for name in names:
        spark.catalog.dropTempView(name)


@contextlib.contextmanager
def _spark_errors_named(where: str) -> Iterator[None]:
    try:
        yield
    except SPARK_ERRORS as error:
        raise TidemarkError(
            "The tables cannot be read.",
            where=where,
            observed=headline(str(error)),
            expected="tables that this session may read",
            next_step="Look at the keys of lakehouse, at the rights on its tables, and at the session: see docs/catalogs.md.",
        ) from error


@contextlib.contextmanager
def run_query(lakehouse: Lakehouse, query: str) -> Iterator[_Answer]:
    """Run a user's query in Spark's SQL, with the same limits as a Gold model; it may name other tables of its catalogs.

    Raises:
        UsageError: The query is not SQL, does more than read, or names a table or column that does not exist.
        TidemarkError: The query failed while it ran.
    """
    with connect(lakehouse) as session:
        try:
            statement = _statement(session.spark, query, is_in_catalog=lakehouse.root is None)
            with no_file_relations(session.spark):
                answer = _Answer(session.spark.sql(statement).toArrow())
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
        yield answer


def _statement(spark: SparkSession, query: str, *, is_in_catalog: bool) -> str:
    """The statement to run: described as it is, everything else in brackets, so that it can only be a query.

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
    if (beyond := beyond_tables(spark, read, is_in_catalog=is_in_catalog)) is not None:
        raise no_select(query, beyond)
    return asked + as_query(read)


def translated(query: str, parameters: Mapping[str, Any]) -> tuple[str, str | None]:
    """One of our queries in Spark's SQL, and the name of the temporary table that it makes, if it makes one.

    The views that it names are part of it: those beside the tables may be older.

    The parameters are put in as literals: with Delta's parser, Spark 4.2 does not bind them.

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
    """A parameter's value in Spark's SQL. A text as bytes: nothing in it is then read as SQL, or as a variable.

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
