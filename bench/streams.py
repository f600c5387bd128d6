"""Streams: what 1, 1,000 and 50,000 of them cost a load of 100,000 records, its commits alone, and the watermark table."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import partial
from hashlib import md5
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from bench.floor import commit_silver
from bench.generated import PRODUCER_HEADER, TOPIC, bronze_rows
from bench.loads import Silent, as_silver
from bench.peers.sizes import live_bytes
from bench.sitting import require
from bench.topics import HEADER, PARTITIONS
from lakehouse.contracts.bronze import BRONZE
from lakehouse.delta import tables
from lakehouse.extract.sources import Source
from lakehouse.run.context import Run
from lakehouse.table import SILVER_WATERMARKS, Lakehouse
from silver.load import steps
from silver.rules import Rules
from silver.state.tables import create_tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from bench.loads import Place
    from bench.sitting import Sitting

STREAMS_LOAD, BARE_LOAD = "Silver load, many streams", "its three commits, bare, many streams"
WATERMARK_BYTES = "live files of silver_watermarks"
MOST_STREAMS = 50_000

_RECORDS = 100_000
_FEW = 8
_RULES = Rules(sequence=Source("header", HEADER), producer=Source("header", PRODUCER_HEADER))


@dataclass(frozen=True)
class Case:
    """A load on a table of watermarks.

    Attributes:
        known: Streams in the table.
        touched: Streams that the load's records are of.
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
    """One stream; a fiftieth of the most, and the most: a load that touches a few of them, and one that touches all.

    Every partition has equally many.

    >>> [case.pattern for case in cases(50_000)]
    ['1 of 1 stream', '8 of 1,000 streams', '1,000 of 1,000 streams', '8 of 50,000 streams', '50,000 of 50,000 streams']
    """
    sizes = [max(_FEW, size // PARTITIONS * PARTITIONS) for size in (most // 50, most)]
    return [Case(1, 1), *(Case(known, touched) for known in sizes for touched in (_FEW, known))]


def measure(sitting: Sitting, place: Place, most: int, rounds: int) -> None:
    """Make a pipeline for each number of streams, then load, in turns.

    Raises:
        WrongResultError: A load did not accept all of its records.
    """
    wanted = cases(most)
    sitting.tell(f"Streams: making pipelines of up to {most:,} streams")
    pipelines = {known: _Pipeline(place, known) for known in dict.fromkeys(case.known for case in wanted)}
    sitting.tell("Streams: warming up")
    for case in wanted:  # each number of touched streams has been there once
        pipelines[case.known].arrive(case.touched)
        pipelines[case.known].load()
        pipelines[case.known].commit_bare(pipelines[case.known].streams(case.touched))
    for _ in range(rounds):
        sitting.start_round()
        for case in wanted:
            pipeline = pipelines[case.known]
            pipeline.arrive(case.touched)
            ways: list[tuple[str, Callable[[], None]]] = [
                (STREAMS_LOAD, pipeline.load),
                (BARE_LOAD, partial(pipeline.commit_bare, pipeline.streams(case.touched))),
            ]
            for name, way in ways if len(sitting.starts) % 2 else reversed(ways):
                sitting.measure(name, case.pattern, pipeline.arrived, way)
    for known, pipeline in pipelines.items():
        held, pattern = pipeline.watermark_bytes(), f"{known:,} stream{'s' if known > 1 else ''}"
        sitting.count(WATERMARK_BYTES, pattern, held, "bytes")
        sitting.count(f"{WATERMARK_BYTES}, per stream", pattern, held / known, "bytes")


class _Pipeline:
    """Silver with so many streams: producers of a partition take turns, record by record."""

    def __init__(self, place: Place, known: int) -> None:
        self._spark: SparkSession = place.spark
        self._run = Run("bench", Lakehouse(root=str(place.folder / f"streams-{known}")), Silent())
        self._bare = Lakehouse(root=str(place.folder / f"streams-{known}-bare"))
        self._partitions = min(known, PARTITIONS)
        self._sent = 0
        self.arrived = 0
        tables.create(self._spark, self._run.table(BRONZE.name), BRONZE)
        create_tables(self._spark, self._run, _RULES)
        self._known = known
        self.arrive(known, records=known)
        self.load()
        shutil.copytree(str(self._run.lakehouse.root), str(self._bare.root))

    def arrive(self, touched: int, *, records: int = _RECORDS) -> None:
        """Append records to Bronze: equally many of each of the streams that are touched, each above all before it."""
        producers, share = touched // self._partitions, records // self._partitions
        numbered = self._spark.range(0, share * self._partitions, 1, PARTITIONS).select(
            (F.col("id") % self._partitions).cast("int").alias("partition"),
            F.floor(F.col("id") / self._partitions).alias("nth"),
        )
        rows = numbered.select(
            "partition",
            (F.col("nth") + self._sent).alias("offset"),
            # Above all that its partition had, so above all of its stream: a step over those of the others.
            (F.floor(F.col("nth") / producers) + self._sent + 1).alias("seq"),
            F.md5((F.col("nth") % producers).cast("string").cast("binary")).alias("producer"),
        )
        tables.append(bronze_rows(rows, TOPIC), self._run.table(BRONZE.name), BRONZE)
        self._sent, self.arrived = self._sent + share, share * self._partitions

    def load(self) -> None:
        """Load what arrived."""
        done = steps.load_once(self._spark, self._run, _RULES)
        require("accepted records of the load", observed=done and done.counts["accepted"], expected=self.arrived)

    def streams(self, touched: int) -> pa.Table:
        """Topic, partition and producer of the streams that `arrive` touches."""
        producers = [md5(b"%d" % nth, usedforsecurity=False).hexdigest() for nth in range(touched // self._partitions)]
        places = [(partition, producer) for partition in range(self._partitions) for producer in producers]
        partitions, names = zip(*places, strict=True)
        return pa.table({"topic": [TOPIC] * len(places), "partition": partitions, "producer": names})

    def commit_bare(self, streams: pa.Table) -> None:
        """Commit what arrived, and as many rows of ledger and watermarks as a load does."""
        first = self._sent - self.arrived // self._partitions
        arrived = self._spark.read.table(self._run.table(BRONZE.name).sql).where(F.col("offset") >= first)
        commit_silver(self._spark, self._bare, streams, self._sent, as_silver(arrived))

    def watermark_bytes(self) -> int:
        """The live files of the watermark table, which must have a row for each stream."""
        rows = self._spark.read.table(self._run.table(SILVER_WATERMARKS).sql).count()
        require("rows of silver_watermarks", observed=rows, expected=self._known)
        return live_bytes(Path(self._run.table(SILVER_WATERMARKS).location))
