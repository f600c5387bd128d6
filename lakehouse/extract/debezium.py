"""The position of a change event that Debezium wrote, as (epoch, sequence). Pure; `debezium_columns` is the same in Spark.

A position is a number of up to 126 bits: the commit's place in the database's log, a bit for changes or snapshots, and the
place in the transaction. Its last 63 bits are the sequence, those before them the epoch. All rows of a
snapshot share a position: they have their Kafka offset as the last part. Reasons: docs/decisions/0087-change-events.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

NO_POSITION = "no_position"
NO_TOTAL_ORDER = "no_total_order"

BITS = 63
NO_NUMBER = -1
LSNS = r'\[(?:null|"([0-9]{1,18})"),(?:null|"([0-9]{1,18})")\]'
FILE = r"[\s\S]*\.([0-9]{1,10})"
LSN_OF_SQLSERVER = r"([0-9a-fA-F]{8}):([0-9a-fA-F]{8}):([0-9a-fA-F]{4})"
"""Patterns of whole texts; their groups are numbers."""

_FIELDS = {
    "postgres": ("sequence",),
    "mysql": ("file", "pos", "row"),
    "sqlserver": ("commit_lsn", "change_lsn", "event_serial_no"),
    "mongodb": ("ts_ms", "ord", "txnNumber"),
}
_OF_ALL = {
    "op": ("__op",),
    "op_of_envelope": ("op",),
    "connector": ("source.connector",),
    "snapshot": ("__source_snapshot", "__snapshot", "source.snapshot"),
    "deleted": ("__deleted",),
    "total_order": ("__transaction_total_order", "transaction.total_order"),
    # The transform's own ts_ms is the time when the connector read the event.
    "ts_ms": ("__source_ts_ms", "source.ts_ms"),
}
NUMBERS = ("pos", "row", "ts_ms", "ord")
"""The fields that Debezium writes as numbers: anything else is no value. The others are read as texts."""
DIGITS = "([0-9]{1,18})"
COMMIT_BITS = {"postgres": (63,), "mysql": (31, 32), "sqlserver": (27, 26, 11), "mongodb": (44, 24)}
"""Bits of the parts of a commit's place: LSN; file, position; log file, block, record; milliseconds, order."""
PLACE_BITS = {"postgres": (34,), "mysql": (33, 1), "sqlserver": (12, 26, 11, 11, 1), "mongodb": (34,)}
"""Bits of the parts of the place in a transaction: total_order; row, and 0 for a delete or else 1, because a changed key is a
delete and an insert in one place; the change's log file counted back from the commit's, block, record, serial number, and the
same 0 or 1; total_order."""
SNAPSHOT_BIT = {"postgres": 0, "mysql": 0, "sqlserver": 1, "mongodb": 1}
"""The bit of snapshots. PostgreSQL and MySQL name where the next change may begin, the others the last commit that is in it."""
MOST_FILES = 2 ** PLACE_BITS["sqlserver"][0] - 1
LACKS = {database: NO_TOTAL_ORDER if database in ("postgres", "mongodb") else NO_POSITION for database in _FIELDS}
"""What is missing if an event has no place in its transaction."""


def paths(database: str) -> dict[str, tuple[str, ...]]:
    """Return the places of each field, in the order in which they are tried: after the unwrap transform, then in an envelope.

    >>> paths("mysql")["pos"], paths("mongodb")["ts_ms"]
    (('__source_pos', '__pos', 'source.pos'), ('__source_ts_ms', 'source.ts_ms'))
    """
    own = {name: (f"__source_{name}", f"__{name}", f"source.{name}") for name in _FIELDS[database]}
    return own | {name: places for name, places in _OF_ALL.items() if name in own or name != "ts_ms"}


def position(database: str, found: Mapping[str, Any], offset: int) -> tuple[int, int] | str:
    """Return epoch and sequence of a value with these fields, in a record at this offset; or the problem.

    A field of `NUMBERS` is an int, another one a text; None if it is missing.

    >>> found = dict.fromkeys(paths("mysql")) | {"op": "u", "file": "mysql-bin.000003", "pos": 154, "row": 0}
    >>> position("mysql", found, 7), position("mysql", found | {"pos": None}, 7)
    ((48, 5308579577857), 'no_position')
    """
    op = found["op"] if found["op"] is not None else found["op_of_envelope"] if found["connector"] is not None else None
    is_snapshot = op == "r" or found["snapshot"] not in (None, "false")
    is_delete = op == "d" or found["deleted"] == "true"
    commit, place = _parts(database, found, is_delete=is_delete)
    bits = sum(PLACE_BITS[database])
    head, tail = [*zip(commit, COMMIT_BITS[database], strict=True)], [*zip(place, PLACE_BITS[database], strict=True)]
    tail = [(offset % 2**bits, bits)] if is_snapshot else tail
    if op is None or any(value is None for value, _ in head):
        return NO_POSITION
    if any(value is None for value, _ in tail):
        return LACKS[database]
    if any(value == NO_NUMBER for value, _ in (*head, *tail)):
        return "not_a_whole_number"
    number = 0
    for value, width in (*head, (int(is_snapshot == bool(SNAPSHOT_BIT[database])), 1), *tail):
        if value is None or value >= 2**width:
            return "out_of_range"
        number = number << width | value
    return number >> BITS, number % 2**BITS


def _parts(database: str, found: Mapping[str, Any], *, is_delete: bool) -> tuple[Sequence[int | None], Sequence[int | None]]:
    """Return the parts of the commit's place and of the place in the transaction; None if missing, -1 if no number."""
    [order] = _groups(DIGITS, found["total_order"], 1)
    if database == "postgres":
        # The last commit, and the event's LSN. Their maximum rises, also if a connector that has read no commit is restarted.
        commit, lsn = _groups(LSNS, found["sequence"], 2)
        return [commit if commit is None or lsn is None else max(commit, lsn)], [order]
    if database == "mysql":
        [file] = _groups(FILE, found["file"], 1)
        return [file, _number(found["pos"])], [_number(found["row"]), int(not is_delete)]
    if database == "mongodb":
        no_transaction = order is None and found["txnNumber"] is None
        return [_number(found["ts_ms"]), _number(found["ord"])], [0 if no_transaction else order]
    of_commit = _groups(LSN_OF_SQLSERVER, found["commit_lsn"], 3, base=16)
    file, *rest = _groups(LSN_OF_SQLSERVER, found["change_lsn"], 3, base=16)
    if file is not None and of_commit[0] is not None:
        file = MOST_FILES - (of_commit[0] - file) if 0 <= of_commit[0] - file <= MOST_FILES else MOST_FILES + 1
    return of_commit, [file, *rest, *_groups(DIGITS, found["event_serial_no"], 1), int(not is_delete)]


def _groups(pattern: str, text: str | None, count: int, *, base: int = 10) -> list[int | None]:
    if text is None:
        return [None] * count
    found = re.fullmatch(pattern, text)
    return [NO_NUMBER if each is None else int(each, base) for each in (found.groups() if found else [None] * count)]


def _number(found: int | None) -> int | None:
    return found if found is None else max(found, NO_NUMBER)
