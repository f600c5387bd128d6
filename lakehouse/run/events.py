"""What both ways to follow a run share: which fields of an event stay with the later ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

BOUND = ("pipeline", "run_id")
"""Fields that stay with every later event, from the first event that carries them."""
WORKING = "working"
"""What is told after the name of a stage that is long at work, see `lakehouse.spark.progress`."""
BOUND_IN_STAGE = ("load_seq",)
"""Fields that stay until another stage starts: the gate audits other loads than the one that Silver wrote last."""


def bind(bound: dict[str, object], name: str, fields: Mapping[str, object]) -> None:
    """Keep of an event what belongs to the later ones too.

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
