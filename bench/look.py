"""What the exact look costs: a load with suspects beside one of the same size without, on the same history of Silver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from bench.generated import bronze_rows
from bench.loads import Silent, settings_of
from bench.sitting import CLEAN, LOOK, require
from lakehouse.contracts.bronze import BRONZE
from lakehouse.delta import tables
from lakehouse.run.context import Run
from lakehouse.table import Lakehouse
from silver.load import steps
from silver.rules import Rules
from silver.state.tables import create_tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column

    from bench.loads import Place
    from bench.sitting import Sitting

LOAD_RECORDS = 100_000
_TOPIC = "look"
STREAMS = 8
_HISTORY_LOAD = 1_000_000
_GAP = 100
"""Every so many sequences one is not sent: a late record comes to fill it."""


@dataclass(frozen=True)
class Part:
    """A part of a commit: so many records of each stream, and the sequence of the nth of them."""

    records: int
    sequence: Column


class LookPipeline:
    """Silver with a history, made from generated Bronze: the broker has no part in this measure.

    Args:
        place: Where it runs.
        history: Records in Silver before the first round.
        name: Names its folder.
    """

    def __init__(self, place: Place, history: int, name: str = "look") -> None:
        root = place.folder / f"{name}-{history}"
        self._spark, self._pattern = place.spark, f"on {history:,}"
        self._rules = Rules.of(settings_of(place, _TOPIC, root))
        self.run = Run("bench", Lakehouse(root=str(root)), Silent())
        self._offset = self._sent = self._filled = 0
        tables.create(self._spark, self.run.table(BRONZE.name), BRONZE)
        create_tables(self._spark, self.run, self._rules)
        self._history = history // STREAMS
        for records in _shares(self._history):
            self._commit(Part(records, sent(F.col("nth") + self._sent)))
            self._sent += records
            self._load({"accepted": records})

    def measure(self, sitting: Sitting) -> None:
        """A load of new records; then one of which half is new, 1 % late, and the rest duplicates of the history."""
        share = LOAD_RECORDS // STREAMS
        self._commit(Part(share, sent(F.col("nth") + self._sent)))
        self._sent += share
        sitting.measure(CLEAN, self._pattern, LOAD_RECORDS, lambda: self._load({"accepted": share}))
        new, late = share // 2, share // 100
        again = share - new - late
        self._commit(
            Part(new, sent(F.col("nth") + self._sent)),
            Part(again, sent(F.col("nth") + self._history // 2)),
            Part(late, (F.col("nth") + self._filled + 1) * _GAP),
        )
        self._sent, self._filled = self._sent + new, self._filled + late
        counts = {"accepted": new, "duplicate": again, "late": late}
        sitting.measure(LOOK, self._pattern, LOAD_RECORDS, lambda: self._load(counts))

    def _commit(self, *parts: Part) -> None:
        """Append the parts, one after another in offset order, to every stream."""
        rows = None
        for part in parts:
            numbered = self._spark.range(0, part.records * STREAMS, 1, STREAMS).select(
                (F.col("id") % STREAMS).cast("int").alias("partition"), F.floor(F.col("id") / STREAMS).alias("nth")
            )
            made = bronze_rows(
                numbered.select("partition", (F.col("nth") + self._offset).alias("offset"), part.sequence.alias("seq")),
                _TOPIC,
                noise=6,
            )
            rows = made if rows is None else rows.unionByName(made)
            self._offset += part.records
        if rows is not None:
            tables.append(rows, self.run.table(BRONZE.name), BRONZE)

    def _load(self, counts: dict[str, int]) -> None:
        done = steps.load_once(self._spark, self.run, self._rules)
        observed = {name: count for name, count in done.counts.items() if count} if done else {}
        require("classes of the load", observed=observed, expected={name: count * STREAMS for name, count in counts.items()})


def _shares(records: int) -> Iterator[int]:
    """The history in loads."""
    step = _HISTORY_LOAD // STREAMS
    for start in range(0, records, step):
        yield min(step, records - start)


def sent(nth: Column) -> Column:
    """The sequence of the nth record that is sent in order: 1, 2, 3, without the multiples of the gap."""
    return nth + 1 + F.floor(nth / (_GAP - 1))
