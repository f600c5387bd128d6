"""A stream is retired and comes back, under runners that stand still before their MERGE: nothing is doubled, nothing hangs."""

from __future__ import annotations

import pytest

from tests.model.checker import explore
from tests.model.retirement import Way, model


def test_a_retired_stream_is_known_whenever_it_comes_back_and_however_late_a_runner_wakes() -> None:
    outcome = explore(model(Way()))

    assert outcome.counterexample is None, outcome
    assert outcome.stuck == 0, outcome
    assert outcome.finished > 0, outcome


@pytest.mark.parametrize(
    ("way", "kind"),
    [
        pytest.param(Way(is_fenced=False), "stale", id="a sleeper's MERGE inserts the row of a stream that was retired since"),
        pytest.param(Way(has_carrier=False), "ahead", id="the last finished load goes with the row that carried its number"),
        pytest.param(Way(asks_ledger=False), "stale", id="a retired stream is taken for a new one"),
    ],
)
def test_any_other_way_to_retire_fails(way: Way, kind: str) -> None:
    outcome = explore(model(way))

    assert outcome.counterexample is not None, outcome
    assert outcome.counterexample.kind == kind, outcome
