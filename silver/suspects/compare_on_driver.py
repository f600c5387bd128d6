"""Classify suspects on the driver if there are few: the rule of `silver.suspects.resolve` in one pass over rows. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse.contracts.silver import COLLISION, DUPLICATE, LATE, STREAM

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Row = Mapping[str, Any]

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


def first_of_each(known: Iterable[Row]) -> dict[tuple[Any, ...], str]:
    """The content hash of the first record under each key.

    Args:
        known: Rows with a key, `content_sha256` and `place`, the lower the earlier.

    >>> row = dict(zip(KEY, ("t", 0, None, 0, 7)))
    >>> list(first_of_each([{**row, "place": 9, "content_sha256": "b"}, {**row, "place": -1, "content_sha256": "a"}]).values())
    ['a']
    """
    ordered = sorted(known, key=lambda row: row["place"], reverse=True)
    return {key_of(row): row["content_sha256"] for row in ordered}


def judged(suspects: Iterable[Row], known: Mapping[tuple[Any, ...], str]) -> Iterator[dict[str, Any]]:
    """Classify each suspect; consecutive duplicates of a block become one row.

    The first of an unknown sequence is late; a copy of the known or first record is a duplicate; the rest are collisions.

    Args:
        suspects: Rows with a key, offset, `block` (the first offset of their block) and `content_sha256`, sorted by stream
            and offset.
        known: The content hash of the record known before, by key.

    Yields:
        Rows of `silver.model.SEGMENT`, without the jump counts.

    >>> suspect = dict(zip(KEY, ("t", 0, None, 0, 7)), offset=4, block=4, content_sha256="a")
    >>> again = {**suspect, "offset": 5, "content_sha256": "b"}
    >>> [row["class"] for row in judged([suspect, again], {})]
    ['late', 'collision']
    >>> [row["class"] for row in judged([suspect], {key_of(suspect): "a"})]
    ['duplicate']
    """
    first = dict(known)
    block: dict[str, Any] | None = None
    for row in suspects:
        key = key_of(row)
        kind = LATE
        if key in first:
            kind = DUPLICATE if is_same(first[key], row["content_sha256"], row["offset"]) else COLLISION
        first.setdefault(key, row["content_sha256"])
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
