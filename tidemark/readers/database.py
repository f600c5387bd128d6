"""SQL over the tables: DuckDB reads tables in files, without a JVM; a Spark session reads the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection
    from contextlib import AbstractContextManager

    from lakehouse.table import Lakehouse
    from tidemark.readers.answer import Answer
    from tidemark.readers.files import Database
    from tidemark.readers.in_spark import Session


def connect(lakehouse: Lakehouse, names: Collection[str] | None = None) -> AbstractContextManager[Database | Session]:
    """Open the tables and `lakehouse.contracts.views`, or those that `names` lists; closed at the end. Times are UTC.

    Raises:
        ToolError: The tool that reads them is not installed.
        TidemarkError: They cannot be read.
    """
    if lakehouse.is_in_files:
        from tidemark.readers import files

        return files.connect(lakehouse, names)
    from tidemark.readers import in_spark

    return in_spark.connect(lakehouse)


def run_query(lakehouse: Lakehouse, query: str) -> AbstractContextManager[Answer]:
    """Run a user's query over the tables and views; read the answer inside the `with` block.

    DuckDB takes its own SQL, a session Spark's. The query can only read tables.

    Raises:
        UsageError: The query is not SQL, does more than read, or names a table or column that does not exist.
        TidemarkError: The query failed while it ran.
    """
    if lakehouse.is_in_files:
        from tidemark.readers import files

        return files.run_query(lakehouse, query)
    from tidemark.readers import in_spark

    return in_spark.run_query(lakehouse, query)
