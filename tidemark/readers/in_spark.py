"""Tables that are read through a Spark session: those of a catalog, or under a root that only Spark reaches."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, ParseException

from lakehouse.contracts import views
from lakehouse.delta import tables
from lakehouse.delta.errors import SPARK_ERRORS
from lakehouse.errors import TidemarkError, headline
from lakehouse.spark.query_sandbox import beyond_tables, no_file_relations
from lakehouse.table import TABLE_NAMES
from tidemark.process.context import open_session, reporting
from tidemark.readers.answer import FETCHED_ROWS, Answer
from tidemark.readers.spark_sql import statement, translated, wrong

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakehouse.table import Lakehouse


@dataclass(frozen=True)
class Session:
    """A session in which the tables and views of a lakehouse have their bare names; `made` are its temporary views."""

    names: Collection[str]
    spark: SparkSession
    made: set[str] = field(default_factory=set)

    def rows(self, query: str, parameters: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        """Return the rows of one of our own queries, in DuckDB's SQL; each of `parameters` occurs in it as `$name`."""
        text, name = translated(query, parameters or {})
        if name is not None:
            self.spark.sql(text).createOrReplaceTempView(name)
            self.made.add(name)
            return []
        rows: list[dict[str, Any]] = self.spark.sql(text).toArrow().to_pylist()
        return rows


@contextlib.contextmanager
def connect(lakehouse: Lakehouse) -> Iterator[Session]:
    """Open the tables of a lakehouse, see `tidemark.readers.database.connect`; at the end the session's names are as before."""
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
    """Name the tables under a root, and the views over them, but no Gold models: a root has no list of them."""
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
def run_query(lakehouse: Lakehouse, query: str) -> Iterator[Answer]:
    """Run a query in Spark's SQL, see `tidemark.readers.database.run_query`, with the limits of a Gold model.

    It may name other tables of its catalogs.
    """
    with connect(lakehouse) as session:
        try:
            beyond = partial(beyond_tables, session.spark, is_in_catalog=lakehouse.root is None)
            checked = statement(query, beyond)
            with no_file_relations(session.spark):
                found = session.spark.sql(checked).toArrow()
        except (AnalysisException, ParseException) as error:
            raise wrong(query, error, session.names) from error
        except SPARK_ERRORS as error:
            raise TidemarkError("The query failed.", where=f"query: {query}", observed=headline(str(error))) from error
        yield Answer(found.column_names, _rows_of(found), partial(found.to_reader, FETCHED_ROWS))


def _rows_of(found: pa.Table) -> Iterator[tuple[Any, ...]]:
    for batch in found.to_batches(FETCHED_ROWS):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
