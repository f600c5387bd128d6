"""Convert decided segments to the inputs of the ledger, the rejects and the copy into Silver."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.contracts.silver import ACCEPTED, DISCARDED, DUPLICATE, HELD, LATE, REPLAY, SKIPPED, STREAM, SUSPECT
from lakehouse.settings.policies import LATE_OUTCOMES, LateOutcome
from silver.columns import NONE, row_codes
from silver.model import REJECT, SEGMENT, SPAN, Segment, tuples_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from silver.rules import Rules

PLACE = ("topic", "partition", "offset")
_OF_MANY = pa.array([DUPLICATE, REPLAY, SUSPECT])
"""The classes whose segments may be blocks of several records."""


def summed(found: pa.Table) -> pa.Table:
    """Merge the segments of each stream, epoch and class into one, which keeps the result small."""
    ends = {"first": "min", "last": "max"}
    how = {name: ends.get(name.split("_")[0], "sum") for name in (*SPAN, "records", "jumps_forward", "jumps_backward")}
    grouped = found.group_by([*STREAM, "epoch", "class"]).aggregate([*how.items()])
    named = grouped.rename_columns({f"{name}_{each}": name for name, each in how.items()})
    for name in ("reason", "content_sha256"):
        named = named.append_column(name, pa.nulls(len(named)))
    return named.select(SEGMENT.names).cast(SEGMENT)


def summary(found: pa.Table) -> Iterator[Segment]:
    """Yield the merged segments of `summed`."""
    for topic, partition, producer, *others, _ in tuples_of(found, SEGMENT.names):
        yield Segment((topic, partition, producer), *others)


class Whole:
    """Joins the segments of all chunks. The result equals a decision in one chunk.

    Attributes:
        rest: The segments that the next chunk may continue: those of the last chunk, and of other streams in its partition.
    """

    def __init__(self) -> None:
        self.rest = SEGMENT.empty_table()

    def add(self, found: pa.Table) -> pa.Table:
        """Add the segments of the next chunk, see `silver.decide.kernel.Decided`. Return those that no later chunk extends."""
        before, goes_on = self.rest, found["goes_on"].to_numpy()
        found = found.select(SEGMENT.names)
        if not before.num_rows:
            self.rest = found
            return before
        stream, place = (
            row_codes(pa.concat_tables([before.select(names), found.select(names)]), names) for names in (STREAM, STREAM[:2])
        )
        of, met, last = stream[: len(before)], stream[len(before) :], np.full(int(stream.max()) + 1, NONE)
        ends = np.where(pc.equal(before["class"], ACCEPTED).to_numpy(), NONE, before["last_offset"].to_numpy())
        np.maximum.at(last, of, ends)
        is_last = (ends == last[of]) & pc.is_in(before["class"], _OF_MANY).to_numpy()
        is_continued = is_last & np.isin(of, met[goes_on])
        waits = is_last & ~np.isin(of, met) & np.isin(place[: len(before)], place[len(before) :])
        joined = summed(pa.concat_tables([before.filter(pa.array(is_continued)), found.filter(pa.array(goes_on))]))
        self.rest = pa.concat_tables([joined, found.filter(pa.array(~goes_on)), before.filter(pa.array(waits))])
        return before.filter(pa.array(~(is_continued | waits)))


def late_places(found: pa.Table, rules: Rules) -> pa.Table:
    """Return topic, partition and offset of the late records that Silver accepts."""
    late = found.filter(_is_late(found, rules, "kept"))
    return late.select(["topic", "partition", "first_offset"]).rename_columns(list(PLACE))


def _is_late(found: pa.Table, rules: Rules, outcome: LateOutcome) -> pa.Array:
    topics = [topic for topic in pc.unique(found["topic"]).to_pylist() if LATE_OUTCOMES[rules.policy(topic).late] == outcome]
    return pc.and_(pc.equal(found["class"], LATE), pc.is_in(found["topic"], pa.array(topics, pa.string())))


def rejects(found: pa.Table, load_seq: int, rules: Rules) -> pa.Table:
    """Return the segments kept out of Silver, as rows of `silver_rejects`."""
    is_kept = pc.or_(pc.is_in(found["class"], pa.array([ACCEPTED, REPLAY])), _is_late(found, rules, "kept"))
    out = found.filter(pc.invert(is_kept))
    is_skipped = pc.is_in(out["reason"], pa.array([*SKIPPED]))
    is_decided_away = reduce(pc.or_, [pc.equal(out["class"], DUPLICATE), _is_late(out, rules, "discarded"), is_skipped])
    state = pc.if_else(is_decided_away, DISCARDED, HELD)
    columns = {name: out[name] for name in REJECT.names if name in out.column_names}
    numbers = {
        "load_seq": pa.repeat(pa.scalar(load_seq, pa.int64()), len(out)),
        "settled_load_seq": pa.nulls(len(out), pa.int64()),
    }
    return pa.table({**columns, **numbers, "state": state}, schema=REJECT)
