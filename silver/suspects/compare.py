"""Compare suspects with the known records of their keys. Applies the rule of `silver.suspects.resolve` to columns. Pure."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.contracts.silver import COLLISION, DUPLICATE, FENCED, LATE, STREAM
from silver.columns import Flags, Numbers, codes, filled, lasts_of, row_codes, starts_of

KEY = (*STREAM, "epoch", "sequence")
"""The columns that identify a record: Silver holds each key once."""

ERASED = "erased:"
"""Prefix of an erased record's content hash; the last offset decided before the erasure follows."""

_KINDS = (LATE, DUPLICATE, COLLISION, FENCED)
_LATE, _DUPLICATE, _COLLISION, _FENCED = range(len(_KINDS))
_NEVER = 2**63 - 1


def compare(suspects: pa.Table, *known: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Classify suspects, sorted by stream and offset, for `merge_blocks`; also return the late ones as known records.

    The first suspect of an unknown sequence is late, or fenced if its epoch is older. A copy of the known or first record is a
    duplicate; the rest are collisions. Suspects have the columns of `kernel.Decided.suspects` and `content_sha256`. `known` may
    have several records of a key: key, `content_sha256`, and `rank`, lower for earlier ones.

    >>> def suspects(*rows): return pa.table(dict(zip((*KEY, "offset", "block", "is_older", "content_sha256"), zip(*rows))))
    >>> key = ("t", 0, "p", 0, 7)
    >>> first, late = compare(suspects((*key, 4, 4, False, "a")))
    >>> others, _ = compare(suspects((*key, 5, 5, False, "a"), (*key, 6, 6, False, "b")), late)
    >>> rows = merge_blocks(pa.concat_tables([first, others]))
    >>> rows["class"].to_pylist(), rows["content_sha256"].to_pylist()
    (['late', 'duplicate', 'collision'], ['a', None, 'b'])
    """
    as_known = _as_known(suspects.append_column("rank", suspects["offset"]))
    kind = _classes(suspects, as_known, pa.concat_tables([as_known.slice(0, 0), *map(_as_known, known)]))
    content = pc.if_else(pa.array((kind == _LATE) | (kind == _COLLISION)), suspects["content_sha256"], None)
    keys = suspects.select([*KEY, "offset", "block"])
    classified = keys.append_column("content_sha256", content).append_column("kind", pa.array(kind))
    return classified, as_known.filter(pa.array(kind == _LATE))


def merge_blocks(suspects: pa.Table) -> pa.Table:
    """Return a row per late record, collision, or block of consecutive duplicates: segments with `block`, not jumps."""
    kind, sequence = filled(suspects["kind"]), filled(suspects["sequence"])
    is_block = kind == _DUPLICATE
    block = starts_of(row_codes(suspects, (*STREAM, "block")))
    starts = np.flatnonzero(block | ~is_block | ~np.append(False, is_block[:-1]))
    lasts = lasts_of(starts, len(kind))
    firsts = suspects.take(pa.array(starts))
    return pa.table(
        {
            **{name: firsts[name] for name in (*STREAM, "epoch", "block", "content_sha256")},
            "class": pa.array(_KINDS).take(firsts["kind"]),
            "first_offset": firsts["offset"],
            "last_offset": suspects["offset"].take(pa.array(lasts)),
            "first_sequence": np.minimum.reduceat(sequence, starts),
            "last_sequence": np.maximum.reduceat(sequence, starts),
            "records": lasts - starts + 1,
        }
    )


def _as_known(table: pa.Table) -> pa.Table:
    types = {"topic": pa.string(), "producer": pa.string(), "content_sha256": pa.string()}
    schema = pa.schema([(name, types.get(name, pa.int64())) for name in (*KEY, "content_sha256", "rank")])
    return table.select(schema.names).cast(schema)


def _classes(suspects: pa.Table, as_known: pa.Table, known: pa.Table) -> Numbers:
    """Return each suspect's class, as an index of `_KINDS`, by the earliest known record of its key."""
    count = len(suspects)
    both = pa.concat_tables([as_known, known])
    key = row_codes(both, KEY)
    content, contents = codes(both["content_sha256"])
    known_content = np.full(int(key.max()) + 1, -1, np.int64)
    order = count + np.argsort(filled(known["rank"]), kind="stable")[::-1]
    known_content[key[order]] = content[order]  # the earliest record of a key is written last
    is_known = known_content[key[:count]] >= 0
    is_older = suspects["is_older"].to_numpy()
    unknown = np.flatnonzero(~is_known & ~is_older)[::-1]
    first_unknown = np.full(len(known_content), -1, np.int64)
    first_unknown[key[unknown]] = unknown
    is_late = first_unknown[key[:count]] == np.arange(count)
    known_content[key[unknown]] = content[first_unknown[key[unknown]]]
    content_to_match = known_content[key[:count]]
    is_same = _are_same(content_to_match, content[:count], filled(suspects["offset"]), contents)
    return np.select([is_late, content_to_match < 0, is_same], [_LATE, _FENCED, _DUPLICATE], _COLLISION)


def _are_same(first: Numbers, content: Numbers, offset: Numbers, contents: pa.Array) -> Flags:
    """Whether each suspect is a copy of the first record under its key.

    The content of an erased record is unknown. A suspect that came after the erasure is taken for a resent copy. One that came
    before it could still be compared, and was erased too if it was a copy.

    >>> contents = pa.array(["a", "b", "erased:6", "erased:9"])
    >>> _are_same(np.array([0, 0, 2, 3]), np.array([0, 1, 1, 1]), np.array([7, 7, 7, 7]), contents).tolist()
    [True, False, True, False]
    """
    up_to = [int(each.split(":")[1]) if each.startswith(ERASED) else _NEVER for each in contents.to_pylist()]
    is_same: Flags = (first == content) | (offset > np.array(up_to, np.int64)[first])
    return is_same
