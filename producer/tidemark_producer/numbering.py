"""Where numbers come from: a counter of the kit, which keeps how far it has got in a file or a database, or the caller."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakSet

from tidemark_producer.records import GREATEST, Exhausted, InUse, OutOfOrder, Position, StateLost, UnsafeSetting

Accepted = Mapping[int, Position | None]
"""A producer's last position in each partition of a topic, as `last_accepted` returns it."""

After = Position | Accepted | Callable[[], Accepted]
"""What to continue after. A function is called when the sender starts, once its `transactional.id` has shut out older ones."""

_BEFORE_ALL = Position(0, GREATEST)


class Numbers(Protocol):
    """Gives a sender its numbers. The sender holds its lock meanwhile, and calls from one thread at a time.

    `last` is the last position that was taken. If `are_given`, a record has the same number when the next process sends it.
    """

    last: Position | None
    are_given: bool

    def open(self, name: str, *, is_alone: bool) -> None:
        """Prepare to number a producer's records. `is_alone` says that Kafka has shut out older senders."""

    def next(self, sequence: int | None) -> Position:
        """Return the position of the next record. It stays the same until it is `last`."""

    def has(self, position: Position, topic: str, partition: int | None) -> bool:
        """Whether Kafka had the record when the sender started."""

    def close(self) -> None:
        """Release the numbers to other senders."""


class Counter:
    """Counts for the whole producer, so the numbers rise in every partition, with gaps. None is ever given out twice.

    By default each start takes the next epoch from the store, in one write, and counts from 0. A sender that was overtaken
    continues in its old epoch, and the reader shuts it out. With `block`, the epoch stays, and the store gives out that many
    numbers at a time. A crash then leaves a gap of at most one block, and what an overtaken sender still sends is late.

    Without a store the count continues after what Kafka has, and needs a `transactional.id`, which shuts out older senders. If
    the store is new, lost or restored, give `after`. Without it, an empty store is a `StateLost` unless `new`.
    """

    are_given = False

    def __init__(
        self, store: Store | None = None, *, block: int | None = None, after: After | None = None, new: bool = False
    ) -> None:
        if block is not None and (store is None or block < 1):
            raise ValueError("A block has one number or more, and comes from a store.")
        self.last: Position | None = None
        self._store, self._block, self._after, self._new = store, block, after, new
        self._kept: Position | None = None
        self._until = _BEFORE_ALL
        self._next = _BEFORE_ALL
        self._is_open = False

    def open(self, name: str, *, is_alone: bool) -> None:
        """Take the first numbers; see `Numbers`. Raises an `InUse`, a `StateLost`, an `UnsafeSetting` or an `Exhausted`."""
        if self._is_open:
            raise InUse("These numbers belong to another sender of this process. Each sender has its own.")
        if self._store is None and not is_alone:
            raise UnsafeSetting(
                "transactional.id", None, "without a store only Kafka can shut out older senders, and it does by this."
            )
        self._is_open = True
        try:
            self._kept = self._store.open(name) if self._store is not None else None
            self._refuse_unknown()
            base = max(self._kept or _BEFORE_ALL, _highest(self._after) or _BEFORE_ALL)
            if self._store is not None and self._block is None:
                self._next = _following(Position(base.epoch, GREATEST))
                self._reserve(Position(self._next.epoch, GREATEST))
            else:
                self._next = _following(base)
                self._until = base if self._store is not None else Position(self._next.epoch, GREATEST)
        except BaseException:
            self._is_open = False
            self.close()
            raise

    def next(self, sequence: int | None) -> Position:
        """Return the next number; see `Numbers`. Raises an `Exhausted`, or an `InUse` if the store is taken over."""
        if sequence is not None:
            raise TypeError("A counter gives the sequence; to give it yourself, use Given.")
        found = self._next if self.last is None else _succeeding(self.last)
        if found > self._until and self._block is not None:
            self._reserve(Position(found.epoch, min(found.sequence + self._block - 1, GREATEST)))
        return found

    def has(self, position: Position, topic: str, partition: int | None) -> bool:  # noqa: ARG002 -- as Numbers is asked
        """Return False: each number is new."""
        return False

    def close(self) -> None:
        """Release the store."""
        if self._store is not None:
            self._store.close()

    def _refuse_unknown(self) -> None:
        if self._kept is None and self._after is None and not self._new:
            raise StateLost(
                "Nothing says which numbers were given out before. Is this the first start, give new=True; "
                "was the store lost, give after=last_accepted(config, topic, name)."
            )

    def _reserve(self, until: Position) -> None:
        if self._store is not None:
            self._store.swap(self._kept, until)
        self._kept = self._until = until


class Given:
    """The caller's own numbers: the id of a row in an outbox, an offset, a line. They have to rise; gaps are fine.

    A resend after a crash is recognised only if the next process gives the record the same number. The epoch stays when the
    program starts again, and rises only if the source's own numbers start over. `accepted` is what Kafka has:
    `{topic: last_accepted(...)}`, or a function that returns it when the sender starts. Records that it covers are not sent
    again if `send` names their partition.
    """

    are_given = True

    def __init__(
        self, epoch: int = 1, *, accepted: Mapping[str, Accepted] | Callable[[], Mapping[str, Accepted]] | None = None
    ) -> None:
        if not 0 <= epoch <= GREATEST:
            raise Exhausted(f"An epoch is from 0 to {GREATEST}, not {epoch}.")
        self.last: Position | None = None
        self.epoch, self._ask = epoch, accepted
        self._accepted: Mapping[str, Accepted] = {}

    def open(self, name: str, *, is_alone: bool) -> None:  # noqa: ARG002 -- as Numbers is asked
        """Get what Kafka has; see `Numbers`."""
        self._accepted = self._ask() if callable(self._ask) else self._ask or {}

    def next(self, sequence: int | None) -> Position:
        """Return the caller's number; see `Numbers`. Raises an `OutOfOrder` unless it rises, or an `Exhausted`."""
        if sequence is None:
            raise TypeError("With Given, each record needs its sequence.")
        if sequence > GREATEST:
            raise Exhausted(f"A sequence ends at {GREATEST}, and {sequence} is above it.")
        if sequence < 0 or (self.last is not None and sequence <= self.last.sequence):
            last = "" if self.last is None else f" after {self.last.sequence}"
            raise OutOfOrder(f"Sequence {sequence}{last} of epoch {self.epoch} does not rise. The record was not sent.")
        return Position(self.epoch, sequence)

    def has(self, position: Position, topic: str, partition: int | None) -> bool:
        """Whether Kafka had the record when the sender started; False if the partition is not known."""
        last = None if partition is None else self._accepted.get(topic, {}).get(partition)
        return last is not None and last.epoch == position.epoch and last.sequence >= position.sequence

    def continue_after(self) -> int | None:
        """Return the sequence up to which Kafka has all records of this epoch; None if a partition has none of it."""
        found = [last for partitions in self._accepted.values() for last in partitions.values()]
        if not found or not all(last is not None and last.epoch == self.epoch for last in found):
            return None
        return min(last.sequence for last in found if last is not None)

    def close(self) -> None:
        """Do nothing: there is no store."""


def _highest(after: After | None) -> Position | None:
    found = after() if callable(after) else after
    if found is None or isinstance(found, Position):
        return found
    return max((position for position in found.values() if position is not None), default=None)


def _following(position: Position) -> Position:
    """Return the next position, in the next epoch if its own has ended."""
    if position.sequence < GREATEST:
        return Position(position.epoch, position.sequence + 1)
    if position.epoch < GREATEST:
        return Position(position.epoch + 1, 0)
    raise Exhausted(f"The epochs end at {GREATEST}: the producer needs another name.")


def _succeeding(position: Position) -> Position:
    if position.sequence == GREATEST:
        raise Exhausted(f"The numbers of epoch {position.epoch} end at {GREATEST}. Start again: the next epoch follows.")
    return Position(position.epoch, position.sequence + 1)


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
            raise InUse(f"Another process took over the numbers of {self._name!r} in {self._table}. Stop this sender.")

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
