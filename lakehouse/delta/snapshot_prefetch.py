"""Computes the snapshots of tables that are about to be written while other work runs.

After a commit Delta queries the table's state only when the next append with a transaction, MERGE or replacement needs it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeAlias

from lakehouse.delta.errors import SPARK_ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from lakehouse.table import Table


Prefetch: TypeAlias = "Callable[[Sequence[Table]], object]"
"""Starts to compute the snapshots of tables."""


@contextmanager
def prefetch_snapshots(spark: SparkSession) -> Iterator[Prefetch]:
    """Yield a function that computes snapshots while the block runs. It ignores errors: they recur at the table's write."""

    def describe(table: Table) -> None:
        with suppress(*SPARK_ERRORS):
            spark.sql(f"DESCRIBE DETAIL {table.sql}").collect()

    with ThreadPoolExecutor() as pool:
        yield lambda tables: pool.map(describe, tables)
