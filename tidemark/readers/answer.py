"""What readers of the tables share: the answer to a user's query, and limits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakehouse.contracts import views
from lakehouse.table import TABLE_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    import pyarrow as pa

FETCHED_ROWS = 10_000

ALL = 2**31 - 1
"""No limit: null is not allowed in Spark's SQL."""


@dataclass(frozen=True)
class Answer:
    """The rows of a user's query, as Python values or Arrow batches; they can be read once."""

    columns: list[str]
    rows: Iterator[tuple[Any, ...]]
    arrow: Callable[[], pa.RecordBatchReader]


def not_there_yet(query: str, known: Collection[str]) -> str | None:
    """Return what to do if a query names one of our tables that does not exist yet; None if it names none.

    >>> not_there_yet("SELECT * FROM gold_latest", {"bronze_records"})
    'gold_latest is not there yet: `tidemark run` makes it, once the gate lets a load through.'
    """
    words = set(re.findall(r"\w+", query.casefold()))
    missing = sorted((words & {*TABLE_NAMES, *views.READ_BY}) - set(known))
    if not missing:
        return None
    when = ", once the gate lets a load through" if any(name.startswith("gold_") for name in missing) else ""
    return f"{' and '.join(missing)} is not there yet: `tidemark run` makes it{when}."
