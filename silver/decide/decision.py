"""What decided segments mean for the ledger, the rejects and the copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.contracts.silver import ACCEPTED, DISCARDED, DUPLICATE, HELD, LATE, REPLAY, STREAM
from silver.model import REJECT, Segment, tuples_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from silver.rules import Late, Rules


def summary(found: pa.Table) -> Iterator[Segment]:
    """Merge the segments of each stream, epoch and class into one: few, however many blocks there are."""
    grouped = found.group_by([*STREAM, "epoch", "class"]).aggregate(
        [
            ("first_offset", "min"),
            ("last_offset", "max"),
            ("first_sequence", "min"),
            ("last_sequence", "max"),
            *((name, "sum") for name in ("records", "jumps_forward", "jumps_backward")),
        ]
    )
    for topic, partition, producer, epoch, kind, *counted in tuples_of(grouped, grouped.column_names):
        yield Segment((topic, partition, producer), epoch, kind, None, *counted)


def late(found: pa.Table, rules: Rules) -> pa.Table:
    """The segments of the late records that Silver accepts."""
    return found.filter(_is_late(found, rules, "accept"))


def _is_late(found: pa.Table, rules: Rules, policy: Late) -> pa.Array:
    """Whether each segment holds late records of a topic with the given policy."""
    topics = [topic for topic in pc.unique(found["topic"]).to_pylist() if rules.policy(topic).late == policy]
    return pc.and_(pc.equal(found["class"], LATE), pc.is_in(found["topic"], pa.array(topics, pa.string())))


def rejects(found: pa.Table, load_seq: int, rules: Rules) -> pa.Table:
    """The segments that are kept out of Silver, as rows of `silver_rejects`."""
    is_kept = pc.or_(pc.is_in(found["class"], pa.array([ACCEPTED, REPLAY])), _is_late(found, rules, "accept"))
    out = found.filter(pc.invert(is_kept))
    is_decided_away = pc.or_(pc.equal(out["class"], DUPLICATE), _is_late(out, rules, "drop"))
    state = pc.if_else(is_decided_away, DISCARDED, HELD)
    columns = {name: out[name] for name in REJECT.names if name in out.column_names}
    numbers = {
        "load_seq": pa.repeat(pa.scalar(load_seq, pa.int64()), len(out)),
        "settled_load_seq": pa.nulls(len(out), pa.int64()),
    }
    return pa.table({**columns, **numbers, "state": state}, schema=REJECT)


def replayed(found: pa.Table) -> list[tuple[str, int, int, int]]:
    """The offset ranges that Bronze holds twice: topic, partition, first and last offset, inclusive."""
    spans = found.filter(pc.equal(found["class"], REPLAY)).to_pylist()
    return [(span["topic"], span["partition"], span["first_offset"], span["last_offset"]) for span in spans]
