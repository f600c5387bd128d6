"""Counters never give out a number twice, whenever they stop or are killed; given numbers have to rise."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
import tidemark_producer
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tidemark_producer import Counter, Exhausted, FileStore, Given, InUse, Numbers, Position, SqlStore, StateLost, Store

from tests.support.examples import examples
from tests.support.producing import in_row, kill, start

LAST = 2**63 - 1


class Kept:
    """A store in memory, of which a backup can be put back, and which can fail before or after it has written."""

    def __init__(self, kept: Position | None = None) -> None:
        self.kept = kept
        self.fails: str | None = None
        self.writes = 0

    def open(self, name: str) -> Position | None:
        assert name == "shop"
        return self.kept

    def swap(self, old: Position | None, new: Position) -> None:
        if self.fails == "before":
            raise OSError("no room")
        if self.kept != old:
            raise InUse("overtaken")
        self.writes += 1
        self.kept = new
        if self.fails == "after":
            raise OSError("no answer")

    def close(self) -> None:
        pass


N = TypeVar("N", bound=Numbers)


def opened(numbers: N) -> N:
    numbers.open("shop", is_alone=False)
    return numbers


def next_of(numbers: Numbers, sequence: int | None = None) -> Position:
    numbers.last = numbers.next(sequence)
    return numbers.last


def take(numbers: Numbers, count: int) -> list[Position]:
    return [next_of(numbers) for _ in range(count)]


def test_a_sender_that_was_overtaken_notices_at_its_next_block_or_at_its_start() -> None:
    store = Kept()
    first = opened(Counter(store, block=2, new=True))
    next_of(first)
    second = opened(Counter(store, block=2))
    assert next_of(second) == (1, 2)
    assert next_of(first) == (1, 1)
    with pytest.raises(InUse):
        next_of(first)
    assert store.writes == 2  # one for each block
    read_before = store.kept
    assert next_of(opened(Counter(store))) == (2, 0)
    store.open = lambda name: read_before  # type: ignore[method-assign]  # noqa: ARG005 -- by one that starts at the same time
    with pytest.raises(InUse):
        opened(Counter(store))


STARTS = st.one_of(st.none(), st.integers(1, 5))
STEPS = st.tuples(STARTS, st.integers(0, 12), st.sampled_from([None, None, None, "before", "after"]))


@settings(max_examples=examples(125, 500))
@given(st.lists(STEPS, max_size=12))
@example([(None, 2, None), (3, 4, None), (None, 1, None), (5, 1, None)])
def test_numbers_rise_and_come_once_however_counters_start_and_stop(lives: list[tuple[int | None, int, str | None]]) -> None:
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


@settings(max_examples=examples(75, 500))
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
    with pytest.raises(tidemark_producer.UnsafeSetting, match="transactional"):
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
    given_numbers = opened(Given())
    assert next_of(given_numbers, LAST) == (1, LAST)
    with pytest.raises(Exhausted):
        next_of(given_numbers, LAST + 1)
    with pytest.raises(Exhausted):
        Given(epoch=LAST + 1)


def test_a_counter_whose_start_failed_can_start_again() -> None:
    store = Kept()
    store.fails = "before"
    counter = Counter(store, new=True)
    with pytest.raises(OSError, match="no room"):
        opened(counter)
    store.fails = None
    assert next_of(opened(counter)) == (1, 0)


@settings(max_examples=examples(75, 500))
@given(st.lists(st.integers(-3, 20)))
def test_given_numbers_are_taken_if_and_only_if_they_rise(sequences: list[int]) -> None:
    numbers, highest = opened(Given(epoch=4)), -1
    for sequence in sequences:
        if sequence > highest:
            assert next_of(numbers, sequence) == (4, sequence)
            highest = sequence
        else:
            with pytest.raises(tidemark_producer.OutOfOrder):
                next_of(numbers, sequence)


def test_a_number_belongs_to_given_and_to_it_alone_and_a_block_has_at_least_one() -> None:
    with pytest.raises(TypeError):
        next_of(opened(Given()))
    with pytest.raises(TypeError):
        next_of(opened(Counter(Kept(), new=True)), 5)
    for block in (0, -1):
        with pytest.raises(ValueError, match="block"):
            Counter(Kept(), block=block)


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
def test_a_source_is_read_on_from_the_lowest_of_all(accepted: dict[str, dict[int, Position | None]], after: int | None) -> None:
    assert opened(Given(accepted=accepted)).continue_after() == after


# Gives out numbers as fast as it can, and prints each before it takes the next one.
COUNTING = """
import sqlite3, sys
from tidemark_producer import Counter, FileStore, SqlStore
kind, path, block = sys.argv[1:]
store = FileStore(path) if kind == "file" else SqlStore(lambda: sqlite3.connect(path), paramstyle=sqlite3.paramstyle)
numbers = Counter(store, block=int(block) or None, new=True)
numbers.open("shop", is_alone=False)
while True:
    numbers.last = numbers.next(None)
    sys.stdout.write("%d %d\\n" % numbers.last)
"""


@pytest.fixture(params=["file", "row"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    if request.param == "file":
        return lambda: FileStore(tmp_path / "numbers")
    return lambda: in_row(tmp_path / "kit.db")


def test_a_position_is_kept_after_the_store_is_closed(stores: Callable[[], Store]) -> None:
    store = stores()
    assert store.open("shop") is None
    store.swap(None, Position(1, 2**63 - 1))
    store.swap(Position(1, 2**63 - 1), Position(2, 0))
    store.close()
    assert stores().open("shop") == (2, 0)


def test_a_file_has_one_sender_at_a_time_and_none_after_a_kill(tmp_path: Path) -> None:
    process = start(COUNTING, "file", str(tmp_path / "numbers"), "0")
    assert process.stdout is not None
    assert process.stdout.readline() == "1 0\n"
    with pytest.raises(InUse, match="numbers"):
        FileStore(tmp_path / "numbers").open("shop")
    kill(process)
    assert FileStore(tmp_path / "numbers").open("shop") == (1, 2**63 - 1)


def test_a_store_that_its_parent_closed_writes_nothing_and_no_fork_holds_its_file(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "numbers")
    store.open("shop")
    ready, done = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.write(ready[1], b"x")
        os.read(done[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    with pytest.raises(InUse):  # the child that let go did not take the lock from its parent
        FileStore(tmp_path / "numbers").open("shop")
    store.close()
    with pytest.raises(InUse):  # a closed store writes nothing
        store.swap(None, Position(1, 1))
    assert not (tmp_path / "numbers").exists()
    FileStore(tmp_path / "numbers").open("shop")
    os.write(done[1], b"x")
    os.waitpid(child, 0)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"1 2",
        b"[]",
        b"null",
        b"[" * 100_000,
        b'{"producer": "shop", "epoch": 1}',
        *(
            b'{"producer": "shop", "epoch": 1, "sequence": %s}' % sequence
            for sequence in (b'"7"', b"true", b"-1", b"9223372036854775808", b"9" * 5_000)
        ),
        b'{"producer": "shop", "epoch": 1e3, "sequence": 1}',
        b'{"producer": "another", "epoch": 1, "sequence": 1}',
    ],
)
def test_a_file_without_a_position_of_this_producer_is_refused_and_released(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "numbers").write_bytes(content)
    for _ in range(2):
        with pytest.raises(StateLost, match="numbers"):
            FileStore(tmp_path / "numbers").open("shop")


def test_a_row_that_another_sender_took_over_is_refused(tmp_path: Path) -> None:
    first, second = in_row(tmp_path / "kit.db"), in_row(tmp_path / "kit.db")
    assert (first.open("shop"), second.open("shop")) == (None, None)
    second.swap(None, Position(1, 9))
    with pytest.raises(InUse):  # a row that is there by now
        first.swap(None, Position(1, 9))
    second.swap(Position(1, 9), Position(1, 19))
    with pytest.raises(InUse):  # a row that has gone on
        first.swap(Position(1, 9), Position(1, 19))
    assert first.open("shop") == (1, 19)
    assert first.open("another") is None
    hostile = "'; DROP TABLE tidemark_producers; --\0\N{SNOWMAN}"  # names are values and no SQL
    first.open(hostile)
    first.swap(None, Position(3, 4))
    assert (first.open(hostile), first.open("shop")) == ((3, 4), (1, 19))


@pytest.mark.parametrize("table", ["", "a b", "a;b", "1a", "a.b.c", "a'"])
def test_a_table_has_a_plain_name_and_a_paramstyle_is_positional(table: str) -> None:
    with pytest.raises(ValueError, match="table"):
        SqlStore(lambda: None, paramstyle="qmark", table=table)
    with pytest.raises(ValueError, match="named"):
        SqlStore(lambda: None, paramstyle="named")


@pytest.mark.skipif(sys.platform != "linux", reason="looks at open files in /proc")
def test_connections_and_files_are_closed(tmp_path: Path, stores: Callable[[], Store]) -> None:
    def mine() -> list[str]:
        return [target for fd in Path("/proc/self/fd").iterdir() if str(tmp_path) in (target := os.path.realpath(fd))]

    for _ in range(3):
        numbers = opened(Counter(stores(), block=1, new=True))
        next_of(numbers)
        numbers.close()
    assert mine() == []
