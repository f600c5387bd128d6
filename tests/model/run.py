"""Explore more than the tests do, and print what was found: `python -m tests.model.run`."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from tests.model.alternatives import ALTERNATIVES, LASTING
from tests.model.checker import explore
from tests.model.decision import Protocol
from tests.model.system import system
from tests.model.tables import Version, World

if TYPE_CHECKING:
    from tests.model.checker import Model, Outcome
    from tests.model.tables import Tables

_BOTH = Version()
_TWO_PARTITIONS = (Version(0), Version(1), Version(1))

OURS = {
    "Bronze grows three times": (Protocol(), World(bronze=(_BOTH,) * 3)),
    "the same, three crashes": (Protocol(), World(bronze=(_BOTH,) * 3, crashes=3)),
    "versions without kept or held records": (
        Protocol(),
        World(bronze=(Version(has_kept=False), Version(has_held=False), _BOTH)),
    ),
    "two partitions": (Protocol(), World(bronze=_TWO_PARTITIONS)),
    "a record is released": (Protocol(), World(has_release=True)),
    "the same, Bronze grows three times, one crash": (Protocol(), World(bronze=(_BOTH,) * 3, crashes=1, has_release=True)),
    "three runners, one crash": (Protocol(), World(runners=3, crashes=1)),
    "the watermark table is put back, no person": (Protocol(), World(restores=1)),
    "the same, a person answers the refusal": (Protocol(), World(restores=1, has_person=True)),
    "put back twice": (Protocol(), World(restores=2, crashes=1, has_person=True)),
    "put back, a record is released, one crash": (Protocol(), World(crashes=1, restores=1, has_person=True, has_release=True)),
    "put back, two partitions": (Protocol(), World(bronze=_TWO_PARTITIONS, restores=1, has_person=True)),
    "the same, advancing in any order": (
        Protocol(advances_in_order=False),
        World(bronze=_TWO_PARTITIONS, restores=1, has_person=True),
    ),
    "taken back, three runners": (Protocol(), World(bronze=(_BOTH,), crashes=0, swaps=1, runners=3)),
    "taken back, a record is released, one crash": (
        Protocol(),
        World(bronze=(_BOTH,), crashes=1, has_release=True, swaps=1),
    ),
    "taken back twice, two partitions, one crash": (Protocol(), World(bronze=_TWO_PARTITIONS, crashes=1, swaps=2)),
    "put back, two partitions, a record is released": (
        Protocol(),
        World(bronze=_TWO_PARTITIONS[:2], crashes=1, restores=1, has_person=True, has_release=True),
    ),
    "this one, advancing in any order": (
        Protocol(advances_in_order=False),
        World(bronze=_TWO_PARTITIONS[:2], crashes=1, restores=1, has_person=True, has_release=True),
    ),
}


def main() -> None:
    """Print each exploration as it ends."""
    for name, (protocol, world) in OURS.items():
        _tell(f"Ours: {name}", world, system(protocol, world))
    for alternative in ALTERNATIVES:
        for each in dict.fromkeys([alternative, alternative.with_checks]):
            checks = "with checks" if each.protocol.has_checks else "without checks"
            _tell(f"Not ours: {each.name}, {checks}", each.world, system(each.protocol, each.world, promises=LASTING))


def _tell(name: str, world: World, model: Model[Tables]) -> None:
    started = time.monotonic()
    outcome = explore(model)
    seconds = time.monotonic() - started
    sys.stdout.write(f"{name}\n  {_conditions(world)}\n  {_counts(outcome)}, {seconds:.1f} s\n")
    sys.stdout.write("".join(f"  {line}\n" for line in str(outcome.counterexample or "nothing wrong").splitlines()))
    sys.stdout.flush()


def _conditions(world: World) -> str:
    happens = (
        f"{world.runners} runners, {world.crashes} crashes, {len(world.bronze)} Bronze versions, {world.restores} put back"
    )
    return (
        happens
        + (", a person" if world.has_person else "")
        + (", a release" if world.has_release else "")
        + (f", {world.swaps} taken back" if world.swaps else "")
    )


def _counts(outcome: Outcome) -> str:
    stuck = f", {outcome.stuck:,} stuck" if outcome.stuck else ""
    return f"{outcome.states:,} states, {outcome.transitions:,} steps{stuck}"


if __name__ == "__main__":
    main()
