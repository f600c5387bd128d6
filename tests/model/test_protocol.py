"""A load in every interleaving: our steps lose nothing, double nothing and never hang; others do."""

import ast
import inspect
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import NamedTuple

import pytest

from pipelines.operate import accept_topic
from silver.load import cutover, planner, recover, steps
from tests.model.checker import assert_sound, explore
from tests.model.protocol import ORDER, PARTS, STEPS, SWAP_ORDER, SWAP_STEPS, Protocol
from tests.model.system import system
from tests.model.tables import Version, World

ONE, THREE = (Version(),), (Version(),) * 3
TWO_PARTITIONS = (Version(0), Version(1), Version(1))


class Alternative(NamedTuple):
    """A way to do a load with one difference, and the fewest steps to a broken promise; some without `recover`'s checks."""

    name: str
    protocol: Protocol
    kind: str
    steps: int
    world: World = World()


_RELEASED = World(bronze=(Version(),), crashes=0, has_release=True, swaps=1)
_PUT_BACK = World(bronze=(Version(),), crashes=0, restores=1, has_person=True)
_TWO_PARTITIONS = World(bronze=(Version(0), Version(1)), crashes=0, swaps=1)
_MOVED = (Version(has_held=False), Version(1, has_held=False, copies=1))
_GROWN = World(bronze=(*_MOVED[:1] * 2, Version(1, has_held=False, copies=2)), crashes=0, sent_before=2)
_READ_FIRST = World(bronze=(Version(1, has_held=False, copies=2), *_MOVED[:1]), crashes=1, sent_before=2)

ALTERNATIVES = (
    Alternative(
        "the watermarks move before the records are written",
        Protocol(order=("claim", "advance", "append_silver", "append_rejects"), has_checks=False),
        *("loss", 9),
    ),
    Alternative("no transaction ids", Protocol(has_transactions=False, has_checks=False), "duplicate", 13),
    Alternative(
        "no claim before the commit: the ledger is written after the records",
        Protocol(order=("append_silver", "append_rejects", "claim", "advance"), has_checks=False),
        *("loss", 17),
    ),
    Alternative(
        "transaction ids of a batch, under the runner's own checkpoint",
        Protocol(is_id_of_checkpoint=True, has_checks=False),
        *("duplicate", 13),
    ),
    Alternative("an open claim is planned again", Protocol(replans_claims=True, has_checks=False), "duplicate", 21),
    Alternative("a claim is not read back", Protocol(reads_back=False, has_checks=False), "loss", 17),
    Alternative(
        "the watermarks move before the rejects are written",
        Protocol(order=("claim", "append_silver", "advance", "append_rejects")),
        *("loss", 10),
    ),
    Alternative(
        "the MERGE of the watermarks has a transaction id", Protocol(merge_has_transaction=True), "stuck", 11, _PUT_BACK
    ),
    Alternative(
        "the repeat of a release chooses only held records",
        Protocol(repeat_knows_its_own=False),
        *("stuck", 19, World(bronze=(Version(),), crashes=1, has_release=True)),
    ),
    Alternative(
        "a restore commits nothing under its own number to records and rejects",
        Protocol(swap_is_noted=False),
        *("duplicate", 36, World(crashes=0, swaps=1)),
    ),
    Alternative("a release does not look for a restore", Protocol(mark_looks=False), "released nowhere", 30, _RELEASED),
    Alternative(
        "the mark looks for a restore, but does not conflict with a later one",
        Protocol(swap_sets_property=False),
        *("released nowhere", 30, _RELEASED),
    ),
    Alternative(
        "a load reads which topics moved before it pins Bronze's version",
        Protocol(pins_before_numbering=False),
        *("duplicate", 20, World(bronze=_MOVED, crashes=0)),
    ),
    Alternative(
        "a load reads which topics got partitions before it pins Bronze's version",
        Protocol(pins_before_numbering=False),
        *("duplicate", 12, _GROWN),
    ),
    Alternative(
        "a load that does not take all of Bronze is the last that compares every number",
        Protocol(last_takes_all=False),
        *("duplicate", 23, _GROWN),
    ),
    Alternative(
        "the last load that compares every number sets the mark itself",
        Protocol(mark_follows_last=False),
        *("duplicate", 13, _GROWN),
    ),
    Alternative(
        "the MERGE of the watermarks inserts missing rows, also beyond the next load",
        Protocol(advances_past_swaps=True),
        *("loss", 40, _TWO_PARTITIONS),
    ),
)

LASTING = ("duplicate", "loss", "released nowhere")
"""The promises that alternatives are checked for. A watermark that is ahead for a moment loses no record by itself."""


def calls(function: Callable[..., object]) -> list[str]:
    found = [node for node in ast.walk(ast.parse(inspect.getsource(function))) if isinstance(node, ast.Call)]
    named = [(node.lineno, ast.unparse(node.func).rpartition(".")[2]) for node in found]
    return [name for _, name in sorted(named, key=lambda each: each[0])]


@pytest.mark.parametrize(
    "world",
    [
        pytest.param(World(), id="two crashes, Bronze grows twice"),
        pytest.param(World(bronze=THREE, crashes=1), id="one crash, Bronze grows three times"),
        pytest.param(World(bronze=(Version(has_kept=False), Version(has_held=False))), id="loads without kept or held records"),
        pytest.param(World(bronze=TWO_PARTITIONS, crashes=1), id="two partitions"),
        pytest.param(World(crashes=1, has_release=True), id="a record is released"),
        pytest.param(World(restores=1, has_person=True), id="the watermark table is emptied or put back"),
        pytest.param(World(bronze=TWO_PARTITIONS[:2], crashes=1, swaps=1), id="all tables are taken back"),
        pytest.param(World(bronze=ONE, crashes=0, has_release=True, swaps=1), id="taken back, and a release"),
        pytest.param(World(bronze=_MOVED, crashes=1), id="the topic moves, and its record is copied"),
        pytest.param(_GROWN, id="a partition is added, and gets a copy"),
        pytest.param(_READ_FIRST, id="a partition is added, and its copy is read before its original"),
    ],
)
def test_nothing_is_lost_nothing_is_twice_and_nothing_hangs(world: World) -> None:
    assert_sound(explore(system(Protocol(), world)))


@pytest.mark.parametrize(
    "world",
    [
        World(bronze=THREE, crashes=3),
        World(bronze=(Version(has_kept=False), Version(has_held=False), Version())),
        World(bronze=TWO_PARTITIONS),
        World(has_release=True),
        World(bronze=THREE, crashes=1, has_release=True),
        World(runners=3, crashes=1),
        World(restores=2, crashes=1, has_person=True),
        World(crashes=1, restores=1, has_person=True, has_release=True),
        World(bronze=TWO_PARTITIONS, restores=1, has_person=True),
        World(bronze=TWO_PARTITIONS[:2], crashes=1, restores=1, has_person=True, has_release=True),
        World(bronze=ONE, crashes=0, swaps=1, runners=3),
        World(bronze=ONE, crashes=1, has_release=True, swaps=1),
        World(bronze=TWO_PARTITIONS, crashes=1, swaps=2),
        World(bronze=(*_MOVED, Version(1)), crashes=1),
        World(bronze=(Version(), *_MOVED[1:]), crashes=1, has_release=True),
        replace(_GROWN, crashes=1),
        World(bronze=(*_READ_FIRST.bronze, Version(1, has_held=False, copies=2)), crashes=0, sent_before=2),
    ],
)
def test_nothing_is_lost_twice_or_hangs_in_larger_worlds(world: World) -> None:
    assert_sound(explore(system(Protocol(), world)))


@pytest.mark.parametrize("alternative", ALTERNATIVES, ids=lambda alternative: alternative.name)
def test_any_other_way_fails_with_and_without_the_checks_of_recover(alternative: Alternative) -> None:
    for has_checks in sorted({alternative.protocol.has_checks, True}):
        protocol = replace(alternative.protocol, has_checks=has_checks)
        outcome = explore(system(protocol, alternative.world, promises=LASTING))

        assert outcome.counterexample is not None, outcome
        assert outcome.counterexample.kind == alternative.kind, outcome
        if protocol == alternative.protocol:
            assert len(outcome.counterexample.steps) == alternative.steps, outcome


def test_without_a_person_an_emptied_watermark_table_stays_refused() -> None:
    outcome = explore(system(Protocol(), World(crashes=1, restores=1)))

    assert outcome.counterexample is not None, outcome
    assert outcome.counterexample.kind == "stuck", outcome
    assert outcome.counterexample.steps[-1] == "the watermark table is emptied", "nothing else makes a refusal that lasts"


def test_a_watermark_table_emptied_during_a_run_does_no_harm() -> None:
    """The MERGE moves nothing then. Otherwise it would restore only its own rows, and others would be read again."""
    world = World(bronze=TWO_PARTITIONS, crashes=0, restores=1, has_person=True)

    ours = explore(system(Protocol(), world))
    without = explore(system(Protocol(advances_in_order=False), world))

    assert ours.counterexample is None, ours
    assert without.counterexample is not None, without
    assert (without.counterexample.kind, len(without.counterexample.steps)) == ("duplicate", 29), without


def test_the_steps_are_functions_of_the_code() -> None:
    for name, module in {**STEPS, **SWAP_STEPS}.items():
        function = getattr(import_module(module), name)
        assert inspect.isfunction(function), f"{module}.{name}"
        assert function.__module__ == module, f"{name} is defined in {function.__module__}"

    named = {"replan_claim", "plan_request", "complete_rules", "restore", *(at.partition(":")[0] for at in PARTS)}
    assert named == {*STEPS, *SWAP_STEPS}


def test_the_code_takes_the_steps_in_the_order_of_the_model() -> None:
    assert [name for name in calls(steps.apply_claim) if name in STEPS] == list(ORDER[1:])
    swap = ["close", "_cut", "delete", "_overwrite"]  # the last two are of the ledger's rows and of the watermarks
    assert [name for name in calls(cutover.apply_cutover) if name in swap] == swap
    in_model = ["restore", "claim", *["close"] * 3, *["_cut"] * 3, *["apply_cutover"] * 2]
    assert [at.partition(":")[0] for at in SWAP_ORDER] == in_model
    named = {*STEPS, "apply_claim", "apply_cutover", "finish"}
    assert [name for name in calls(steps.load_once) if name in named] == ["recover", "finish", "plan", "claim", "apply_claim"]
    assert [name for name in calls(steps.finish) if name in named] == ["apply_cutover", "replan_claim", "apply_claim"]
    to_plan = ["pin", "current", "complete_rules"]
    assert [name for name in calls(planner.plan) if name in to_plan] == to_plan
    written = ("carry_out", "write_accepted")
    assert [name for name in calls(accept_topic.carry_out) if name in written] == list(written)
    reads = ("read", "require_own", "_require_silver", "_require_marks")
    found = [name for name in (*calls(recover.recover)[:2], *calls(recover._recovered)) if name in reads]
    assert list(dict.fromkeys(found)) == list(reads), "watermarks, ledger, Silver: one after another"
