"""The rejects reconciled with the ledger: what was kept out, and what an operator settled. Pure, on few rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from lakehouse.contracts.silver import (
    ACCEPTED,
    CLASSES,
    DISCARD,
    DISCARDED,
    DUPLICATE,
    ERASE,
    HELD,
    LATE,
    RELEASE,
    RELEASED,
    REPLAY,
    stream_of,
    stream_text,
)
from lakehouse.run.findings import Violation
from lakehouse.table import SILVER_REJECTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lakehouse.contracts.silver import Stream
    from lakehouse.reconcile import StreamLoad
    from silver.audit.ledger_checks import Row

_SETTLED_AS = {RELEASE: RELEASED, DISCARD: DISCARDED, ERASE: DISCARDED}


def compare(ledger: Sequence[Row], found: Iterable[Row]) -> Iterator[Violation]:
    """Check that the rejects of each class, and those that each load settled, are as many as the ledger counts.

    Args:
        ledger: The ledger's rows of the finished loads.
        found: The rows of `silver.audit.row_summaries.rejects`.
    """
    out = [name for name in CLASSES if name not in (ACCEPTED, REPLAY)]
    expected: Counter[tuple[Stream, int, str]] = Counter()
    for row in ledger:
        for name in out:
            expected[stream_of(row), row["load_seq"], name] = row[name] - (row["late_accepted"] if name == LATE else 0)
    kinds = {row["load_seq"]: row["kind"] for row in ledger}
    listed: Counter[tuple[Stream, int, str]] = Counter()
    settled: defaultdict[StreamLoad, int] = defaultdict(int)
    wrong: list[Violation] = []
    for row in found:
        listed[stream_of(row), row["load_seq"], row["class"]] += row["records"]
        if row["settled_load_seq"] is not None:
            settled[stream_of(row), row["settled_load_seq"]] += row["records"]
        wrong.extend(_wrong_state(row, kinds))
    for stream, load_seq, name in sorted({**expected, **listed}, key=lambda key: (key[1] or 0, str(key))):
        observed, counted = listed[stream, load_seq, name], expected[stream, load_seq, name]
        if observed != counted:
            where = f"{SILVER_REJECTS}, load {load_seq}, {stream_text(stream)}, class {name}"
            yield Violation(where, f"{observed:,} records", f"{counted:,}, as the ledger counts them")
    yield from wrong
    yield from _unsettled(ledger, settled)


def _wrong_state(row: Row, kinds: Mapping[int, str]) -> Iterator[Violation]:
    """Check for a state that no load can have set."""
    state, by = row["state"], row["settled_load_seq"]
    if by is None:
        is_right = state == HELD or (state == DISCARDED and row["class"] in (DUPLICATE, LATE))
    else:
        is_right = _SETTLED_AS.get(kinds.get(by, "")) == state
    if not is_right:
        where = f"{SILVER_REJECTS}, load {row['load_seq']}, {stream_text(stream_of(row))}, class {row['class']}"
        said = f"{row['records']:,} records {state}, by load {by}"
        yield Violation(where, said, "held, or settled by a load that released or discarded")


def _unsettled(ledger: Iterable[Row], settled: Mapping[StreamLoad, int]) -> Iterator[Violation]:
    for row in ledger:
        counted = row[RELEASED] + row[DISCARDED]
        observed = settled.get((stream_of(row), row["load_seq"]), 0)
        if observed != counted:
            where = f"{SILVER_REJECTS}, settled by load {row['load_seq']}, {stream_text(stream_of(row))}"
            yield Violation(where, f"{observed:,} records", f"{counted:,}, as the ledger counts them")
