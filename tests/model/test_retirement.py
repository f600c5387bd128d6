"""A stream retires and comes back under runners that pause before their MERGE: nothing is doubled, nothing hangs.
A retirement takes the steps of `tests.model.protocol`, and adds that a row of the watermarks may go."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import pytest

from tests.model.checker import Model, Step, assert_sound, explore

Kind = Literal["records", "retire"]


@dataclass(frozen=True)
class Way:
    is_fenced: bool = True  # a MERGE moves nothing if the table is beyond the load before
    has_carrier: bool = True  # the partition's own row takes the number of the load that retires
    asks_ledger: bool = True  # a stream without a row is looked up among the claims that retired it


class Claim(NamedTuple):
    kind: Kind
    after: int


class Mark(NamedTuple):
    load: int
    watermark: int


class State(NamedTuple):
    ledger: tuple[Claim, ...] = ()  # the claims of loads 1, 2 and so on
    mark: Mark | None = None  # the stream's row; None where it has none
    carrier: int = 0  # the load of the partition's own row; 0 where it has none
    accepted: tuple[int, ...] = ()  # the sequences that Silver holds, in the order of their loads
    runners: tuple[int, ...] = (0, 0)  # the load that each is to MERGE; 0 for none

    @property
    def finished(self) -> int:
        return max(self.carrier, self.mark.load if self.mark else 0)


def known(state: State, way: Way) -> int:
    """The stream's watermark as a load finds it; 0 where it takes the stream for a new one."""
    if state.mark is not None:
        return state.mark.watermark
    retired = [claim.after for claim in state.ledger[: state.finished] if claim.kind == "retire"]
    return retired[-1] if retired and way.asks_ledger else 0


def model(way: Way, *, loads: int = 6, sequences: int = 2) -> Model[State]:
    """Some loads of a stream that sends each of some sequences, again and again, and is retired in between."""

    def steps(state: State) -> Iterator[Step[State]]:
        for who, load in enumerate(state.runners):
            if load:
                yield Step(f"{who} merges load {load}", _at(_merged(state, load, way), who, 0))
                yield Step(f"{who} dies", _at(state, who, 0), is_help=False)
            elif state.finished < len(state.ledger):
                yield Step(f"{who} takes up load {len(state.ledger)}", _at(state, who, len(state.ledger)))
            elif len(state.ledger) < loads:
                yield from _claims(state, who)

    def _claims(state: State, who: int) -> Iterator[Step[State]]:
        number, watermark = len(state.ledger) + 1, known(state, way)
        if state.mark is not None:
            claimed = state._replace(ledger=(*state.ledger, Claim("retire", watermark)))
            yield Step(f"{who} claims load {number}, which retires the stream", _at(claimed, who, number))
        for sequence in range(1, sequences + 1):
            is_new = sequence > watermark
            claimed = state._replace(
                ledger=(*state.ledger, Claim("records", max(watermark, sequence))),
                accepted=(*state.accepted, sequence) if is_new else state.accepted,
            )
            yield Step(f"{who} claims load {number}, which brings {sequence}", _at(claimed, who, number))

    broken = {
        "duplicate": lambda state: len(set(state.accepted)) < len(state.accepted),
        "stale": lambda state: state.finished == len(state.ledger) and known(state, way) != max(state.accepted, default=0),
        "ahead": lambda state: state.finished < len(state.ledger) - 1,
    }
    return Model(State(), steps, broken, lambda state: state.finished == loads)


def _merged(state: State, load: int, way: Way) -> State:
    """As `silver.state.watermarks.advance`."""
    if state.finished < load - 1 or (way.is_fenced and state.finished > load - 1):
        return state
    claim, mark = state.ledger[load - 1], state.mark
    if mark is not None and load <= mark.load:
        return state
    if claim.kind == "records":
        return state._replace(mark=Mark(load, claim.after))
    return state._replace(mark=None, carrier=max(state.carrier, load) if way.has_carrier else state.carrier)


def _at(state: State, who: int, load: int) -> State:
    runners = (*state.runners[:who], load, *state.runners[who + 1 :])
    return state._replace(runners=runners)


def test_a_retired_stream_is_known_whenever_it_comes_back_and_however_late_a_runner_wakes() -> None:
    assert_sound(explore(model(Way())))


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
