"""A run of a pipeline: its name, id, tables and report."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from lakehouse.run.schema_registry import SchemaRegistry
    from lakehouse.table import Lakehouse, Table


class Report(Protocol):
    """Receives the events of a run, for a terminal or a log."""

    def event(self, name: str, **fields: object) -> None:
        """Report an event, for example `silver.claimed` with its `load_seq` and counts."""


def new_id(now: datetime | None = None) -> str:
    """Return a short identifier that sorts by time.

    >>> new_id(datetime(2026, 11, 21, 9, 30, tzinfo=UTC))[:16]
    '20261121T093000-'
    """
    return f"{now or datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"


@dataclass(frozen=True)
class Run:
    """The context that all stages of a run share. `pipeline` and a table's name are the idempotency key of writes to it."""

    pipeline: str
    lakehouse: Lakehouse
    report: Report
    run_id: str = field(default_factory=new_id)
    registry: SchemaRegistry | None = None

    def table(self, name: str) -> Table:
        """Return a table of this run's lakehouse."""
        return self.lakehouse.table(name)

    def app_id(self, name: str) -> str:
        """Return the application id of this pipeline's transactions on a table."""
        return f"{self.pipeline}/{name}"
