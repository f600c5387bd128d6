"""The facts of a gate run: Silver's and Bronze's own counts against the ledger and the watermarks. Pure, on few rows.

Integers stay Python's: a sequence goes up to 2^63-1, which a pandas column with a null in it would round.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakehouse.contracts.silver import (
    CLASSES,
    COLLISION,
    DUPLICATE,
    KEPT,
    LATE,
    QUARANTINED,
    REPLAY,
    RESET,
    STREAM,
    is_retired,
    lacking,
)

if TYPE_CHECKING:
    from expectations.evidence.model import Evidence, PartitionLoad, Row

Stream = tuple[str | None, int | None, str | None]
StreamLoad = tuple[Stream, int | None]
Ordinal = tuple[int, int]

_LARGEST = 2**63 - 1


@dataclass
class StreamFacts:
    """A stream in a load: how often each invariant is violated. All counts are 0 if everything is right."""

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


@dataclass
class LoadFacts:
    """A load: what budgets may limit."""

    load_seq: int
    records: int = 0
    kept: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def as_row(self) -> Row:
        """The load with every measure of `expectations.checks.MEASURES`; a share of nothing is 0."""
        counts = {name: min(self.counts[name], _LARGEST) for name in _COUNTED}
        shares = {f"{name}_share": _share(counts[name], self.records) for name in ("duplicate", "late", "quarantined")}
        undecodable_share = _share(counts["undecodable"], self.kept)
        return {"load_seq": self.load_seq, **counts, **shares, "undecodable_share": undecodable_share}


_COUNTED = ("duplicate", "late", "missing", "quarantined", "undecodable", "collision")


def stream_facts(evidence: Evidence) -> list[StreamFacts]:
    """The violations of each stream and load.

    Grain: a stream and load that the ledger, Silver, Bronze or the watermarks name, sorted by load; without rejected loads.
    """
    facts = _Facts(evidence)
    facts.compare_rows()
    facts.compare_steps()
    facts.compare_watermarks()
    facts.compare_bronze()
    asked = [row for row in facts.rows.values() if row.load_seq not in evidence.rejected]
    return sorted(asked, key=lambda row: (row.load_seq or 0, row.topic or "", row.partition or 0))


def load_facts(evidence: Evidence) -> list[LoadFacts]:
    """The measures of each load that was not rejected, from the ledger; undecodable records are counted in Silver."""
    loads = {seq: LoadFacts(seq) for seq in range(evidence.first_load_seq, evidence.last_load_seq + 1)}
    for row in evidence.ledger:
        load = loads[row["load_seq"]]
        load.records += row["records"]
        load.kept += _kept(row)
        load.counts["duplicate"] += row[DUPLICATE]
        load.counts["late"] += row[LATE]
        load.counts["collision"] += row[COLLISION]
        load.counts["missing"] += row["missing"]
        load.counts["quarantined"] += sum(row[name] for name in QUARANTINED) - row["late_accepted"]
    for row in evidence.silver:
        if row["load_seq"] in loads:
            loads[row["load_seq"]].counts["undecodable"] += row["undecodable"]
    return [load for load_seq, load in loads.items() if load_seq not in evidence.rejected]


class _Facts:
    """The facts while they are collected: a row is created when something names its stream and load."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.rows: dict[StreamLoad, StreamFacts] = {}
        self.ledger = {(_stream(row), row["load_seq"]): row for row in evidence.ledger}
        self.silver = {(_stream(row), row["load_seq"]): row for row in evidence.silver}

    def of(self, stream: Stream, load_seq: int | None) -> StreamFacts:
        return self.rows.setdefault((stream, load_seq), StreamFacts(*stream, load_seq))

    def compare_rows(self) -> None:
        """Compare Silver's rows with the ledger's, and its classes with its records; find loads that the ledger lacks."""
        for key in {**self.ledger, **self.silver}:
            claimed, found, row = self.ledger.get(key), self.silver.get(key), self.of(*key)
            if found is not None:
                row.not_increasing, row.repeated_keys = found["not_increasing"], found["repeated_keys"]
                row.nulls = found["nulls"]
            row.silver_mismatch = abs((found["rows"] if found else 0) - (_kept(claimed) if claimed else 0))
            if claimed is not None:
                row.unaccounted = abs(claimed["records"] - sum(claimed[name] for name in CLASSES)) + max(0, -claimed["missing"])
        first, last = self.evidence.first_load_seq, self.evidence.last_load_seq
        kinds = {load_seq: claimed["kind"] for (_, load_seq), claimed in self.ledger.items()}
        for load_seq in lacking(kinds, last, first=first):
            self.of((None, None, None), load_seq).unaccounted = 1

    def compare_steps(self) -> None:
        """Check that a load's first in-order row is above the watermark before it and above Silver's rows of earlier loads."""
        highest: dict[Stream, Ordinal] = {}
        in_load = [(load_seq, stream, found) for (stream, load_seq), found in self.silver.items() if load_seq is not None]
        for load_seq, stream, found in sorted(in_load, key=lambda item: item[0]):
            claimed = self.ledger.get((stream, load_seq))
            floors = [floor for floor in (_ordinal(claimed, "before"), highest.get(stream)) if floor is not None]
            first, last = _struct(found["first"]), _struct(found["last"])
            if first is not None and floors and first <= max(floors):
                self.of(stream, load_seq).not_increasing += 1
            if last is not None:
                highest[stream] = max(last, highest.get(stream, last))

    def compare_watermarks(self) -> None:
        """Check that Silver's highest row, the ledger's watermark and silver_watermarks agree for each stream.

        Except for a reset, where an operator set the watermark. A retired stream has no row in the table.
        """
        latest: dict[Stream, Row] = {}
        for (stream, load_seq), claimed in self.ledger.items():
            found = self.silver.get((stream, load_seq))
            last = _struct(found["last"]) if found else None
            expected = max(filter(None, (_ordinal(claimed, "before"), last)), default=None)
            if claimed["kind"] != RESET and _ordinal(claimed, "after") != expected:
                self.of(stream, load_seq).watermark_mismatch += 1
            if stream not in latest or latest[stream]["load_seq"] < load_seq:
                latest[stream] = claimed
        standing = {_stream(row): row for row in self.evidence.watermarks}
        for stream, claimed in latest.items():
            is_there = standing.get(stream) is not None
            if is_there if is_retired(claimed) else not _is_same_watermark(claimed, standing.get(stream)):
                self.of(stream, claimed["load_seq"]).watermark_mismatch += 1
        for stream, row in standing.items():
            if stream not in latest and row["load_seq"] >= self.evidence.first_load_seq:
                self.of(stream, row["load_seq"]).watermark_mismatch += 1

    def compare_bronze(self) -> None:
        """Compare Bronze's records of each partition and load with the ledger's; one stream's row gets the difference."""
        bronze = self.evidence.bronze
        claimed: defaultdict[PartitionLoad, int] = defaultdict(int)
        streams: dict[PartitionLoad, Stream] = {}
        for stream, load_seq in self.ledger:
            partition = (stream[0], stream[1], load_seq)
            row = self.ledger[stream, load_seq]
            replays = row[REPLAY] if bronze.counts_offsets else 0
            claimed[partition] += sum(row[name] for name in CLASSES) - replays
            streams.setdefault(partition, stream)
        for partition in {**claimed, **bronze.records}:
            topic, number, load_seq = partition
            if load_seq in bronze.uncounted:
                continue
            stream = streams.get(partition, (topic, number, None))
            self.of(stream, load_seq).unaccounted += abs(bronze.records.get(partition, 0) - claimed.get(partition, 0))


def _stream(row: Row) -> Stream:
    topic, partition, producer = (row[name] for name in STREAM)
    return topic, partition, producer


def _kept(claimed: Row) -> int:
    """The records of a ledger row that Silver keeps."""
    kept: int = sum(claimed[name] for name in KEPT)
    return kept


def _struct(value: Row | None) -> Ordinal | None:
    if value is None or value["epoch"] is None or value["sequence"] is None:
        return None
    return value["epoch"], value["sequence"]


def _ordinal(claimed: Row | None, when: str) -> Ordinal | None:
    if claimed is None or claimed[f"high_watermark_{when}"] is None:
        return None
    return claimed[f"epoch_{when}"], claimed[f"high_watermark_{when}"]


def _is_same_watermark(claimed: Row, standing: Row | None) -> bool:
    names = {"epoch": "epoch_after", "high_watermark": "high_watermark_after", "last_offset": "last_offset"}
    return standing is not None and all(
        standing[name] == claimed[other] for name, other in {**names, "load_seq": "load_seq"}.items()
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
