"""The evidence of a gate run in few rows, and its results: each stream's violations, each load's measures. Pure."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from lakehouse import reconcile
from lakehouse.contracts.bronze import plain_topic
from lakehouse.contracts.gate import NOTHING_REJECTED, RESTART_SUSPECTED, Rejected
from lakehouse.contracts.silver import CLASSES, COLLISION, DUPLICATE, LATE, QUARANTINED, REPLAY, stream_of
from lakehouse.reconcile import Difference
from lakehouse.table import BRONZE_RECORDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

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
        rejected: The rejected loads, which are no longer audited.
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


Stream = tuple[str | None, int | None, str | None]
"""topic, partition, producer; topic and partition are None for a load without rows."""

_LARGEST = 2**63 - 1


@dataclass
class StreamFacts:
    """The number of violations of each invariant, for a stream in a load. All are 0 if everything is right."""

    topic: str | None
    partition: int | None
    producer: str | None
    load_seq: int | None
    not_increasing: int = 0
    repeated_keys: int = 0
    nulls: int = 0
    unaccounted: int = 0
    silver_mismatch: int = 0
    watermark_mismatch: int = 0


_COUNTED = (
    "duplicate",
    "late",
    "missing",
    "missing_of_contiguous",
    "quarantined",
    "undecodable",
    "collision",
    RESTART_SUSPECTED,
)


def stream_facts(evidence: Evidence) -> list[StreamFacts]:
    """Return the violations of each stream and load that a table names, sorted by load, without rejected loads."""
    ledger, silver, first = evidence.ledger, evidence.silver, evidence.first_load_seq
    differences = {
        "not_increasing": reconcile.sequences_rise(ledger, silver),
        "unaccounted": chain(
            reconcile.loads_are_there(ledger, evidence.last_load_seq, first=first),
            reconcile.classes_add_up(ledger),
            _bronze_matches(evidence),
        ),
        "silver_mismatch": reconcile.rows_match(ledger, silver),
        "watermark_mismatch": chain(
            reconcile.watermarks_are_reached(ledger, silver),
            reconcile.watermarks_match(ledger, evidence.watermarks, first=first),
        ),
    }
    facts: dict[tuple[Stream, int | None], StreamFacts] = {}

    def of(stream: Stream, load_seq: int | None) -> StreamFacts:
        return facts.setdefault((stream, load_seq), StreamFacts(*stream, load_seq))

    for row in ledger:
        of(stream_of(row), row["load_seq"])
    for row in silver:
        found = of(stream_of(row), row["load_seq"])
        found.repeated_keys, found.nulls = row["repeated_keys"], row["nulls"]
    for fact, each in ((fact, each) for fact, found in differences.items() for each in found):
        found = of(each.stream or (None, None, None), each.load_seq)
        setattr(found, fact, getattr(found, fact) + each.count)
    asked = [row for row in facts.values() if row.load_seq not in evidence.rejected]
    return sorted(asked, key=lambda row: (row.load_seq or 0, row.topic or "", row.partition or 0))


def load_facts(evidence: Evidence) -> list[Row]:
    """Return the measures of each load that was not rejected, from the ledger. Counts undecodable records in Silver."""
    loads: dict[int, Counter[str]] = {
        load_seq: Counter() for load_seq in range(evidence.first_load_seq, evidence.last_load_seq + 1)
    }
    for row in evidence.ledger:
        loads[row["load_seq"]].update(
            records=row["records"],
            kept=reconcile.kept(row),
            duplicate=row[DUPLICATE],
            late=row[LATE],
            collision=row[COLLISION],
            missing=row["missing"],
            missing_of_contiguous=row["missing"] if row["missing"] and is_contiguous(row) else 0,
            quarantined=sum(row[name] for name in QUARANTINED) - row["late_accepted"],
        )
    for row in evidence.silver:
        if row["load_seq"] in loads:
            loads[row["load_seq"]]["undecodable"] += row["undecodable"]
    for row in evidence.restarts:
        loads[row["load_seq"]][RESTART_SUSPECTED] += 1
    return [measure(load_seq, counts) for load_seq, counts in loads.items() if load_seq not in evidence.rejected]


def measure(load_seq: int, found: Counter[str]) -> Row:
    """Return a load's row with every measure of `expectations.checks.MEASURES`. Shares are 0 if there are no records.

    `missing_of_contiguous` is the part of `missing` in streams that should have no gaps.
    """
    counts = {name: min(found[name], _LARGEST) for name in _COUNTED}
    shares = {f"{name}_share": _share(counts[name], found["records"]) for name in ("duplicate", "late", "quarantined")}
    return {"load_seq": load_seq, **counts, **shares, "undecodable_share": _share(counts["undecodable"], found["kept"])}


def is_contiguous(row: Row) -> bool:
    """Whether a ledger row's stream should have no gaps, by the policies of its load."""
    rules = _rules(row["rules"] or "{}")
    own = dict(rules.get("topics", ()))
    return bool(own.get(plain_topic(row["topic"]), rules).get("contiguous"))


@lru_cache(maxsize=8)
def _rules(text: str) -> dict[str, Any]:
    rules: dict[str, Any] = json.loads(text)
    return rules


def _bronze_matches(evidence: Evidence) -> Iterator[Difference]:
    """Compare Bronze's record count per partition and load with the ledger. Assigns a difference to one of the streams."""
    bronze = evidence.bronze
    claimed: Counter[PartitionLoad] = Counter()
    streams: dict[PartitionLoad, Stream] = {}
    for row in evidence.ledger:
        place = (row["topic"], row["partition"], row["load_seq"])
        replays = row[REPLAY] if bronze.counts_offsets else 0
        claimed[place] += sum(row[name] for name in CLASSES) - replays
        streams.setdefault(place, stream_of(row))
    for place in {**claimed, **bronze.records}:
        topic, partition, load_seq = place
        observed, expected = bronze.records.get(place, 0), claimed[place]
        if load_seq not in bronze.uncounted and observed != expected:
            where = f"{BRONZE_RECORDS}, load {load_seq}, topic {topic}, partition {partition}"
            texts = f"{observed:,} records", f"{expected:,}, as the ledger counts them"
            stream = streams.get(place, (topic, partition, None))
            yield Difference(where, *texts, stream, load_seq, abs(observed - expected))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
