"""A small explicit-state model checker: every state in reach, the shortest way to a bad one, and what hangs."""

from array import array
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

State = TypeVar("State", bound="Hashable")


class Step(NamedTuple, Generic[State]):
    name: str  # as a counterexample prints it
    state: State  # the state after it
    # False for a crash or a lost table: it may happen, but no progress may depend on it
    is_help: bool = True


@dataclass(frozen=True)
class Model(Generic[State]):
    start: State  # the first state
    steps: Callable[[State], Iterable[Step[State]]]  # all possible next steps of a state
    broken: Mapping[str, Callable[[State], bool]]  # safety: by kind, a test for a state that breaks the promise
    # liveness: all work is done. Helpful steps must lead from every state to such a state.
    is_finished: Callable[[State], bool]


@dataclass(frozen=True)
class Counterexample:
    kind: str  # the promise that is broken, or `stuck`
    steps: tuple[str, ...]  # the names of the steps from the start

    def __str__(self) -> str:
        return "\n".join([f"{self.kind} after {len(self.steps)} steps", *(f"  {n}. {s}" for n, s in enumerate(self.steps, 1))])


@dataclass(frozen=True)
class Outcome:
    states: int  # states that were reached
    transitions: int  # steps between them
    finished: int  # states in which all work is done
    stuck: int  # states from which no finished one can be reached
    # the shortest way to what is wrong, or None; a broken promise ends the search, so `finished` and `stuck` are 0 then
    counterexample: Counterexample | None

    def __str__(self) -> str:
        return f"{self.states:,} states, {self.transitions:,} steps, {self.counterexample or 'nothing wrong'}"


def assert_sound(outcome: Outcome) -> None:
    assert outcome.counterexample is None, outcome
    assert outcome.stuck == 0, outcome
    assert outcome.finished > 0, f"no way of doing all the work was found: {outcome}"


def explore(model: Model[State], *, most_states: int = 5_000_000) -> Outcome:
    """Visit every state that can be reached, the nearest first: a breadth-first search."""
    numbers, states, reached_by = {model.start: 0}, [model.start], [(0, "")]
    sources, targets, transitions = array("l"), array("l"), 0

    def way_to(number: int) -> tuple[str, ...]:
        names = []
        while number:
            number, name = reached_by[number]
            names.append(name)
        return tuple(reversed(names))

    for number, state in enumerate(states):  # which grows meanwhile
        assert len(states) <= most_states, f"more than {most_states:,} states: a bound is missing"
        for kind, is_broken in model.broken.items():
            if is_broken(state):
                found = Counterexample(kind, way_to(number))
                return Outcome(len(states), transitions, finished=0, stuck=0, counterexample=found)
        for step in model.steps(state):
            transitions += 1
            target = numbers.setdefault(step.state, len(states))
            if target == len(states):
                states.append(step.state)
                reached_by.append((number, step.name))
            if step.is_help:
                sources.append(number)
                targets.append(target)
    finished = [number for number, state in enumerate(states) if model.is_finished(state)]
    stuck = _stuck(len(states), sources, targets, finished)
    hangs = Counterexample("stuck", way_to(stuck[0])) if stuck else None
    return Outcome(len(states), transitions, len(finished), len(stuck), hangs)


def _stuck(states: int, sources: Iterable[int], targets: Iterable[int], finished: Iterable[int]) -> list[int]:
    before: list[list[int]] = [[] for _ in range(states)]
    for source, target in zip(sources, targets, strict=True):
        before[target].append(source)
    can_finish = bytearray(states)
    waiting = list(finished)
    while waiting:
        number = waiting.pop()
        if not can_finish[number]:
            can_finish[number] = 1
            waiting.extend(before[number])
    return [number for number, is_fine in enumerate(can_finish) if not is_fine]
