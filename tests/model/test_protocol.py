"""A load in every interleaving: our steps lose nothing, double nothing and never hang; others do."""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from silver.load import cutover, recover, steps
from tests.model import alternatives
from tests.model.alternatives import ALTERNATIVES, LASTING, Alternative
from tests.model.checker import Outcome, explore
from tests.model.decision import ORDER, Protocol
from tests.model.protocol import PARTS, STEPS, SWAP_ORDER, SWAP_STEPS
from tests.model.system import system
from tests.model.tables import Version, World

if TYPE_CHECKING:
    from collections.abc import Callable

TWO_PARTITIONS = (Version(0), Version(1), Version(1))

EXPECTED = {
    alternatives.WATERMARK_FIRST: ("loss", 9),
    alternatives.NO_TRANSACTIONS: ("duplicate", 13),
    alternatives.NO_CLAIM: ("loss", 17),
    alternatives.BATCH_IDS: ("duplicate", 13),
    alternatives.PLANS_ANEW: ("duplicate", 21),
    alternatives.NOT_READ_BACK: ("loss", 17),
    alternatives.REJECTS_LAST: ("loss", 10),
    alternatives.MERGE_WITH_TRANSACTION: ("stuck", 11),
    alternatives.FORGETFUL_RELEASE: ("stuck", 19),
    alternatives.SWAP_NOT_NOTED: ("duplicate", 36),
    alternatives.MARK_IS_BLIND: ("released nowhere", 30),
    alternatives.MARK_ONLY_LOOKS: ("released nowhere", 30),
    alternatives.ADVANCE_PAST_SWAP: ("loss", 40),
}
"""What each alternative comes to, and after how many steps at the earliest."""


def calls(function: Callable[..., object]) -> list[str]:
    """The names of the functions that a function calls, in the order of its lines."""
    found = [node for node in ast.walk(ast.parse(inspect.getsource(function))) if isinstance(node, ast.Call)]
    named = [(node.lineno, ast.unparse(node.func).rpartition(".")[2]) for node in found]
    return [name for _, name in sorted(named, key=lambda each: each[0])]


def checked(protocol: Protocol, world: World, record: Callable[[str, object], None]) -> Outcome:
    outcome = explore(system(protocol, world))
    record("states", outcome.states)
    record("steps", outcome.transitions)
    return outcome


@pytest.mark.parametrize(
    "world",
    [
        pytest.param(World(), id="two crashes, Bronze grows twice"),
        pytest.param(World(bronze=(Version(),) * 3, crashes=1), id="one crash, Bronze grows three times"),
        pytest.param(World(bronze=(Version(has_kept=False), Version(has_held=False))), id="loads without kept or held records"),
        pytest.param(World(bronze=TWO_PARTITIONS, crashes=1), id="two partitions"),
        pytest.param(World(crashes=1, has_release=True), id="a record is released"),
        pytest.param(World(restores=1, has_person=True), id="the watermark table is emptied or put back"),
        pytest.param(World(bronze=(Version(0), Version(1)), crashes=1, swaps=1), id="all tables are taken back"),
        pytest.param(World(bronze=(Version(),), crashes=0, has_release=True, swaps=1), id="taken back, and a release"),
    ],
)
def test_nothing_is_lost_nothing_is_twice_and_nothing_hangs(
    world: World, record_property: Callable[[str, object], None]
) -> None:
    outcome = checked(Protocol(), world, record_property)

    assert outcome.counterexample is None, outcome
    assert outcome.stuck == 0, outcome
    assert outcome.finished > 0, f"no way of doing all the work was found: {outcome}"


@pytest.mark.parametrize("alternative", ALTERNATIVES, ids=lambda alternative: alternative.name)
def test_any_other_way_fails(alternative: Alternative) -> None:
    outcome = explore(system(alternative.protocol, alternative.world, promises=LASTING))

    assert outcome.counterexample is not None, outcome
    assert (outcome.counterexample.kind, len(outcome.counterexample.steps)) == EXPECTED[alternative], outcome


@pytest.mark.parametrize("alternative", ALTERNATIVES, ids=lambda alternative: alternative.name)
def test_the_checks_of_recover_come_too_late_for_another_way(alternative: Alternative) -> None:
    other = alternative.with_checks
    outcome = explore(system(other.protocol, other.world, promises=LASTING))

    assert outcome.counterexample is not None, outcome
    assert outcome.counterexample.kind == EXPECTED[alternative][0], outcome


def test_without_a_person_a_watermark_table_that_was_emptied_stays_refused(
    record_property: Callable[[str, object], None],
) -> None:
    outcome = checked(Protocol(), World(crashes=1, restores=1), record_property)

    assert outcome.counterexample is not None, outcome
    assert outcome.counterexample.kind == "stuck", outcome
    assert outcome.counterexample.steps[-1] == "the watermark table is emptied", "nothing else makes a refusal that lasts"


def test_a_watermark_table_emptied_under_a_run_at_work_does_no_harm_since_the_merge_moves_nothing_then(
    record_property: Callable[[str, object], None],
) -> None:
    """Without that the MERGE brings back the rows of its own load only, the table looks whole, and others are read again."""
    world = World(bronze=TWO_PARTITIONS, crashes=0, restores=1, has_person=True)

    ours = checked(Protocol(), world, record_property)
    without = checked(Protocol(advances_in_order=False), world, record_property)

    assert ours.counterexample is None, ours
    assert without.counterexample is not None, without
    assert (without.counterexample.kind, len(without.counterexample.steps)) == ("duplicate", 29), without


def test_the_steps_are_functions_of_the_code() -> None:
    for name, module in {**STEPS, **SWAP_STEPS}.items():
        function = getattr(import_module(module), name)
        assert inspect.isfunction(function), f"{module}.{name}"
        assert function.__module__ == module, f"{name} is defined in {function.__module__}"

    assert {at.partition(":")[0] for at in PARTS} | {"planned_again", "plan_request", "restore"} == {*STEPS, *SWAP_STEPS}


def test_the_code_takes_the_steps_in_the_order_of_the_model() -> None:
    assert [name for name in calls(steps._carry_out) if name in STEPS] == list(ORDER[1:])
    assert [name for name in calls(cutover.carry_out) if name in ("close", "_cut", "delete", "_overwrite")] == [
        "close",
        "_cut",
        "delete",  # of the ledger's rows
        "_overwrite",  # of the watermarks
    ]
    assert [at.partition(":")[0] for at in SWAP_ORDER] == [
        "restore",
        "claim",
        *["close"] * 3,
        *["_cut"] * 3,
        *["carry_out"] * 2,
    ]
    named = {*STEPS, "carry_out", "finish"}
    assert [name for name in calls(steps.load_once) if name in named] == ["recover", "finish", "plan", "claim", "carry_out"]
    assert [name for name in calls(steps.finish) if name in named] == [
        "carry_out",
        "planned_again",
        "carry_out",
    ]  # a swap first
    reads = ("read", "require_own", "_require_silver", "_require_marks")
    found = [name for name in (*calls(recover.recover)[:2], *calls(recover._recovered)) if name in reads]
    assert list(dict.fromkeys(found)) == list(reads), "watermarks, ledger, Silver: one after another"
