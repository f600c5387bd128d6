"""The stores of counters survive kills at any moment, and serve one sender at a time."""

from __future__ import annotations

import os
import random
import sqlite3
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tidemark_producer import Counter, FileStore, InUse, Position, SqlStore, StateLost

from tests.support.producing import in_row, kill, kills, start

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidemark_producer import Store

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
    """Makes stores that share what they keep."""
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


@pytest.mark.fault
@pytest.mark.parametrize("kind", ["file", "sql"])
@pytest.mark.parametrize("block", ["0", "3"])
def test_no_number_is_given_out_twice_by_processes_that_are_killed(tmp_path: Path, kind: str, block: str) -> None:
    path = tmp_path / "numbers"
    if kind == "sql":
        in_row(path)
    seen: list[tuple[int, ...]] = []
    for seed in range(kills(25)):
        process = start(COUNTING, kind, str(path), block)
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(random.Random(seed).randrange(1, 200))]
        seen += [tuple(map(int, line.split())) for line in [*lines, *kill(process)]]
    assert seen == sorted(set(seen))
    assert len({epoch for epoch, _ in seen}) == (kills(25) if block == "0" else 1)


def test_a_file_has_one_sender_at_a_time_and_none_after_a_kill(tmp_path: Path) -> None:
    process = start(COUNTING, "file", str(tmp_path / "numbers"), "0")
    assert process.stdout is not None
    assert process.stdout.readline() == "1 0\n"
    with pytest.raises(InUse, match="numbers"):
        FileStore(tmp_path / "numbers").open("shop")
    kill(process)
    assert FileStore(tmp_path / "numbers").open("shop") == (1, 2**63 - 1)


def test_a_fork_does_not_hold_the_file_after_its_parent_closed_it(tmp_path: Path) -> None:
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
    FileStore(tmp_path / "numbers").open("shop")
    os.write(done[1], b"x")
    os.waitpid(child, 0)


def test_a_closed_store_writes_nothing(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "numbers")
    store.open("shop")
    store.close()
    with pytest.raises(InUse):
        store.swap(None, Position(1, 1))
    assert not (tmp_path / "numbers").exists()


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
        b'{"producer": "shop", "epoch": 1, "sequence": "7"}',
        b'{"producer": "shop", "epoch": 1, "sequence": true}',
        b'{"producer": "shop", "epoch": 1, "sequence": -1}',
        b'{"producer": "shop", "epoch": 1, "sequence": 9223372036854775808}',
        b'{"producer": "shop", "epoch": 1e3, "sequence": 1}',
        b'{"producer": "shop", "epoch": 1, "sequence": ' + b"9" * 5_000 + b"}",
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


def test_names_are_values_and_no_sql(tmp_path: Path) -> None:
    store = in_row(tmp_path / "kit.db")
    name = "'; DROP TABLE tidemark_producers; --\0\N{SNOWMAN}"
    store.open(name)
    store.swap(None, Position(3, 4))
    assert store.open(name) == (3, 4)


@pytest.mark.parametrize("table", ["", "a b", "a;b", "1a", "a.b.c", "a'"])
def test_a_table_has_a_plain_name(table: str) -> None:
    with pytest.raises(ValueError, match="table"):
        SqlStore(lambda: None, paramstyle="qmark", table=table)


def test_a_paramstyle_has_to_be_positional(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="named"):
        SqlStore(lambda: sqlite3.connect(tmp_path / "kit.db"), paramstyle="named")


@pytest.mark.skipif(sys.platform != "linux", reason="looks at open files in /proc")
def test_connections_and_files_are_closed(tmp_path: Path, stores: Callable[[], Store]) -> None:
    def mine() -> list[str]:
        return [target for fd in Path("/proc/self/fd").iterdir() if str(tmp_path) in (target := os.path.realpath(fd))]

    for _ in range(3):
        numbers = Counter(stores(), block=1, new=True)
        numbers.open("shop", is_alone=False)
        numbers.last = numbers.next(None)
        numbers.close()
    assert mine() == []
