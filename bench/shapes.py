"""Measures a load of each shape of real numbers, next to the same commits alone. Spark generates Bronze."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from bench import floor
from bench.generated import NOISE, TOPIC, bronze_rows
from bench.loads import Silent, as_silver
from bench.sitting import Sitting, require
from bench.topics import HEADER, PARTITIONS
from lakehouse.contracts.bronze import BRONZE
from lakehouse.contracts.silver import DUPLICATE, LATE, REJECTS
from lakehouse.delta import tables
from lakehouse.extract.sources import Source
from lakehouse.run.context import Run
from lakehouse.table import BRONZE_RECORDS, Lakehouse
from silver.load import steps
from silver.model import LoadLimits
from silver.rules import Rules
from silver.state.tables import create_tables

if TYPE_CHECKING:
    from pathlib import Path

SHAPED_LOAD, SHAPED_FLOOR = "Silver load, by shape", "its commits, bare"
_MOVED = f"{TOPIC}@2"
_SPREAD, _TURN = 2_654_435_761, 40_503


@dataclass(frozen=True)
class Shape:
    """How the numbers of a topic go.

    Attributes:
        pattern: Names it.
        most_times: How many times the bare commits a load of it may take.
        has_gaps: Whether one counter numbers the records of all partitions, so that nearly each has a gap before it.
        duplicates: Of so many records one is sent again, alone; 0 for none.
        swaps: Of so many records one comes after the next one, and is late; 0 for none.
        producers: How many producers of each partition take turns; 0 for no producers.
        invalid: Of so many records one has no number; 0 for none.
        moved_by: Of a moved topic: 0 if a load before has all of them and they come again, 1 if as many new numbers follow.
    """

    pattern: str
    most_times: float
    has_gaps: bool = True
    duplicates: int = 0
    swaps: int = 0
    producers: int = 0
    invalid: int = 0
    moved_by: int | None = None

    @property
    def rules(self) -> Rules:
        """How its records are read."""
        producer = Source("header", "producer") if self.producers else None
        return Rules(Source("header", HEADER), producer, continues=() if self.moved_by is None else ((_MOVED, (TOPIC,)),))

    def records(self, spark: SparkSession, count: int, after: int = 0, *, first: int = 0, noise: int = NOISE) -> DataFrame:
        """Its records as Bronze has them, equally many in each partition, with numbers after some, from an offset on."""
        share = count // PARTITIONS
        places = spark.range(0, share * PARTITIONS, 1, PARTITIONS).select(
            F.floor(F.col("id") / share).cast("int").alias("partition"), (F.col("id") % share + first).alias("offset")
        )
        nth = self._nth(F.col("offset"))
        number = after + 1 + (nth * PARTITIONS + (nth * _SPREAD + F.col("partition")) % PARTITIONS if self.has_gaps else nth)
        producer = F.concat(F.lit("p"), (nth * _TURN % max(1, self.producers)).cast("string")).alias("producer")
        if self.invalid:
            number = F.when(F.col("offset") % self.invalid != self.invalid // 2, number)
        columns = [F.col("partition"), F.col("offset"), number.alias("seq"), *([producer] if self.producers else [])]
        return bronze_rows(places.select(*columns), TOPIC, noise=noise)

    def _nth(self, offset: Column) -> Column:
        """Which record of its partition is at an offset."""
        if self.duplicates:
            again = offset - max(2, self.duplicates // 2)
            is_again = offset % self.duplicates == self.duplicates - 1
            new, old = ((each - F.floor(each / self.duplicates)).cast("bigint") for each in (offset, again))
            return F.when(is_again, old).otherwise(new)
        if self.swaps:
            return F.when(offset % self.swaps == 0, offset + 1).when(offset % self.swaps == 1, offset - 1).otherwise(offset)
        return offset

    def expected(self, count: int) -> dict[str, int]:
        """The classes of its records, but the accepted ones."""
        share = count // PARTITIONS
        if self.moved_by is not None:
            return {} if self.moved_by else {DUPLICATE: count}
        again = share // self.duplicates if self.duplicates else 0
        late = (share + self.swaps - 2) // self.swaps if self.swaps else 0
        return {name: PARTITIONS * each for name, each in ((DUPLICATE, again), (LATE, late)) if each}


SHAPES = (
    Shape("contiguous", 1.2, has_gaps=False),
    Shape("gaps", 1.2),
    Shape("gaps, 1 % sent again one by one", 1.35, duplicates=100),
    Shape("gaps, 20 % sent again one by one", 1.6, duplicates=5),
    Shape("gaps, 1 % late", 1.35, swaps=100),
    Shape("20 producers in turns", 1.2, producers=20),
    Shape("20 producers in turns, 1 % sent again", 1.35, producers=20, duplicates=100),
    Shape("1,000 producers in turns", 1.2, producers=1_000),
    Shape("1,000 producers in turns, 1 % sent again", 1.35, producers=1_000, duplicates=100),
    Shape("gaps, all again in other partitions of a moved topic", 2.5, moved_by=0),
    Shape("gaps, past the old numbers of a moved topic", 1.2, moved_by=1),
)


def measure(sitting: Sitting, spark: SparkSession, folder: Path, records: int, rounds: int) -> None:
    """Make Bronze of each shape, then load it and commit the same bare, in turns.

    Raises:
        WrongResultError: A load gave a record another class.
    """
    for nth, shape in enumerate(SHAPES):
        sitting.tell(f"Shapes: making {records:,} records, {shape.pattern}")
        bronze = Lakehouse(root=str(folder / f"shape-{nth}")).table(BRONZE_RECORDS)
        tables.create(spark, bronze, BRONZE)
        tables.append(shape.records(spark, records), bronze, BRONZE)
        if shape.moved_by is not None:
            moved = {"topic": F.lit(_MOVED), "partition": (F.col("partition") + 1) % PARTITIONS}
            tables.append(shape.records(spark, records, records * shape.moved_by).withColumns(moved), bronze, BRONZE)
    for nth in range(len(SHAPES)):
        _once(Sitting(), spark, folder, nth, records)  # warms up
    for _ in range(rounds):
        sitting.start_round()
        for nth in range(len(SHAPES)):
            _once(sitting, spark, folder, nth, records)


def _once(sitting: Sitting, spark: SparkSession, folder: Path, nth: int, records: int) -> None:
    """A load and its commits, each over a Bronze of its own, which shares the files."""
    shape, count = SHAPES[nth], records // PARTITIONS * PARTITIONS
    runs = [Run("bench", Lakehouse(root=str(folder / name)), Silent()) for name in ("load", "bare")]
    for run in runs:
        bronze = f"{run.lakehouse.root}/{BRONZE_RECORDS}"
        shutil.copytree(folder / f"shape-{nth}" / BRONZE_RECORDS, bronze, copy_function=os.link)
        create_tables(spark, run, shape.rules)
    if shape.moved_by is not None:
        steps.load_once(spark, runs[0], shape.rules, LoadLimits(records=count))
    counts: dict[str, int] = {}

    def load() -> None:
        done = steps.load_once(spark, runs[0], shape.rules)
        counts.update(done.counts if done else {})

    ways: list[tuple[str, Callable[[], None]]] = [
        (SHAPED_LOAD, load),
        (SHAPED_FLOOR, lambda: _commit_bare(spark, runs[1], shape, count)),
    ]
    for name, way in ways if len(sitting.starts) % 2 else reversed(ways):
        sitting.measure(name, shape.pattern, count, way)
    kept_out = shape.expected(count)
    expected = {**dict.fromkeys(counts, 0), "accepted": count - sum(kept_out.values()), **kept_out}
    require(f"classes, {shape.pattern}", observed=counts, expected=expected)
    for run in runs:
        shutil.rmtree(str(run.lakehouse.root))


def _commit_bare(spark: SparkSession, run: Run, shape: Shape, count: int) -> None:
    """Copy all rows, and commit as many rows of the ledger, watermarks and rejects as a load does; decide nothing."""
    bronze = run.table(BRONZE_RECORDS)
    rows = as_silver(tables.read(spark, bronze, version=tables.version(spark, bronze)))
    rows = rows if shape.moved_by is None else rows.where(F.col("topic") == _MOVED)
    names: list[str | None] = [f"p{each}" for each in range(shape.producers)]
    floor.commit_silver(spark, run.lakehouse, floor.streams_of(TOPIC, names or [None]), 1, rows)
    if rejects := PARTITIONS if shape.moved_by == 0 else sum(shape.expected(count).values()):
        nothing = [F.lit(None).cast(column.type).alias(column.name) for column in REJECTS.columns]
        tables.append(spark.range(rejects).select(*nothing).coalesce(1), run.table(REJECTS.name), REJECTS)
