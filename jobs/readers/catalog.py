"""Tables that a catalog names, read through a Spark session: the platform's, a Spark Connect server's, or one that is started.

Our queries are translated from DuckDB's SQL into Spark's, so that they count the same on both.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

from jobs.process.context import open_session, reporting
from jobs.readers.answer import FETCHED_ROWS
from jobs.readers.sql_guard import no_select
from lakehouse.contracts import views
from lakehouse.delta.errors import SPARK_ERRORS
from lakehouse.errors import TidemarkError, UsageError, headline
from lakehouse.spark.only_tables import as_query, beyond_tables
from lakehouse.spark.session import no_file_relations

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

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
class Schema:
    """The schema of a lakehouse, which is the session's current one.

    Attributes:
        names: Its tables and views.
        spark: The session.
    """

    names: Collection[str]
    spark: SparkSession

    def rows(self, query: str, parameters: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        """See `jobs.readers.answer.Tables`."""
        found = self.spark.sql(in_spark(query, parameters or {})).toArrow()
        rows: list[dict[str, Any]] = found.to_pylist()
        return rows


@contextlib.contextmanager
def connect(lakehouse: Lakehouse) -> Iterator[Schema]:
    """Open the schema of a lakehouse; the session's current one is what it was, at the end.

    Raises:
        ToolError: Java or the jars are missing.
        TidemarkError: There is no such schema, or the session may not read it.
    """
    with reporting() as report:
        spark = open_session(lakehouse, report, "tidemark")
    before = spark.catalog.currentCatalog(), spark.catalog.currentDatabase()
    where = f"{lakehouse.catalog}.{lakehouse.schema}"
    try:
        with _spark_errors_named(where):
            _use(spark, str(lakehouse.catalog), str(lakehouse.schema))
            names = [row["tableName"] for row in spark.sql("SHOW TABLES").collect() if not row["isTemporary"]]
            yield Schema(names, spark)
    finally:
        with contextlib.suppress(*SPARK_ERRORS):  # what was current may be gone
            _use(spark, *before)


def _use(spark: SparkSession, catalog: str, schema: str) -> None:
    spark.catalog.setCurrentCatalog(catalog)
    spark.catalog.setCurrentDatabase(schema)


@contextlib.contextmanager
def _spark_errors_named(where: str) -> Iterator[None]:
    try:
        yield
    except SPARK_ERRORS as error:
        raise TidemarkError(
            "The catalog's tables cannot be read.",
            where=where,
            observed=headline(str(error)),
            expected="a schema whose tables this session may read",
            next_step="Look at lakehouse.catalog, lakehouse.schema and the rights on them.",
        ) from error


@contextlib.contextmanager
def run_query(lakehouse: Lakehouse, query: str) -> Iterator[_Answer]:
    """Run a user's query in Spark's SQL, with the same limits as a Gold model; it may name other tables of its catalogs.

    Raises:
        UsageError: The query is not SQL, does more than read, or names a table or column that does not exist.
        TidemarkError: The query failed while it ran.
    """
    with connect(lakehouse) as schema:
        try:
            _require(schema.spark, query)
            with no_file_relations(schema.spark):
                answer = _Answer(schema.spark.sql(_limited(query)).toArrow())
        except (AnalysisException, ParseException) as error:
            raise UsageError(
                "The query cannot be answered.",
                where=f"query: {query}",
                observed=headline(str(error)),
                expected=f"Spark's SQL over tables: one of {', '.join(sorted(schema.names))}",
            ) from error
        except SPARK_ERRORS as error:
            raise TidemarkError("The query failed.", where=f"query: {query}", observed=headline(str(error))) from error
        yield answer


def _require(spark: SparkSession, query: str) -> None:
    if not query.strip().rstrip(";"):
        raise UsageError("There is nothing to answer.", where="query", observed=repr(query), expected="a SELECT")
    if _DESCRIBES.fullmatch(query):
        return
    if (beyond := beyond_tables(spark, _EXPLAIN.sub("", query, count=1), is_in_catalog=True)) is not None:
        raise no_select(query, beyond)


def _limited(query: str) -> str:
    """The statement to run: described as it is, everything else in brackets, so that it can only be a query."""
    if _DESCRIBES.fullmatch(query):
        return query.strip().rstrip(";")
    explained = _EXPLAIN.match(query)
    asked = explained.group() if explained else ""
    return asked + as_query(query[len(asked) :])


def in_spark(query: str, parameters: Mapping[str, Any]) -> str:
    """One of our queries in Spark's SQL. The views that it names are part of it: those beside the tables may be older.

    The parameters are put in as literals: with Delta's parser, Spark 4.2 does not bind them.

    >>> in_spark("FROM silver_loads SELECT count(*)::BIGINT AS n WHERE topic = $topic", {"topic": "it's"})
    "SELECT CAST(COUNT(*) AS BIGINT) AS n FROM silver_loads WHERE topic = CAST(X'69742773' AS STRING)"
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
    text = select.sql(dialect="spark")
    return f"CREATE OR REPLACE TEMPORARY VIEW {parsed.this.sql(dialect='spark')} AS {text}" if parsed.key == "create" else text


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
