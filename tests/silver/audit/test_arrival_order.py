"""Jumps and duplicate blocks, as the published runs report them."""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from silver.audit.arrival_order import Order, arrival_orders, diagnose, rises
from tests.support.published import IN_ORDER, KAFKA, PUBLISHED, PULSAR, Published
from tidemark.commands.look import write_order


def arrived(*runs: tuple[int, int]) -> Order:
    (order,) = arrival_orders([keys_of([number for first, last in runs for number in range(first, last + 1)])])
    return order


def keys_of(numbers: Sequence[int | None], *, first_offset: int = 0) -> pa.Table:
    count = len(numbers)
    columns = {"topic": pa.repeat("t", count), "partition": pa.repeat(0, count), "producer": pa.nulls(count, pa.string())}
    sequence, problem = pa.array(numbers, pa.int64()), pa.nulls(count, pa.string())
    epoch = pc.if_else(sequence.is_valid(), 0, None).cast(pa.int64())
    offset = range(first_offset, first_offset + count)
    return pa.table({**columns, "offset": offset, "epoch": epoch, "sequence": sequence, "problem": problem})


@pytest.mark.parametrize("published", PUBLISHED, ids=lambda run: run.name)
def test_a_published_run_is_told_with_the_published_jumps_and_counts(published: Published) -> None:
    order = arrived(*published.spans())

    assert [str(jump) for jump in order.jumps] == list(published.jumps)
    assert (order.received, order.duplicates) == (published.sent + published.duplicates, published.duplicates)
    order.jumps = order.jumps[len(published.unlogged) :]
    assert (order.count("DJF"), order.count("DJB"), order.count("JF"), order.count("JB")) == published.row[1:]


def test_a_finding_tells_the_published_runs_of_kafka_from_those_of_pulsar() -> None:
    found = {tuple(finding.name for finding in diagnose(arrived(*run.spans()))) for run in KAFKA}
    assert found == {("reordering",)}
    assert {tuple(finding.name for finding in diagnose(arrived(*run.spans()))) for run in PULSAR} == {("resends",)}
    assert list(diagnose(arrived(*IN_ORDER.spans()))) == []


def test_a_rise_ends_where_another_number_comes_or_none_and_a_replay_is_none() -> None:
    keys = pa.concat_tables([keys_of([5, 6, None, None, 7, 8, 3]), keys_of([8, 3], first_offset=5)])

    told = [(rise.first_offset, rise.epoch, rise.first_sequence, rise.records) for rise in rises(keys)]
    assert told == [(0, 0, 5, 2), (2, None, None, 2), (4, 0, 7, 2), (6, 0, 3, 1)]


def test_producers_that_take_turns_each_have_an_order() -> None:
    two = {"a": [5, 6, 5], "b": [1, 2, 4]}
    keys = [keys_of(numbers).set_column(2, "producer", [[name] * 3]) for name, numbers in two.items()]
    turns = [each.set_column(3, "offset", [[start, start + 2, start + 4]]) for start, each in enumerate(keys)]

    orders = arrival_orders([pa.concat_tables(turns)])

    assert [(order.stream[2], [jump.kind for jump in order.jumps]) for order in orders] == [("a", ["DJB"]), ("b", ["JF"])]


def test_the_steps_over_gaps_are_counted_and_not_listed(capsys: pytest.CaptureFixture[str]) -> None:
    gaps = arrived(*((number, number) for number in range(0, 200, 2)), (5, 5))
    write_order({"bronze": [gaps], "silver": []}, "table")
    printed = capsys.readouterr().out
    assert printed.startswith("bronze: t, partition 0, offset 3: JUMP FORWARDS 2 (4 -> 6)\n")
    assert printed.count("JUMP") == 2
    assert "98 of the JF only pass gaps, numbers that were never read, and are not listed" in printed
    write_order({"bronze": [replace(gaps, is_contiguous=True)], "silver": []}, "table")
    assert "80 jumps more" in capsys.readouterr().out


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 6)), min_size=1, max_size=12), st.integers(1, 9))
def test_chunks_tell_what_their_records_tell_one_by_one(drawn: list[tuple[int, int]], size: int) -> None:
    numbers = [first + nth for first, length in drawn for nth in range(length)]

    pieces = [keys_of(numbers[first : first + size], first_offset=first) for first in range(0, len(numbers), size)]
    (order,) = arrival_orders(pieces)

    seen: set[int] = set()
    expected = []
    for before, number in zip([None, *numbers], numbers, strict=False):
        if before is not None and number != before + 1:
            kind = ("D" if number in seen else "") + ("JF" if number > before else "JB")
            expected.append((kind, kind == "JF" and {*numbers}.isdisjoint(range(before + 1, number))))
        seen.add(number)
    assert [(jump.kind, jump.is_gap) for jump in order.jumps] == expected
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


def test_a_block_with_its_first_timestamps_was_sent_again_by_the_client_and_another_one_by_the_application() -> None:
    order = arrived((1, 100), (51, 200), (151, 300))
    for nth, (is_retry, names) in enumerate([(True, ["client_retries", "resends"]), (True, ["client_retries"])]):
        order.jumps[nth] = replace(order.jumps[nth], is_retry=is_retry)
        assert [finding.name for finding in diagnose(order)] == names
    order.jumps = [replace(jump, is_retry=False) for jump in order.jumps]
    (finding,) = diagnose(order)
    assert finding.name == "resends"
    assert "read the last number back from Kafka" in finding.cure  # the tables lag behind


def test_numbers_that_came_late_are_not_missing_and_without_gaps_others_are_lost() -> None:
    assert arrived((1, 50), (60, 100), (51, 59)).missing == 0
    order = arrived((1, 50), (60, 100), (55, 56))
    assert order.missing == 7

    order.is_contiguous = True
    assert [finding.name for finding in diagnose(order)][-1] == "lost"
