"""Keep a query that somebody wrote, in Spark's SQL, to reading tables: a Gold model, or a question to a catalog's tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.errors import headline
from lakehouse.settings.model_sql import foreign_relations, problem
from lakehouse.spark.session import no_file_relations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def as_query(text: str) -> str:
    r"""Wrap a text so that it can only be a query: in brackets, a statement that writes is a syntax error.

    >>> print(as_query("SELECT 1 -- one\n;\n"))
    SELECT * FROM (
    SELECT 1 -- one
    )
    """
    return f"SELECT * FROM (\n{text.strip().rstrip(';').rstrip()}\n)"  # noqa: S608 -- the operator's own text


def beyond_tables(spark: SparkSession, text: str, *, is_in_catalog: bool) -> str | None:
    """What a query reads or calls beyond tables, before it runs; None if nothing. See `lakehouse.settings.model_sql`.

    Args:
        spark: The session.
        text: The query, not yet wrapped.
        is_in_catalog: Whether it may read other tables of a catalog: the catalog's permissions apply.

    Raises:
        pyspark.errors.PySparkException: Spark cannot read it.
    """
    if (found := problem(text)) is not None:
        return found
    with no_file_relations(spark):  # the plan is analysed too, and no file is to be opened for that
        explained = "\n".join(row[0] for row in spark.sql(f"EXPLAIN EXTENDED {as_query(text)}").collect())
    parsed, is_shown, _ = explained.partition("== Analyzed Logical Plan ==")
    if not is_shown:
        return f"a plan that cannot be looked at: {headline(explained)}"
    foreign = foreign_relations(parsed, is_in_catalog=is_in_catalog)
    return f"a relation that is not a table here: {', '.join(foreign)}" if foreign else None
