"""Where a counter keeps how far it has got: a file, or a row of a database."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from tidemark_producer.errors import InUse, StateLost
from tidemark_producer.records import GREATEST, Position

if TYPE_CHECKING:
    from collections.abc import Callable


class Store(Protocol):
    """Keeps one position for each producer: all up to it may have been given out. Implement it for other stores."""

    def open(self, name: str) -> Position | None:
        """Start to keep a producer's position; return what is kept, or None. Raises an `InUse` or a `StateLost`."""

    def swap(self, old: Position | None, new: Position) -> None:
        """Replace a position, so that it survives a loss of power. Raises an `InUse` if another process has replaced `old`."""

    def close(self) -> None:
        """Release it to other processes."""


class FileStore:
    """A file on a local disk, in an existing folder. Its lock lasts as long as the sender: a second one here gets `InUse`.

    The lock is the file `.lock` next to it, which stays. A position is written to `.new`, forced to the disk, and renamed.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._lock: int | None = None
        self._name = ""

    def open(self, name: str) -> Position | None:
        """Lock the file, and read it; see `Store`."""
        lock = os.open(self._path.with_name(f"{self._path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise InUse(f"A sender that lives holds {self._path}. End it first; its numbers go on from there.") from None
        self._lock, self._name = lock, name
        _held.add(self)
        try:
            return self._read()
        except BaseException:
            self.close()
            raise

    def swap(self, old: Position | None, new: Position) -> None:  # noqa: ARG002 -- the lock sees to it that it is still `old`
        """Write a new position; see `Store`."""
        if self._lock is None:
            raise InUse(f"This process does not hold {self._path}.")
        written = self._path.with_name(f"{self._path.name}.new")
        text = json.dumps({"producer": self._name, "epoch": new.epoch, "sequence": new.sequence})
        with written.open("w", encoding="utf-8") as file:
            file.write(f"{text}\n")
            file.flush()
            os.fsync(file.fileno())
        written.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def close(self) -> None:
        """Release the lock."""
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    def _read(self) -> Position | None:
        try:
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except UnicodeDecodeError as error:
            raise self._lost("it is no text") from error
        try:
            kept = json.loads(text)
            position = Position(kept["epoch"], kept["sequence"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._lost("it holds no position") from error
        if not all(type(number) is int and 0 <= number <= GREATEST for number in position):
            raise self._lost("its numbers are out of range")
        if kept.get("producer") != self._name:
            raise self._lost("it is another producer's: each has a file of its own")
        return position

    def _lost(self, why: str) -> StateLost:
        return StateLost(f"{self._path} cannot be used, {why}. Move it away, and start with after=last_accepted(...).")


class SqlStore:
    """A row of a table, by compare-and-set: a sender that another one overtook gets `InUse` at its next step.

    `connect` opens a connection for each step, as `lambda: sqlite3.connect("kit.db")` does. `paramstyle` is the driver's, such
    as `sqlite3.paramstyle`. The table, which the store does not create::

        CREATE TABLE tidemark_producers (name VARCHAR(1024) PRIMARY KEY, epoch BIGINT NOT NULL, sequence BIGINT NOT NULL)
    """

    def __init__(self, connect: Callable[[], Any], *, paramstyle: str, table: str = "tidemark_producers") -> None:
        marks = {"qmark": "?", "format": "%s", "pyformat": "%s"}
        if paramstyle not in marks:
            raise ValueError(f"The paramstyle is one of {', '.join(marks)}, not {paramstyle!r}.")
        if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?", table, re.ASCII):
            raise ValueError(f"A table's name is letters, digits and _, not {table!r}.")
        self._connect, self._mark, self._table = connect, marks[paramstyle], table
        self._name = ""

    def open(self, name: str) -> Position | None:
        """Read the row; see `Store`."""
        self._name = name
        rows = self._run("SELECT epoch, sequence FROM {table} WHERE name = {mark}", (name,))
        return Position(*rows[0]) if rows else None

    def swap(self, old: Position | None, new: Position) -> None:
        """Update or insert the row; see `Store`."""
        if old is None:
            statement = "INSERT INTO {table} (epoch, sequence, name) VALUES ({mark}, {mark}, {mark})"
            values: tuple[Any, ...] = (*new, self._name)
        else:
            statement = (
                "UPDATE {table} SET epoch = {mark}, sequence = {mark} "
                "WHERE name = {mark} AND epoch = {mark} AND sequence = {mark}"
            )
            values = (*new, self._name, *old)
        try:
            changed = self._run(statement, values)
        except Exception as error:
            # Two senders that start at once insert the same row. Every driver has a class of this name, each its own.
            if not any(each.__name__ == "IntegrityError" for each in type(error).__mro__):
                raise
            changed = 0
        if changed != 1:
            raise InUse(
                f"Another process has taken over the numbers of {self._name!r} in {self._table}. Do not send beside it."
            )

    def close(self) -> None:
        """Do nothing: no connection stays open."""

    def _run(self, statement: str, values: tuple[Any, ...]) -> Any:
        """Run a statement in a transaction; return the rows of a query, or how many were changed."""
        with contextlib.closing(self._connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(statement.format(table=self._table, mark=self._mark), values)
            found = cursor.fetchall() if cursor.description else cursor.rowcount
            connection.commit()
            return found


_held: WeakSet[FileStore] = WeakSet()


def _close_inherited_locks() -> None:
    """Close the locks that a fork inherits: otherwise they stay after the sender's own process has ended."""
    for store in list(_held):
        store.close()


os.register_at_fork(after_in_child=_close_inherited_locks)
