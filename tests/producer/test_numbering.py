"""Counters never give out a number twice, whenever they stop; given numbers have to rise."""

from __future__ import annotations

from typing import TypeVar

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tidemark_producer import Counter, Exhausted, Given, InUse, Numbers, OutOfOrder, Position, StateLost, UnsafeSetting

from tests.support.examples import examples

LAST = 2**63 - 1


class Kept:
    """A store in memory, of which a backup can be put back, and which can fail before or after it has written."""

    def __init__(self, kept: Position | None = None) -> None:
        self.kept = kept
        self.fails: str | None = None
        self.writes = 0

    def open(self, name: str) -> Position | None:
        """What is kept."""
        assert name == "shop"
        return self.kept

    def swap(self, old: Position | None, new: Position) -> None:
        """Compare and set."""
        if self.fails == "before":
            raise OSError("no room")
        if self.kept != old:
            raise InUse("overtaken")
        self.writes += 1
        self.kept = new
        if self.fails == "after":
            raise OSError("no answer")

    def close(self) -> None:
        """Nothing to let go."""


N = TypeVar("N", bound=Numbers)


def opened(numbers: N) -> N:
    numbers.open("shop", is_alone=False)
    return numbers


def next_of(numbers: Numbers, sequence: int | None = None) -> Position:
    numbers.last = numbers.next(sequence)
    return numbers.last


def take(numbers: Numbers, count: int) -> list[Position]:
    return [next_of(numbers) for _ in range(count)]


def test_each_start_takes_the_next_epoch_and_counts_from_zero_with_one_write() -> None:
    store = Kept()
    assert take(opened(Counter(store, new=True)), 3) == [(1, 0), (1, 1), (1, 2)]
    assert take(opened(Counter(store)), 2) == [(2, 0), (2, 1)]
    assert store.writes == 2


def test_blocks_continue_in_one_epoch_and_a_stop_leaves_a_gap_of_less_than_a_block() -> None:
    store = Kept()
    assert take(opened(Counter(store, block=3, new=True)), 4) == [(1, 0), (1, 1), (1, 2), (1, 3)]
    assert take(opened(Counter(store, block=3)), 2) == [(1, 6), (1, 7)]
    assert store.writes == 3


def test_a_sender_that_was_overtaken_notices_at_its_next_block() -> None:
    store = Kept()
    first = opened(Counter(store, block=2, new=True))
    next_of(first)
    second = opened(Counter(store, block=2))
    assert next_of(second) == (1, 2)
    assert next_of(first) == (1, 1)
    with pytest.raises(InUse):
        next_of(first)


def test_of_two_that_start_at_once_one_gets_the_epoch() -> None:
    store = Kept(Position(7, LAST))
    late = Counter(store)
    kept = store.kept
    opened(Counter(store))
    store.open = lambda name: kept  # type: ignore[method-assign]  # noqa: ARG005 -- what the second one read before
    with pytest.raises(InUse):
        late.open("shop", is_alone=False)


STARTS = st.one_of(st.none(), st.integers(1, 5))
STEPS = st.tuples(STARTS, st.integers(0, 12), st.sampled_from([None, None, None, "before", "after"]))


@settings(max_examples=examples(125, 500), deadline=None)
@given(st.lists(STEPS, max_size=12))
@example([(None, 2, None), (3, 4, None), (None, 1, None), (5, 1, None)])
def test_numbers_rise_and_none_is_given_twice_however_counters_start_and_stop(
    lives: list[tuple[int | None, int, str | None]],
) -> None:
    store, seen = Kept(), list[Position]()
    for block, records, fails in lives:
        counter = Counter(store, block=block, new=True)
        try:
            counter.open("shop", is_alone=False)
            for number in range(records):
                store.fails = fails if number == records - 1 else None
                seen.append(next_of(counter))
        except (OSError, InUse):
            pass  # this life ends here
        store.fails = None
    assert seen == sorted(set(seen))


@settings(max_examples=examples(75, 500), deadline=None)
@given(st.integers(0, 30), st.integers(0, 30), st.one_of(st.none(), st.integers(1, 9)))
def test_a_store_from_a_backup_is_made_good_by_what_kafka_has(in_kafka: int, in_backup: int, block: int | None) -> None:
    store = Kept(Position(1, in_backup) if block else Position(1 + in_backup, LAST))
    after = Position(1, in_kafka) if block else Position(1 + in_kafka, 5)
    assert next_of(opened(Counter(store, block=block, after={0: None, 1: after}))) > after


def test_an_empty_store_is_lost_unless_it_may_be_empty_or_kafka_was_asked() -> None:
    with pytest.raises(StateLost, match="new=True"):
        opened(Counter(Kept()))
    assert next_of(opened(Counter(Kept(), new=True))) == (1, 0)
    assert next_of(opened(Counter(Kept(), after={0: None}))) == (1, 0)
    assert next_of(opened(Counter(Kept(), after=lambda: {0: Position(4, 9), 1: None, 2: Position(3, 99)}))) == (5, 0)


def test_without_a_store_kafka_has_to_shut_out_older_senders() -> None:
    with pytest.raises(UnsafeSetting, match="transactional"):
        Counter(after={0: Position(1, 5)}).open("shop", is_alone=False)
    alone = Counter(after={0: Position(1, 5), 1: Position(1, 7)})
    alone.open("shop", is_alone=True)
    assert take(alone, 2) == [(1, 8), (1, 9)]


def test_numbers_end_with_an_error_and_never_begin_again() -> None:
    blocks = opened(Counter(Kept(Position(3, LAST - 2)), block=10))
    assert take(blocks, 2) == [(3, LAST - 1), (3, LAST)]
    for _ in range(2):
        with pytest.raises(Exhausted):
            next_of(blocks)
    assert next_of(opened(Counter(Kept(Position(3, LAST)), block=10))) == (4, 0)
    with pytest.raises(Exhausted):
        opened(Counter(Kept(Position(LAST, LAST))))
    counter = opened(Counter(Kept(), new=True))
    counter.last = Position(1, LAST)
    with pytest.raises(Exhausted):
        next_of(counter)


def test_numbers_belong_to_one_sender() -> None:
    numbers = opened(Counter(Kept(), new=True))
    with pytest.raises(InUse):
        opened(numbers)
    assert next_of(numbers) == (1, 0)


def test_a_counter_whose_start_failed_can_start_again() -> None:
    store = Kept()
    store.fails = "before"
    counter = Counter(store, new=True)
    with pytest.raises(OSError, match="no room"):
        opened(counter)
    store.fails = None
    assert next_of(opened(counter)) == (1, 0)


@settings(max_examples=examples(75, 500), deadline=None)
@given(st.lists(st.integers(-3, 20)))
def test_given_numbers_are_taken_if_and_only_if_they_rise(sequences: list[int]) -> None:
    numbers, highest = opened(Given(epoch=4)), -1
    for sequence in sequences:
        if sequence > highest:
            assert next_of(numbers, sequence) == (4, sequence)
            highest = sequence
        else:
            with pytest.raises(OutOfOrder):
                next_of(numbers, sequence)


def test_given_numbers_end_where_a_reader_ends() -> None:
    numbers = opened(Given())
    assert next_of(numbers, LAST) == (1, LAST)
    with pytest.raises(Exhausted):
        next_of(numbers, LAST + 1)
    with pytest.raises(Exhausted):
        Given(epoch=LAST + 1)


def test_a_number_belongs_to_given_and_to_it_alone() -> None:
    with pytest.raises(TypeError):
        next_of(opened(Given()))
    with pytest.raises(TypeError):
        next_of(opened(Counter(Kept(), new=True)), 5)


def test_what_kafka_has_of_given_numbers_is_known_by_topic_partition_and_epoch() -> None:
    numbers = opened(Given(epoch=2, accepted={"sales": {0: Position(2, 7), 1: Position(2, 4), 2: None, 3: Position(3, 1)}}))
    assert numbers.has(Position(2, 7), "sales", 0)
    others = ((8, "sales", 0), (5, "sales", 1), (1, "sales", 2), (1, "sales", 3), (1, "sales", None), (1, "returns", 0))
    assert not any(numbers.has(Position(2, sequence), topic, partition) for sequence, topic, partition in others)


@pytest.mark.parametrize(
    ("accepted", "after"),
    [
        ({}, None),
        ({"sales": {0: Position(1, 7), 1: Position(1, 4)}}, 4),
        ({"sales": {0: Position(1, 7)}, "returns": {0: Position(1, 2)}}, 2),
        ({"sales": {0: Position(1, 7), 1: None}}, None),
        ({"sales": {0: Position(1, 7), 1: Position(0, 9)}}, None),
    ],
)
def test_a_source_is_read_on_from_the_lowest_that_all_partitions_have(
    accepted: dict[str, dict[int, Position | None]], after: int | None
) -> None:
    assert opened(Given(accepted=accepted)).continue_after() == after


def test_a_block_has_at_least_one_number() -> None:
    for block in (0, -1):
        with pytest.raises(ValueError, match="block"):
            Counter(Kept(), block=block)
