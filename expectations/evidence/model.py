"""The evidence of one gate run: few rows, each table read once and at a pinned version."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakehouse.contracts.gate import NOTHING_REJECTED, Rejected

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Row = dict[str, Any]
PartitionLoad = tuple[str | None, int | None, int | None]
"""topic, partition, load_seq; load_seq is None if no load claims the Bronze version."""


@dataclass(frozen=True)
class BronzeCounts:
    """Bronze's own counts of each partition and load; `uncounted` are loads whose Bronze range is unknown.

    With `counts_offsets`, distinct offsets were counted instead of whole versions, so replays are not included.
    """

    records: Mapping[PartitionLoad, int]
    counts_offsets: bool = False
    uncounted: tuple[int, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """The rows of a range of loads, up to the last finished one.

    Attributes:
        ledger: Rows of `silver_loads`.
        silver: Rows of `expectations.evidence.facts.silver_facts`.
        rejected: The rejected loads: they are no longer audited.
        restarts: The ledger's rows of streams whose numbering may have restarted.
    """

    first_load_seq: int
    last_load_seq: int
    ledger: Sequence[Row]
    silver: Sequence[Row]
    watermarks: Sequence[Row]
    bronze: BronzeCounts
    rejected: Rejected = NOTHING_REJECTED
    restarts: Sequence[Row] = ()


def by_load(versions: Iterable[Row], loads: Iterable[tuple[int, int]]) -> dict[PartitionLoad, int]:
    """Sum the rows of `facts.bronze_counts` by load, given the last version of each load and its number.

    A version belongs to the first load that ends at it or later.
    """
    ends = sorted(set(loads))
    last_versions = [to_version for to_version, _ in ends]
    records: Counter[PartitionLoad] = Counter()
    for row in versions:
        place = bisect_left(last_versions, row["version"])
        load_seq = ends[place][1] if place < len(ends) else None
        records[row["topic"], row["partition"], load_seq] += row["records"]
    return dict(records)
