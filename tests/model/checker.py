"""A small explicit-state model checker: every state in reach, the shortest way to a bad one, and what hangs."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

State = TypeVar("State", bound="Hashable")


class Step(NamedTuple, Generic[State]):
    """A possible next step."""

    name: str  # as a counterexample prints it
    state: State  # the state after it
    # False for a crash or a lost table: it may happen, but no progress may depend on it
    is_help: bool = True


@dataclass(frozen=True)
class Model(Generic[State]):
    """A model to check."""

    start: State  # the first state
    steps: Callable[[State], Iterable[Step[State]]]  # all possible next steps of a state
    broken: Mapping[str, Callable[[State], bool]]  # safety: by kind, a test for a state that breaks the promise
    # liveness: all work is done. Helpful steps must lead from every state to such a state.
    is_finished: Callable[[State], bool]


@dataclass(frozen=True)
class Counterexample:
    """The shortest way to a forbidden state."""

    kind: str  # the promise that is broken, or `stuck`
    steps: tuple[str, ...]  # the names of the steps from the start

    def __str__(self) -> str:
        """One line per step."""
        return "\n".join([f"{self.kind} after {len(self.steps)} steps", *(f"  {n}. {s}" for n, s in enumerate(self.steps, 1))])


@dataclass(frozen=True)
class Outcome:
    """The result of an exploration."""

    states: int  # states that were reached
    transitions: int  # steps between them
    finished: int  # states in which all work is done
    stuck: int  # states from which no finished one can be reached
    # the shortest way to what is wrong; None where nothing is. A broken promise ends the exploration, so `finished` and `stuck`
    # are 0 then.
    counterexample: Counterexample | None

    def __str__(self) -> str:
        """For a message of an assertion."""
        return f"{self.states:,} states, {self.transitions:,} steps, {self.counterexample or 'nothing wrong'}"


@dataclass
class _Seen(Generic[State]):
    """The states that were reached, numbered in the order of their distance from the start."""

    numbers: dict[State, int] = field(default_factory=dict)
    states: list[State] = field(default_factory=list)
    reached_by: list[tuple[int, str]] = field(default_factory=list)
    sources: array[int] = field(default_factory=lambda: array("l"))
    targets: array[int] = field(default_factory=lambda: array("l"))
    transitions: int = 0

    def add(self, state: State, source: int, name: str) -> tuple[int, bool]:
        """The state's number, and whether it is new."""
        number = self.numbers.setdefault(state, len(self.states))
        is_new = number == len(self.states)
        if is_new:
            self.states.append(state)
            self.reached_by.append((source, name))
        return number, is_new

    def way_to(self, number: int) -> tuple[str, ...]:
        """The names of the steps from the start."""
        names = []
        while number:
            number, name = self.reached_by[number]
            names.append(name)
        return tuple(reversed(names))


class TooManyStatesError(Exception):
    """The model is larger than it was meant to be: a bound is missing."""


def explore(model: Model[State], *, most_states: int = 5_000_000) -> Outcome:
    """Visit every state that can be reached, the nearest first.

    Raises:
        TooManyStatesError: There are more than `most_states`.
    """
    seen: _Seen[State] = _Seen()
    for number in _visited(model, seen):
        if len(seen.states) > most_states:
            raise TooManyStatesError(f"more than {most_states:,} states")
        for kind, is_broken in model.broken.items():
            if is_broken(seen.states[number]):
                found = Counterexample(kind, seen.way_to(number))
                return Outcome(len(seen.states), seen.transitions, finished=0, stuck=0, counterexample=found)
    finished = [number for number, state in enumerate(seen.states) if model.is_finished(state)]
    stuck = _stuck(seen, finished)
    hangs = Counterexample("stuck", seen.way_to(stuck[0])) if stuck else None
    return Outcome(len(seen.states), seen.transitions, len(finished), len(stuck), hangs)


def _visited(model: Model[State], seen: _Seen[State]) -> Iterator[int]:
    """Number the states breadth first; each is handed out once, before its steps are taken."""
    seen.add(model.start, 0, "")
    number = 0
    while number < len(seen.states):
        yield number
        for step in model.steps(seen.states[number]):
            target, _ = seen.add(step.state, number, step.name)
            seen.transitions += 1
            if step.is_help:
                seen.sources.append(number)
                seen.targets.append(target)
        number += 1


def _stuck(seen: _Seen[State], finished: Iterable[int]) -> list[int]:
    """The states from which helpful steps lead to no finished one, the nearest to the start first."""
    before: list[list[int]] = [[] for _ in seen.states]
    for source, target in zip(seen.sources, seen.targets, strict=True):
        before[target].append(source)
    can_finish = bytearray(len(seen.states))
    waiting = list(finished)
    while waiting:
        number = waiting.pop()
        if not can_finish[number]:
            can_finish[number] = 1
            waiting.extend(before[number])
    return [number for number, is_fine in enumerate(can_finish) if not is_fine]
