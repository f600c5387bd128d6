"""SQL over the tables, wherever they are.

Where they lie in files that can be read without Spark, DuckDB does, and no JVM is started; else a SQL warehouse where one is
configured, or a Spark session. A session that the platform brings comes before a warehouse.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from types import ModuleType

    from jobs.readers.answer import Answer, Tables
    from lakehouse.table import Lakehouse


@contextlib.contextmanager
def connect(lakehouse: Lakehouse, names: Collection[str] | None = None) -> Iterator[Tables]:
    """Open the tables and `lakehouse.contracts.views`; closed at the end. Times are UTC.

    Args:
        lakehouse: Where the tables are.
        names: The tables and views that are needed; all by default.

    Raises:
        ToolError: What reads them is not installed.
        TidemarkError: They cannot be read.
    """
    if lakehouse.is_in_files:
        from jobs.readers import files

        with files.connect(lakehouse, names) as found:
            yield found
    else:
        with _by_sql(lakehouse).connect(lakehouse) as named:
            yield named


@contextlib.contextmanager
def run_query(lakehouse: Lakehouse, query: str) -> Iterator[Answer]:
    """Run a user's query over the tables and views; read the answer inside the `with` block.

    DuckDB takes its own SQL, a session or warehouse Spark's. The query can only read tables.

    Raises:
        UsageError: The query is not SQL, does more than read, or names a table or column that does not exist.
        TidemarkError: The query failed while it ran.
    """
    if lakehouse.is_in_files:
        from jobs.readers import files

        with files.run_query(lakehouse, query) as answer:
            yield answer
    else:
        with _by_sql(lakehouse).run_query(lakehouse, query) as named:
            yield named


def _by_sql(lakehouse: Lakehouse) -> ModuleType:
    from jobs.readers import in_warehouse

    if in_warehouse.is_configured(lakehouse):
        return in_warehouse
    from jobs.readers import in_spark

    return in_spark
