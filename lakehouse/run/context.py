"""A run of a pipeline: its name, id, tables and report."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from lakehouse.table import Lakehouse, Table

BOUND = ("pipeline", "run_id")  # apply to every later event, from the first one that has them
WORKING = "working"  # the suffix of the event of a stage's progress, see `lakehouse.spark.progress`


class Report(Protocol):
    """Receives the events of a run, for a terminal or a log."""

    def event(self, name: str, **fields: object) -> None:
        """Report an event, for example `silver.claimed` with its `load_seq` and counts."""


def bind(bound: dict[str, object], name: str, fields: Mapping[str, object]) -> None:
    """Keep the fields of an event that apply to later ones: BOUND, and `load_seq` until another stage starts.

    >>> bound = {"run_id": "r1", "load_seq": 7}
    >>> bind(bound, "gate.started", {})
    >>> bound
    {'run_id': 'r1'}
    """
    if name == "run.started":
        bound.clear()
    if name.endswith(".started"):
        bound.pop("load_seq", None)  # the gate may audit other loads than Silver's last one
    bound.update({key: fields[key] for key in (*BOUND, "load_seq") if key in fields})


class SchemaRegistry(Protocol):
    """Maps the ids that values begin with to schemas."""

    def of_format(self, given: str, number: int, *, met_at: str) -> str:
        """Return the schema of an id for values of a format, empty if it is of another kind; `met_at` is a record's place."""


def new_id() -> str:
    """Return a short identifier that sorts by time, such as `20261121T093000-5b1e0c`."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"


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
