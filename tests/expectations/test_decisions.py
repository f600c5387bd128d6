"""Which loads wait for the gate where people have rejected some."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.contracts.gate import Rejected

NUMBERS = st.integers(1, 12)
RANGES = st.lists(st.tuples(NUMBERS, NUMBERS).map(lambda pair: (min(pair), max(pair))), max_size=4)


@given(RANGES, st.integers(0, 12), st.integers(0, 12))
def test_what_waits_is_from_the_first_load_that_nobody_rejected_to_the_last(
    ranges: list[tuple[int, int]], published: int, finished: int
) -> None:
    rejected = Rejected(tuple(ranges))
    waiting = [load_seq for load_seq in range(published + 1, finished + 1) if load_seq not in rejected]

    assert rejected.pending(published, finished) == ((waiting[0], waiting[-1]) if waiting else None)
