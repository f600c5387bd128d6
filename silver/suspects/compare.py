"""Compare suspects with what was known of their keys: the rule of `silver.suspects.resolve` in one pass over rows. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse.contracts.silver import COLLISION, DUPLICATE, LATE, STREAM
from silver.model import rows_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

    Row = Mapping[str, Any]
    Known = Mapping[tuple[Any, ...], str]

KEY = (*STREAM, "epoch", "sequence")
"""The columns that identify a record: Silver holds each key once."""


ERASED = "erased:"
"""Prefix of an erased record's content hash; the last offset decided before the erasure follows."""


def is_same(first: str, content: str, offset: int) -> bool:
    """Whether a suspect is a copy of the first record under its key.

    The content of an erased record is unknown. A suspect that came after the erasure is taken for a resent copy. One that came
    before it could still be compared, and was erased too if it was a copy.

    >>> is_same("a", "a", 7), is_same("a", "b", 7), is_same("erased:6", "b", 7), is_same("erased:9", "b", 7)
    (True, False, True, False)
    """
    return first == content or (first.startswith(ERASED) and offset > int(first.split(":")[1]))


def key_of(row: Row) -> tuple[Any, ...]:
    """The key of a row."""
    return tuple(row[name] for name in KEY)


def first_of_each(known: pa.Table) -> dict[tuple[Any, ...], str]:
    """The content hash of the first record under each key.

    Args:
        known: Rows with a key, `content_sha256` and `place`, the lower the earlier.

    >>> import pyarrow as pa
    >>> row = dict(zip(KEY, ("t", 0, "p", 0, 7)))
    >>> rows = [{**row, "place": -1, "content_sha256": "a"}, {**row, "place": 9, "content_sha256": "b"}]
    >>> first_of_each(pa.Table.from_pylist(rows))
    {('t', 0, 'p', 0, 7): 'a'}
    """
    return {key_of(row): row["content_sha256"] for row in rows_of(known.sort_by([("place", "descending")]))}


def judged(chunks: Iterable[tuple[Iterable[Row], Known]]) -> Iterator[dict[str, Any]]:
    """Classify each suspect; consecutive duplicates of a block become one row, also where chunks part them.

    The first of an unknown sequence is late; a copy of the known or first record is a duplicate; the rest are collisions.

    Args:
        chunks: Suspects, and of each of their keys that was known before the load's suspects the content hash of the first
            record. Suspects have a key, offset, `block` (the first offset of their block) and `content_sha256`, and are
            sorted by stream and offset, all chunks together.

    Yields:
        Rows of `silver.model.SEGMENT` with `block`, without the jump counts.

    >>> suspect = dict(zip(KEY, ("t", 0, None, 0, 7)), offset=4, block=4, content_sha256="a")
    >>> copy, other = {**suspect, "offset": 5}, {**suspect, "offset": 6, "content_sha256": "b"}
    >>> [row["class"] for row in judged([([suspect], {}), ([copy, other], {})])]
    ['late', 'duplicate', 'collision']
    >>> known = {key_of(suspect): "a"}
    >>> [(row["class"], row["first_offset"], row["last_offset"]) for row in judged([([suspect], known), ([copy], known)])]
    [('duplicate', 4, 5)]
    """
    late: dict[tuple[Any, ...], str] = {}
    block: dict[str, Any] | None = None
    for suspects, known in chunks:
        for row in suspects:
            key = key_of(row)
            first = known.get(key) or late.get(key)
            if first is None:
                kind = LATE
                late[key] = row["content_sha256"]
            else:
                kind = DUPLICATE if is_same(first, row["content_sha256"], row["offset"]) else COLLISION
            if block and kind == DUPLICATE == block["class"] and _place(block) == _place(row):
                block["records"] += 1
                block["last_offset"] = row["offset"]
                block["first_sequence"] = min(block["first_sequence"], row["sequence"])
                block["last_sequence"] = max(block["last_sequence"], row["sequence"])
                continue
            if block:
                yield block
            block = _block(row, kind)
    if block:
        yield block


def _place(row: Row) -> tuple[Any, ...]:
    return (*(row[name] for name in STREAM), row["block"])


def _block(row: Row, kind: str) -> dict[str, Any]:
    return {
        **{name: row[name] for name in (*STREAM, "epoch", "block")},
        "class": kind,
        "first_offset": row["offset"],
        "last_offset": row["offset"],
        "first_sequence": row["sequence"],
        "last_sequence": row["sequence"],
        "records": 1,
        "content_sha256": None if kind == DUPLICATE else row["content_sha256"],
    }
