"""Streams of MySQL and SQL Server, made of the envelopes that Debezium documents: their connectors were not run."""

import itertools
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.cdc.record import PARTITIONS
from tests.support.change_events import event, of_snapshot

Place = tuple[str, int, int]
Row = dict[str, Any]
Change = tuple[str, Row | None, Row | None]  # op, before, after
_TOPICS = {"mysql": "shop.inventory.customers", "sqlserver": "shop.inventory.dbo.customers"}
_ROWS, _STATEMENTS = 60, 130  # in the snapshot, and after it
_RESTARTS = ((250, 40), (280, 90))  # events that were sent before a kill, and how many of them come again


@dataclass(frozen=True)
class Stream:
    """A connector's records in the order in which they came to Kafka, the class of each, and the tables at the end."""

    database: str
    topics: Mapping[str, str]
    sent: Sequence[dict[str, Any]]
    classes: Mapping[Place, str]
    tables: Mapping[str, Sequence[Row]]


@dataclass
class _Transaction:
    locked: set[int] = field(default_factory=set)
    statements: list[list[tuple[int, list[Change]]]] = field(default_factory=list)  # for each row its log record and changes


class _Server:
    """A table, and the log of its changes: three transactions are open at a time, and each locks its rows."""

    def __init__(self, database: str) -> None:
        self._database, self._chance = database, random.Random(1)
        self.rows = {key: {"id": key, "note": "opened", "cents": 100} for key in range(1, _ROWS + 1)}
        snapshot = {"file": _file(0), "pos": 154} if database == "mysql" else {"commit_lsn": _lsn(0)}
        parts = ["first", *["true"] * (_ROWS - 2), "last"]
        snapshots = [of_snapshot(database, snapshot=part, **snapshot) for part in parts]
        self.events = [{**found, "after": row} for found, row in zip(snapshots, self.rows.values(), strict=True)]
        self.transactions = [0] * _ROWS  # the number of each event's transaction
        self._record, self._pos, self._commits = 0, 154, 0
        self._open = [_Transaction() for _ in range(3)]
        for nth in range(_STATEMENTS):
            transaction = self._chance.choice(self._open)
            self._execute(transaction, nth)
            if self._chance.random() < 0.4:
                self._commit(transaction)
                self._open[self._open.index(transaction)] = _Transaction()
        for transaction in self._open:
            self._commit(transaction)

    def _execute(self, transaction: _Transaction, nth: int) -> None:
        """Insert, update or delete up to three rows, or change their keys; a new row may have the key of a deleted one."""
        others = set().union(*(each.locked for each in self._open if each is not transaction))
        kind, statement = self._chance.choice(("insert", "update", "update", "delete", "change key")), []
        for old in self._chance.sample(sorted(self.rows.keys() - others), self._chance.randint(1, 3)):
            new = old
            if kind in ("insert", "change key"):
                new = next(key for key in itertools.count(1) if key not in self.rows and key not in others)
            before, after = self.rows[old], {"id": new, "note": f'"{kind}" {nth}', "cents": nth}
            delete: Change = ("d", before, None)
            insert: Change = ("c", None, after)
            changes: dict[str, list[Change]] = {"insert": [insert], "update": [("u", before, after)], "delete": [delete]}
            if kind in ("delete", "change key"):
                del self.rows[old]
            if kind != "delete":
                self.rows[new] = after
            transaction.locked |= {old, new}
            self._record += 1
            statement.append((self._record, changes.get(kind, [delete, insert])))
        transaction.statements.append(statement)

    def _commit(self, transaction: _Transaction) -> None:
        """MySQL writes a transaction when it is committed, SQL Server each change at once; both are sent by commits."""
        self._record += 1
        self._commits += 1
        if self._commits % 12 == 0:
            self._pos = 4
        for statement in transaction.statements:
            self._pos += 211
            for row, (record, changes) in enumerate(statement):
                for serial, (op, before, after) in enumerate(changes, 1):
                    source = self._position(row, record, serial + 1 if op == "u" else serial)
                    found = event(self._database, op=op, snapshot=False, table="customers", **source)
                    self.events.append({**found, "before": before, "after": after})
                    self.transactions.append(self._commits)

    def _position(self, row: int, record: int, serial: int) -> dict[str, Any]:
        """Return the fields of `source`. SQL Server writes an update as two events. The connector sends the second."""
        if self._database == "mysql":
            gtid = f"3e11fa47-71ca-11e1-9e33-c80aa9429562:{self._commits}"
            return {"file": _file(self._commits // 12), "pos": self._pos, "row": row, "thread": 7, "gtid": gtid, "query": None}
        lsns = {"change_lsn": _lsn(record), "commit_lsn": _lsn(self._record)}
        return {**lsns, "schema": "dbo", "event_serial_no": str(serial)}


def _file(rotations: int) -> str:
    return f"mysql-bin.{3 + rotations:06}"


def _lsn(record: int) -> str:
    return f"{0x27 + record // 200:08x}:{0x758 + record % 200 // 8:08x}:{1 + record % 8:04x}"


def stream(database: str) -> Stream:
    """Send a server's events to Kafka by key, and twice again from within a transaction, as after a kill within another."""
    server = _Server(database)
    order: list[int] = []
    start = 0
    for killed, back in _RESTARTS:
        order += range(start, _within_transaction(server.transactions, killed))
        start = _within_transaction(server.transactions, killed - back)
    order += range(start, len(server.events))
    sent: list[dict[str, Any]] = []
    classes: dict[Place, str] = {}
    offsets: Counter[int] = Counter()
    for turn, nth in enumerate(order):
        found = server.events[nth] | {"ts_ms": 1559729471739 + turn}
        key = (found["after"] or found["before"])["id"]
        kind = "duplicate" if nth in order[:turn] else "accepted"
        values = [(json.dumps(found), kind), *([(None, "invalid")] if found["op"] == "d" else [])]  # a delete has a tombstone
        for value, of_value in values:
            place = (_TOPICS[database], key % PARTITIONS, offsets[key % PARTITIONS])
            offsets[key % PARTITIONS] += 1
            classes[place] = of_value
            record = {"key": json.dumps({"id": key}), "value": value, "headers": [], "timestamp": found["ts_ms"]}
            sent.append({**dict(zip(("topic", "partition", "offset"), place, strict=True)), **record})
    tables = {"customers": [*server.rows.values()]}
    return Stream(database, {"customers": _TOPICS[database]}, sent, classes, tables)


def _within_transaction(transactions: Sequence[int], near: int) -> int:
    return next(nth for nth in range(near, len(transactions)) if transactions[nth - 1] == transactions[nth])
