"""What a stream's arrival order says about its producer, and the setting that fixes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from silver.audit.arrival_order import Order

_RACE = 10
"""Threads that number records get out of step by at most this much; beyond it whole batches were reordered."""


class Finding(NamedTuple):
    """One thing that a stream's order shows.

    Attributes:
        name: resends, reordering, numbering_race or no_sequence.
        evidence: What was seen.
        cure: What to set or change.
    """

    name: str
    evidence: str
    cure: str


def diagnose(order: Order) -> list[Finding]:
    """Diagnose the order of one stream; no findings if it rises, with or without gaps.

    Args:
        order: The arrival order in Bronze.
    """
    back, resent = [jump for jump in order.jumps if jump.kind == "JB"], [jump for jump in order.jumps if jump.block]
    farthest = max((jump.before - jump.sequence for jump in back), default=0)
    found = []
    if order.collisions:
        found.append(
            Finding(
                "no_sequence",
                f"{order.collisions} records have a number that another record had before",
                "Number each record once per stream; where the numbering starts anew, send a greater epoch.",
            )
        )
    if back and not order.duplicates and farthest <= _RACE:
        found.append(
            Finding(
                "numbering_race",
                f"{len(back)} steps back by at most {farthest}, and no duplicates",
                "Number and send in one step: several threads take numbers in one order and send in another.",
            )
        )
    elif back:
        found.append(
            Finding(
                "reordering",
                f"{len(back)} jumps back to numbers that were not read before, by at most {farthest}",
                "enable.idempotence=true; or max.in.flight.requests.per.connection=1, where the producer cannot be idempotent.",
            )
        )
    if resent and not back and not order.collisions:
        found.append(
            Finding(
                "resends",
                f"{len(resent)} blocks were sent again in order, {order.duplicates} records in all",
                "None is needed: the application or its client started again. Fewer come where it stores its position more "
                "often, or asks for its last accepted sequence (`tidemark status --json`) before it goes on.",
            )
        )
    return found
