"""SQL over the tables: DuckDB reads tables in files, without a JVM; a Spark session reads the others."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakehouse.contracts import views
from lakehouse.table import TABLE_NAMES

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from lakehouse.table import Lakehouse

Rows = list[dict[str, Any]]

FETCHED_ROWS = 10_000
ALL = 2**31 - 1
"""No limit: null is not allowed in Spark's SQL."""


@dataclass(frozen=True)
class QueryResult:
    """The rows of a user's query, as Python values or Arrow batches; they can be read once."""

    columns: list[str]
    rows: Iterator[tuple[Any, ...]]
    arrow: Callable[[], pa.RecordBatchReader]


class Tables(ABC):
    """The tables and views of a lakehouse, for our own queries. `names` are those that exist."""

    names: Collection[str]

    @abstractmethod
    def rows(self, query: str, parameters: dict[str, Any] | None = None) -> Rows:
        """Return the rows of a query in DuckDB's SQL; each of `parameters` that it uses occurs in it as `$name`."""

    def have(self, query: str) -> bool:
        """Whether every table exists that a query reads, directly or by a view."""
        return with_tables_of_views(named(query)) <= {*self.names, *views.READ_BY}

    def rows_if_any(self, query: str, parameters: dict[str, Any] | None = None) -> Rows:
        """Return the rows of a query; none if a table that it reads does not exist yet."""
        return self.rows(query, parameters) if self.have(query) else []


def named(query: str) -> set[str]:
    """Return our tables and views that a query names."""
    return {*TABLE_NAMES, *views.READ_BY} & set(re.findall(r"\w+", query.casefold()))


def with_tables_of_views(names: Collection[str]) -> set[str]:
    """Add to names of tables and views the tables that these views read."""
    return {*names, *(table for name in names for table in views.READ_BY.get(name, ()))}


def not_there_yet(query: str, known: Collection[str]) -> str | None:
    """Return what to do if a query names one of our tables that does not exist yet; None if it names none.

    >>> not_there_yet("SELECT * FROM gold_latest", {"bronze_records"})
    'gold_latest is not there yet: `tidemark run` makes it, once the gate lets a load through.'
    """
    missing = sorted(named(query) - set(known))
    if not missing:
        return None
    when = ", once the gate lets a load through" if any(name.startswith("gold_") for name in missing) else ""
    return f"{' and '.join(missing)} is not there yet: `tidemark run` makes it{when}."


def connect(lakehouse: Lakehouse) -> AbstractContextManager[Tables]:
    """Open the tables and `lakehouse.contracts.views`; TidemarkError if they cannot be read. Times are UTC."""
    if lakehouse.is_in_files:
        from tidemark.readers import files

        return files.connect(lakehouse)
    from tidemark.readers import in_spark

    return in_spark.connect(lakehouse)


def run_query(lakehouse: Lakehouse, query: str) -> AbstractContextManager[QueryResult]:
    """Run a user's query, in DuckDB's SQL or a session's, which can only read; read the answer inside the `with` block.

    UsageError if it is not SQL, does more than read, or names a table or column that does not exist.
    """
    if lakehouse.is_in_files:
        from tidemark.readers import files

        return files.run_query(lakehouse, query)
    from tidemark.readers import in_spark

    return in_spark.run_query(lakehouse, query)
