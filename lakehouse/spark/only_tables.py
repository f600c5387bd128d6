"""Keep a query that somebody wrote, in Spark's SQL, to reading tables: a Gold model, or a question to a catalog's tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.settings import model_sql
from lakehouse.spark.session import no_file_relations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def beyond_tables(spark: SparkSession, text: str, *, is_in_catalog: bool) -> str | None:
    """What a query reads or calls beyond tables, before it runs; None if nothing. See `lakehouse.settings.model_sql`.

    Raises:
        pyspark.errors.PySparkException: Spark cannot read it.
    """

    def explain(statement: str) -> str:
        return "\n".join(row[0] for row in spark.sql(statement).collect())

    with no_file_relations(spark):  # the plan is analysed too, and no file is to be opened for that
        return model_sql.beyond_tables(text, explain, is_in_catalog=is_in_catalog)
