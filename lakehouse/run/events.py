"""Event fields that also apply to later events, for the log and the terminal view."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

BOUND = ("pipeline", "run_id")
"""Fields that apply to every later event, from the first event that carries them."""
WORKING = "working"
"""The suffix of the event of a stage that is still working, see `lakehouse.spark.progress`."""
BOUND_IN_STAGE = ("load_seq",)
"""Fields that apply until another stage starts: the gate may audit other loads than Silver's last one."""


def bind(bound: dict[str, object], name: str, fields: Mapping[str, object]) -> None:
    """Keep the fields of an event that apply to later ones.

    >>> bound = {"run_id": "r1", "load_seq": 7}
    >>> bind(bound, "gate.started", {})
    >>> bound
    {'run_id': 'r1'}
    """
    if name == "run.started":
        bound.clear()
    if name.endswith(".started"):
        for key in BOUND_IN_STAGE:
            bound.pop(key, None)
    bound.update({key: fields[key] for key in (*BOUND, *BOUND_IN_STAGE) if key in fields})
