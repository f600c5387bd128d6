"""Compare suspects with what was known of their keys: the rule of `silver.suspects.resolve` over columns. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.contracts.silver import COLLISION, DUPLICATE, LATE, STREAM
from silver.columns import codes, filled, lasts_of, row_codes, starts_of

if TYPE_CHECKING:
    from silver.columns import Flags, Numbers

KEY = (*STREAM, "epoch", "sequence")
"""The columns that identify a record: Silver holds each key once."""

ERASED = "erased:"
"""Prefix of an erased record's content hash; the last offset decided before the erasure follows."""

_KINDS = (LATE, DUPLICATE, COLLISION)
_LATE, _DUPLICATE, _COLLISION = range(len(_KINDS))
_BEHIND = 2**63 - 1
"""The place of a late record of the load: behind all that was known before it."""


class Comparison:
    """The classes of a load's suspects, some of them at a time.

    The first suspect of an unknown sequence is late; a copy of the known or first record is a duplicate; the rest are
    collisions. Consecutive duplicates of a block become one row, also where chunks part them.

    >>> def suspects(*rows): return pa.table(dict(zip((*KEY, "offset", "block", "content_sha256"), zip(*rows))))
    >>> none = pa.table({name: [] for name in (*KEY, "content_sha256", "place")})
    >>> told, key = Comparison(), ("t", 0, "p", 0, 7)
    >>> told.add(suspects((*key, 4, 4, "a")), none)
    >>> told.add(suspects((*key, 5, 5, "a"), (*key, 6, 6, "b")), none)
    >>> told.rows["class"].to_pylist(), told.rows["content_sha256"].to_pylist()
    (['late', 'duplicate', 'collision'], ['a', None, 'b'])
    """

    def __init__(self) -> None:
        self._rows: list[pa.Table] = []
        self._late: list[pa.Table] = []

    @property
    def rows(self) -> pa.Table:
        """A row per duplicate block, late record or collision: those of `silver.model.SEGMENT`, and `block`, without jumps."""
        return pa.concat_tables(self._rows)

    def add(self, suspects: pa.Table, known: pa.Table) -> None:
        """Classify further suspects.

        Args:
            suspects: The key, offset, `block` (the first offset of its block) and `content_sha256` of each, sorted by stream
                and offset, all chunks together.
            known: The records under their keys that were known before the load's suspects, of each perhaps several: the key,
                `content_sha256`, and `place`, the lower the earlier.
        """
        if not suspects.num_rows:
            return
        names = [*KEY, "content_sha256", "place"]
        kind = _kinds(suspects, pa.concat_tables([_as_known(table).select(names) for table in (known, *self._late)]))
        late = suspects.filter(pa.array(kind == _LATE))
        self._late.append(late.append_column("place", pa.repeat(_BEHIND, len(late))))
        rows = _blocks(suspects, kind)
        if self._rows and _goes_on(self._rows[-1].slice(len(self._rows[-1]) - 1), rows.slice(0, 1)):
            rows = self._joined(rows)
        self._rows.append(rows)

    def _joined(self, rows: pa.Table) -> pa.Table:
        """Join the first row to the last one of the chunk before."""
        before = self._rows.pop()
        (last,), (first,) = before.slice(len(before) - 1).to_pylist(), rows.slice(0, 1).to_pylist()
        last["records"] += first["records"]
        last["last_offset"] = first["last_offset"]
        last["first_sequence"] = min(last["first_sequence"], first["first_sequence"])
        last["last_sequence"] = max(last["last_sequence"], first["last_sequence"])
        self._rows.append(before.slice(0, len(before) - 1))
        return pa.concat_tables([pa.Table.from_pylist([last], rows.schema), rows.slice(1)])


def _as_known(table: pa.Table) -> pa.Table:
    types = {"topic": pa.string(), "producer": pa.string(), "content_sha256": pa.string()}
    schema = pa.schema([(name, types.get(name, pa.int64())) for name in (*KEY, "content_sha256", "place")])
    return table.select(schema.names).cast(schema)


def _kinds(suspects: pa.Table, known: pa.Table) -> Numbers:
    """The class of each suspect, as an index."""
    count, names = len(suspects), [*KEY, "content_sha256", "place"]
    both = pa.concat_tables([_as_known(suspects.append_column("place", suspects["offset"])), known.select(names)])
    key = row_codes(both, KEY)
    content, contents = codes(both["content_sha256"])
    first = np.full(int(key.max()) + 1, -1, np.int64)
    order = count + np.argsort(filled(known["place"]), kind="stable")[::-1]
    first[key[order]] = content[order]  # of the records under a key the earliest one is written last
    is_known = first[key[:count]] >= 0
    unknown = np.flatnonzero(~is_known)[::-1]
    first_offer = np.full(len(first), -1, np.int64)
    first_offer[key[unknown]] = unknown
    is_late = ~is_known & (first_offer[key[:count]] == np.arange(count))
    first[key[unknown]] = content[first_offer[key[unknown]]]
    is_same = _are_same(first[key[:count]], content[:count], filled(suspects["offset"]), contents)
    return np.where(is_late, _LATE, np.where(is_same, _DUPLICATE, _COLLISION))


def _are_same(first: Numbers, content: Numbers, offset: Numbers, contents: pa.Array) -> Flags:
    """Whether each suspect is a copy of the first record under its key.

    The content of an erased record is unknown. A suspect that came after the erasure is taken for a resent copy. One that came
    before it could still be compared, and was erased too if it was a copy.

    >>> contents = pa.array(["a", "b", "erased:6", "erased:9"])
    >>> _are_same(np.array([0, 0, 2, 3]), np.array([0, 1, 1, 1]), np.array([7, 7, 7, 7]), contents).tolist()
    [True, False, True, False]
    """
    up_to = [int(each.split(":")[1]) if each.startswith(ERASED) else _BEHIND for each in contents.to_pylist()]
    is_same: Flags = (first == content) | (offset > np.array(up_to, np.int64)[first])
    return is_same


def _blocks(suspects: pa.Table, kind: Numbers) -> pa.Table:
    """Suspects with their classes as rows; consecutive duplicates of a block are one."""
    is_block = kind == _DUPLICATE
    block = starts_of(row_codes(suspects, (*STREAM, "block")))
    starts = np.flatnonzero(block | ~is_block | ~np.append(False, is_block[:-1]))
    lasts = lasts_of(starts, len(kind))
    firsts, ends = suspects.take(pa.array(starts)), suspects.take(pa.array(lasts))
    sequence = filled(suspects["sequence"])
    return pa.table(
        {
            **{name: firsts[name] for name in (*STREAM, "epoch", "block")},
            "class": pa.array(_KINDS).take(pa.array(kind[starts])),
            "first_offset": firsts["offset"],
            "last_offset": ends["offset"],
            "first_sequence": np.minimum.reduceat(sequence, starts),
            "last_sequence": np.maximum.reduceat(sequence, starts),
            "records": lasts - starts + 1,
            "content_sha256": pc.if_else(pa.array(is_block[starts]), None, firsts["content_sha256"]),
        }
    )


def _goes_on(last: pa.Table, first: pa.Table) -> bool:
    """Whether two rows are duplicates of the same block."""
    names = [*STREAM, "block", "class"]
    return last["class"].to_pylist() == [DUPLICATE] and bool(last.select(names).equals(first.select(names)))
