"""What a command that reads gets: the tables that exist, rows of its own queries, and the answer to a user's."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from lakehouse.contracts import views
from lakehouse.table import TABLE_NAMES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import pyarrow as pa

    Rows = list[dict[str, Any]]

FETCHED_ROWS = 10_000

ALL = 2**31 - 1
"""A limit that limits nothing; none may be null in Spark's SQL."""


class Tables(Protocol):
    """The tables of a lakehouse, opened to be read."""

    @property
    def names(self) -> Collection[str]:
        """The tables that exist."""

    def rows(self, query: str, parameters: dict[str, Any] | None = None) -> Rows:
        """The rows of one of our own queries, as dictionaries by column name.

        Args:
            query: In DuckDB's SQL, over tables and views by their bare names; parameters are `$name`.
            parameters: Their values; each must occur in the query.
        """


def not_there_yet(query: str, known: Collection[str]) -> str | None:
    """What to do where a query names a table of ours that is not there yet; None if it names none.

    >>> not_there_yet("SELECT * FROM gold_latest", {"bronze_records"})
    'gold_latest is not there yet: `tidemark run` makes it, once the gate lets a load through.'
    """
    words = set(re.findall(r"\w+", query.casefold()))
    missing = sorted((words & {*TABLE_NAMES, *views.READ_BY}) - set(known))
    if not missing:
        return None
    when = ", once the gate lets a load through" if any(name.startswith("gold_") for name in missing) else ""
    return f"{' and '.join(missing)} is not there yet: `tidemark run` makes it{when}."


class Answer(Protocol):
    """The rows of a user's query; they can be read once."""

    @property
    def columns(self) -> list[str]:
        """The columns' names."""

    @property
    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The rows as Python values."""

    def arrow(self) -> pa.RecordBatchReader:
        """The rows as Arrow batches."""


@dataclass(frozen=True)
class Arrived:
    """An answer that has arrived whole."""

    table: pa.Table

    @property
    def columns(self) -> list[str]:
        """The columns' names."""
        return list(self.table.column_names)

    @property
    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The rows as Python values."""
        for batch in self.table.to_batches(FETCHED_ROWS):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def arrow(self) -> pa.RecordBatchReader:
        """The rows as Arrow batches."""
        return self.table.to_reader(FETCHED_ROWS)
