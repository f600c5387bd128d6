"""Limits a query in Spark's SQL to reading tables: a Gold model, or a question to a catalog's tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakehouse.errors import headline
from lakehouse.settings import model_sql
from lakehouse.spark.session import brings_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def beyond_tables(spark: SparkSession, text: str, *, is_in_catalog: bool) -> str | None:
    """Return what a query reads or calls besides tables, without running it; None if nothing. Raises Spark's errors.

    With `is_in_catalog` it may also read a catalog's other tables: the catalog's permissions apply.
    """
    if (found := model_sql.problem(text)) is not None:
        return found
    with no_file_relations(spark):  # analysis of the plan must not open files either
        explained = "\n".join(row[0] for row in spark.sql(f"EXPLAIN EXTENDED {model_sql.as_query(text)}").collect())
    parsed, is_shown, _ = explained.partition("== Analyzed Logical Plan ==")
    if not is_shown:
        return f"a plan that cannot be looked at: {headline(explained)}"
    foreign = model_sql.foreign_relations(parsed, is_in_catalog=is_in_catalog)
    return f"what is not a table here: {', '.join(foreign)}" if foreign else None


@contextmanager
def no_file_relations(spark: SparkSession) -> Iterator[None]:
    """In a session started here, keep Spark from resolving a file as a table (``text.`/etc/hostname` ``)."""
    if brings_session():
        yield
        return
    spark.conf.set("spark.sql.runSQLOnFiles", "false")
    try:
        yield
    finally:
        spark.conf.set("spark.sql.runSQLOnFiles", "true")  # Tidemark's own tables are named by their folders
