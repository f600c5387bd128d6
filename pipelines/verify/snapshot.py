"""Choose one version of each table for `tidemark verify`, so that a concurrent run changes nothing. Read-only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from expectations import gate
from lakehouse.contracts.silver import DUPLICATE, LEDGER, QUARANTINED, REPLAY, WATERMARK, is_rebuilt
from lakehouse.delta import small_tables, tables
from lakehouse.protocol import gold_rejects
from lakehouse.table import (
    BRONZE_RECORDS,
    GOLD_LATEST,
    GOLD_RECORDS,
    GOLD_REJECTS,
    GOLD_STREAM_HEALTH,
    SILVER_LOADS,
    SILVER_RECORDS,
    SILVER_REJECTS,
    SILVER_WATERMARKS,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.gate import Rejected
    from lakehouse.run.context import Run
    from silver.audit.ledger_checks import Row

_TRIES = 3


@dataclass(frozen=True)
class VerifySnapshot:
    """The finished and published loads, and the chosen version of each table.

    Attributes:
        published_to: The last load that Gold has published; None if there is no Gold.
        ledger: The ledger's rows in the order of their loads, including an open claim's.
        rejected: The rejected loads: Gold holds none of their rows.
        kept_out: The rows of gold_rejects that are in effect.
    """

    finished: int
    published_to: int | None
    watermarks: Sequence[Row]
    ledger: Sequence[Row]
    versions: Mapping[str, int]
    rejected: Rejected
    kept_out: Sequence[Row] = ()
    _frames: dict[str, DataFrame] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def published(self) -> int:
        """The last finished load that Gold has published; 0 if there is none."""
        return 0 if self.is_before_rebuild else min(self.finished, self.published_to or 0)

    @cached_property
    def is_before_rebuild(self) -> bool:
        """Whether Gold is older than a rebuild, and so has none of Silver's current loads."""
        return is_rebuilt({row["load_seq"]: row["kind"] for row in self.loads}, self.published_to or 0)

    @cached_property
    def loads(self) -> list[Row]:
        """The ledger's rows of the finished loads."""
        return [row for row in self.ledger if row["load_seq"] <= self.finished]

    @property
    def open_claim(self) -> int | None:
        """The load that is claimed and not finished, or None."""
        is_open = any(row["load_seq"] == self.finished + 1 for row in self.ledger)
        return self.finished + 1 if is_open else None

    @cached_property
    def last_offsets(self) -> dict[tuple[str, int], int]:
        """The last decided offset of each partition, by the ledger."""
        found: dict[tuple[str, int], int] = {}
        for row in self.loads:
            key = (row["topic"], row["partition"])
            found[key] = max(row["last_offset"], found.get(key, -1))
        return found

    def count(self, *names: str) -> int:
        """The sum of the named ledger counts over the finished loads."""
        return sum(row[name] for row in self.loads for name in names)

    @property
    def is_plain(self) -> bool:
        """Whether Silver kept every record that Bronze holds of the finished loads."""
        return self.count(DUPLICATE, REPLAY, *QUARANTINED) == 0

    def read(self, spark: SparkSession, run: Run, name: str) -> DataFrame:
        """A table at the snapshot's version; a small one is read once."""
        if name not in self._frames:
            self._frames[name] = small_tables.frame(spark, run.table(name), version=self.versions[name])
        return self._frames[name]


def take_snapshot(spark: SparkSession, run: Run) -> VerifySnapshot:
    """Choose the versions to check. Repeats that if a concurrent run has finished loads meanwhile.

    Raises:
        TableMissingError: Silver has not been written yet.
    """
    snapshot = _take_snapshot(spark, run)
    for _ in range(_TRIES):
        claimed = max((row["load_seq"] for row in snapshot.ledger), default=0)
        is_ahead = claimed > snapshot.finished + 1 or (snapshot.published_to or 0) > snapshot.finished
        if not is_ahead or tables.version(spark, run.table(SILVER_WATERMARKS)) == snapshot.versions[SILVER_WATERMARKS]:
            break
        snapshot = _take_snapshot(spark, run)
    return snapshot


def _take_snapshot(spark: SparkSession, run: Run) -> VerifySnapshot:
    """Choose the versions in an order that includes every finished load.

    A load that is finished in the watermarks is complete in tables read later. Gold is chosen before the rejected loads,
    and the ledger after Silver, whose rows follow their claim.
    """
    versions = {SILVER_WATERMARKS: tables.version(spark, run.table(SILVER_WATERMARKS))}
    marks = small_tables.read(spark, run.table(SILVER_WATERMARKS), WATERMARK, version=versions[SILVER_WATERMARKS])
    finished = max((row["load_seq"] for row in marks), default=0)
    published_to = None
    for name in (GOLD_STREAM_HEALTH, GOLD_RECORDS, GOLD_LATEST, GOLD_REJECTS):
        if tables.exists(spark, run.table(name)):
            versions[name] = tables.version(spark, run.table(name))
    if GOLD_STREAM_HEALTH in versions:
        health = small_tables.read(spark, run.table(GOLD_STREAM_HEALTH), ["load_seq"], version=versions[GOLD_STREAM_HEALTH])
        published_to = max((row["load_seq"] for row in health if row["load_seq"] is not None), default=None)
    kept_out = gold_rejects.effective_rejects(spark, run)
    rejected = gate.rejected_loads(gate.decisions(spark, run))
    for name in (SILVER_RECORDS, SILVER_REJECTS, SILVER_LOADS, BRONZE_RECORDS):
        versions[name] = tables.version(spark, run.table(name))
    ledger = small_tables.read(spark, run.table(SILVER_LOADS), LEDGER, version=versions[SILVER_LOADS])
    ledger.sort(key=lambda row: row["load_seq"])
    return VerifySnapshot(finished, published_to, marks, ledger, versions, rejected, kept_out)
