"""Fields of an event that apply to later events too, for the log and the terminal view."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

BOUND = ("pipeline", "run_id")
"""Fields that apply to every later event, from the first event that carries them."""
WORKING = "working"
"""The suffix of the event that reports a stage's progress, see `lakehouse.spark.progress`."""


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
