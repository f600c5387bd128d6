"""The state of tables that will be written, computed while something else is at work.

After each commit Delta knows the log's files, but not the table's state: it asks for that by a query of its own when the next
append with a transaction, MERGE or replacement needs it. Asked for ahead, it waits in Delta's cache.
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
    """Compute the tables' state beside what the `with` block does, one after another, and be done when the block is.

    It changes no table and no result. What goes wrong here goes wrong again where the table is written, and is said there.
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
