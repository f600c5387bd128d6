"""Jumps and duplicate blocks, as the published runs report them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silver.diagnosis import diagnose
from silver.fold import Stretch
from silver.order import Order, arrival_order
from tests.support.published import CONNECTION_KILLED, LEADER_KILLED, LEADER_KILLED_RUNS

STREAM = ("t", 0, None)


def arrived(*runs: tuple[int, int]) -> Order:
    """The order of numbers that were read in runs, each from a first to a last."""
    stretches, offset = [], 0
    for first, last in runs:
        stretches.append(Stretch(STREAM, offset, offset + last - first, 0, first, None))
        offset += last - first + 1
    return arrival_order(stretches)


@pytest.mark.parametrize(("words", "before", "read"), CONNECTION_KILLED, ids=[each[0] for each in CONNECTION_KILLED])
def test_a_published_run_is_told_with_the_published_numbers(words: str, before: int, read: int) -> None:
    order = arrived((1, before), (read, 1_000_000))

    assert [str(jump) for jump in order.jumps] == [words]
    assert (order.received, order.duplicates) == (1_000_000 + before - read + 1, before - read + 1)


def test_a_published_leader_kill_is_told_jump_by_jump() -> None:
    order = arrived(*LEADER_KILLED_RUNS)

    assert [str(jump) for jump in order.jumps] == LEADER_KILLED
    assert order.duplicates == 791
    assert [finding.name for finding in diagnose(order)] == ["reordering"]


def test_the_articles_example_is_told_in_its_words() -> None:
    order = arrived((1, 10), (30, 40), (15, 29), (11, 14), (5, 10), (2, 4), (41, 44))

    assert [str(jump) for jump in order.jumps] == [
        "JUMP FORWARDS 20 (10 -> 30)",
        "JUMP BACKWARDS 25 (40 -> 15)",
        "JUMP BACKWARDS 18 (29 -> 11)",
        "DUPLICATE BLOCK - JUMP BACKWARDS 9 (14 -> 5)",
        "DUPLICATE BLOCK - JUMP BACKWARDS 8 (10 -> 2)",
        "JUMP FORWARDS 37 (4 -> 41)",
    ]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 6)), min_size=1, max_size=12))
def test_stretches_tell_what_their_records_tell_one_by_one(drawn: list[tuple[int, int]]) -> None:
    numbers = [first + nth for first, length in drawn for nth in range(length)]

    order = arrived(*((first, first + length - 1) for first, length in drawn))

    seen: set[int] = set()
    expected = []
    for before, number in zip([None, *numbers], numbers, strict=False):
        if before is not None and number != before + 1:
            expected.append(("D" if number in seen else "") + ("JF" if number > before else "JB"))
        seen.add(number)
    assert [jump.kind for jump in order.jumps] == expected
    assert order.duplicates == len(numbers) - len(seen)


@pytest.mark.parametrize(
    ("runs", "collisions", "names"),
    [
        ([(1, 100)], 0, []),
        ([(1, 50), (60, 100)], 0, []),
        ([(1, 100), (51, 200)], 0, ["resends"]),
        ([(1, 10), (30, 40), (15, 29), (11, 14), (5, 10), (2, 4), (41, 44)], 0, ["reordering"]),
        ([(1, 4), (6, 6), (5, 5), (7, 9), (11, 11), (10, 10), (12, 20)], 0, ["numbering_race"]),
        ([(1, 100), (1, 40)], 40, ["no_sequence"]),
    ],
    ids=["in order", "a gap", "a block sent again", "the article's example", "two threads", "started anew"],
)
def test_an_order_names_what_its_producer_does(runs: list[tuple[int, int]], collisions: int, names: list[str]) -> None:
    assert [finding.name for finding in diagnose(replace(arrived(*runs), collisions=collisions))] == names
