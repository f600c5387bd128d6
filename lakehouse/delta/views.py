"""The views of a catalog's schema, created next to the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from lakehouse.contracts import views
from lakehouse.delta.errors import is_no_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.table import Lakehouse


def create(spark: SparkSession, lakehouse: Lakehouse, tables: set[str]) -> None:
    """Create a catalog's missing views that read one of these tables, except views that also read a missing table."""
    if lakehouse.root is not None:
        return
    for name, query in views.queries("spark", lambda each: lakehouse.table(each).sql).items():
        if not views.READ_BY[name] & tables:
            continue
        try:
            spark.sql(f"CREATE VIEW IF NOT EXISTS {lakehouse.table(name).sql} AS {query}")
        except AnalysisException as error:
            if not is_no_table(error):
                raise
