"""Measures a load of 100,000 records with one stream, and with 50,000 streams: a few or all have new records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from bench.generated import PRODUCER_HEADER, TOPIC, bronze_rows
from bench.loads import Silent
from bench.sitting import require
from bench.topics import HEADER, PARTITIONS
from lakehouse.contracts.bronze import BRONZE
from lakehouse.delta import tables
from lakehouse.extract.sources import Source
from lakehouse.run.context import Run
from lakehouse.table import Lakehouse
from silver.load import steps
from silver.rules import Rules
from silver.state.tables import create_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bench.loads import Place
    from bench.sitting import Sitting

STREAMS_LOAD = "Silver load, many streams"
MOST_STREAMS = 50_000

_RECORDS = 100_000
_FEW = 8
_RULES = Rules(sequence=Source("header", HEADER), producer=Source("header", PRODUCER_HEADER))


@dataclass(frozen=True)
class Case:
    """A load on a table of watermarks.

    Attributes:
        known: Streams in the table.
        touched: Streams that the load has records of.
    """

    known: int
    touched: int

    @property
    def pattern(self) -> str:
        """As the tables name it.

        >>> Case(50_000, 8).pattern
        '8 of 50,000 streams'
        """
        return f"{self.touched:,} of {self.known:,} stream{'s' if self.known > 1 else ''}"


def cases(most: int) -> list[Case]:
    """One stream; then the most streams, with new records of a few, and of all. Partitions have equally many.

    >>> [case.pattern for case in cases(50_000)]
    ['1 of 1 stream', '8 of 50,000 streams', '50,000 of 50,000 streams']
    """
    known = max(_FEW, most // PARTITIONS * PARTITIONS)
    return [Case(1, 1), Case(known, _FEW), Case(known, known)]


def measure(sitting: Sitting, place: Place, most: int, rounds: int) -> None:
    """Create a pipeline for each number of streams, then load, in turns.

    Raises:
        WrongResultError: A load did not accept all of its records.
    """
    wanted = cases(most)
    sitting.tell(f"Streams: making pipelines of up to {most:,} streams")
    pipelines = {known: _Pipeline(place, known) for known in dict.fromkeys(case.known for case in wanted)}
    for case in wanted:  # warms up
        pipelines[case.known].arrive(case.touched)
        pipelines[case.known].load()
    for _ in range(rounds):
        sitting.start_round()
        for case in wanted:
            pipeline = pipelines[case.known]
            pipeline.arrive(case.touched)
            sitting.measure(STREAMS_LOAD, case.pattern, pipeline.arrived, pipeline.load)


class _Pipeline:
    """Silver with so many streams: the producers of a partition take turns, record by record."""

    def __init__(self, place: Place, known: int) -> None:
        self._spark: SparkSession = place.spark
        self._run = Run("bench", Lakehouse(root=str(place.folder / f"streams-{known}")), Silent())
        self._partitions = min(known, PARTITIONS)
        self._sent = 0
        self.arrived = 0
        tables.create(self._spark, self._run.table(BRONZE.name), BRONZE)
        create_tables(self._spark, self._run, _RULES)
        self.arrive(known, records=known)
        self.load()

    def arrive(self, touched: int, *, records: int = _RECORDS) -> None:
        """Append records to Bronze, equally many of each touched stream."""
        producers, share = touched // self._partitions, records // self._partitions
        numbered = self._spark.range(0, share * self._partitions, 1, PARTITIONS).select(
            (F.col("id") % self._partitions).cast("int").alias("partition"),
            F.floor(F.col("id") / self._partitions).alias("nth"),
        )
        rows = numbered.select(
            "partition",
            (F.col("nth") + self._sent).alias("offset"),
            # Above every number of the partition before, so above every number of the stream.
            (F.floor(F.col("nth") / producers) + self._sent + 1).alias("seq"),
            F.md5((F.col("nth") % producers).cast("string").cast("binary")).alias("producer"),
        )
        tables.append(bronze_rows(rows, TOPIC), self._run.table(BRONZE.name), BRONZE)
        self._sent, self.arrived = self._sent + share, share * self._partitions

    def load(self) -> None:
        """Load what arrived."""
        done = steps.load_once(self._spark, self._run, _RULES)
        require("accepted records of the load", observed=done and done.counts["accepted"], expected=self.arrived)
