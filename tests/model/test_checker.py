"""The checker, on machines so small that one sees what it must find."""

from collections.abc import Callable, Iterator

import pytest

from tests.model.checker import Model, Step, explore


@pytest.mark.parametrize(("is_help", "stuck"), [(True, 0), (False, 2)])
def test_nothing_may_need_a_harmful_step_to_finish(is_help: bool, stuck: int) -> None:
    def steps(state: str) -> Iterator[Step[str]]:
        if state == "waits":
            yield Step("waits on", "waits for ever")
        if state == "waits for ever":
            yield Step("waits on", "waits for ever")
            yield Step("is killed", "done", is_help)

    outcome = explore(Model("waits", steps, {}, lambda state: state == "done"))

    assert outcome.stuck == stuck
    assert (outcome.counterexample is None) == is_help


def test_a_model_without_a_bound_is_said_to_have_none() -> None:
    steps: Callable[[int], list[Step[int]]] = lambda number: [Step("add 1", number + 1)]  # noqa: E731 -- one line says it all

    with pytest.raises(AssertionError, match="more than 100 states"):
        explore(Model(0, steps, {}, lambda _: False), most_states=100)
