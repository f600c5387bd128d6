"""Compute the snapshots of tables that are about to be written while other work runs.

After a commit Delta knows the log's files but not the table's state: it runs a query for that when the next append with a
transaction, MERGE or replacement needs it. Prefetched, the state waits in Delta's cache.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from threading import Thread
from typing import TYPE_CHECKING

from lakehouse.delta.errors import SPARK_ERRORS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from lakehouse.table import Table


@contextmanager
def prefetch_snapshots(spark: SparkSession, tables: Sequence[Table]) -> Iterator[None]:
    """Compute the tables' snapshots one after another while the `with` block runs, and wait for them at its end.

    Changes no table and no result. An error is ignored here: it recurs, and is reported, when the table is written.
    """
    thread = Thread(target=_ask, args=(spark, tables), daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _ask(spark: SparkSession, tables: Sequence[Table]) -> None:
    for table in tables:
        with suppress(*SPARK_ERRORS):
            spark.sql(f"DESCRIBE DETAIL {table.sql}").collect()
