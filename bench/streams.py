"""Measures a load of 100,000 records with one stream, and with 50,000 streams: a few or all have new records."""

from __future__ import annotations

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


def pattern(touched: int, known: int) -> str:
    """A load on so many known streams, as the tables name it.

    >>> pattern(8, 50_000)
    '8 of 50,000 streams'
    """
    return f"{touched:,} of {known:,} stream{'s' if known > 1 else ''}"


def measure(sitting: Sitting, place: Place, most: int, rounds: int) -> None:
    """Create a pipeline for each number of streams, then load, in turns.

    Raises:
        WrongResultError: A load did not accept all of its records.
    """
    sitting.tell(f"Streams: making pipelines of up to {most:,} streams")
    one = _Pipeline(place, 1)
    many = _Pipeline(place, max(_FEW, most // PARTITIONS * PARTITIONS))
    loads = [(one, 1), (many, _FEW), (many, many.known)]
    for pipeline, touched in loads:  # warms up
        pipeline.arrive(touched)
        pipeline.load()
    for _ in range(rounds):
        sitting.start_round()
        for pipeline, touched in loads:
            pipeline.arrive(touched)
            sitting.measure(STREAMS_LOAD, pattern(touched, pipeline.known), pipeline.arrived, pipeline.load)


class _Pipeline:
    """Silver with so many streams: the producers of a partition take turns, record by record."""

    def __init__(self, place: Place, known: int) -> None:
        self._spark: SparkSession = place.spark
        self.known = known
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
