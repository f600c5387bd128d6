"""What the log and the terminal view share: which fields of an event apply to later ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

BOUND = ("pipeline", "run_id")
"""Fields that apply to every later event, from the first event that carries them."""
WORKING = "working"
"""The event, after its stage's name, of a stage that is still working, see `lakehouse.spark.progress`."""
BOUND_IN_STAGE = ("load_seq",)
"""Fields that apply until another stage starts: the gate audits other loads than the one that Silver wrote last."""


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
