"""What suspects are compared with: the records that earlier loads kept, and those that they found late."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import functions as F

from lakehouse.contracts.silver import LATE, REJECTS, silver_records
from lakehouse.delta import few_rows
from lakehouse.spark import frames, pruning
from lakehouse.table import SILVER_RECORDS, SILVER_REJECTS
from silver.state.tables import before_load
from silver.suspects.compare import KEY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.run.context import Run
    from lakehouse.spark.pruning import Range
    from silver.state.watermarks import Watermarks

_OF_SILVER = (*KEY, "key", "value", "erased")
_OF_REJECTS = (*(name for name in KEY if name != "sequence"), "class", "first_offset", "first_sequence", "content_sha256")


class Past(Protocol):
    """The state that the earlier loads left."""

    @property
    def watermarks(self) -> Watermarks:
        """The watermarks before the load."""

    def kept(self, wanted: Sequence[Range]) -> DataFrame:
        """Their rows of `silver_records` with a sequence in some ranges: stream, epoch, sequence, key, value and erased."""

    def late(self, wanted: Sequence[Range]) -> DataFrame:
        """Their late rows of `silver_rejects` with a sequence in some ranges, whatever became of them."""


@dataclass(frozen=True)
class Whole:
    """The past in two frames, from which Spark reads the ranges.

    Attributes:
        silver: Their rows of `silver_records`.
        rejects: Their rows of `silver_rejects`.
        watermarks: The watermarks before the load.
    """

    silver: DataFrame
    rejects: DataFrame
    watermarks: Watermarks

    def kept(self, wanted: Sequence[Range]) -> DataFrame:
        """See `Past.kept`."""
        return self.silver.where(pruning.sequence_filter(wanted))

    def late(self, wanted: Sequence[Range]) -> DataFrame:
        """See `Past.late`."""
        return _late(self.rejects.where(pruning.sequence_filter(wanted, of="first_sequence")))

    @classmethod
    def of(cls, spark: SparkSession, run: Run, load_seq: int, watermarks: Watermarks) -> Whole:
        """What the loads before one left in a run's tables."""
        silver, rejects = (before_load(spark, run, contract, load_seq) for contract in (silver_records(), REJECTS))
        return cls(silver, rejects, watermarks)


@dataclass(frozen=True)
class Near:
    """The past of a small load: what lies in the ranges is read on the driver if it is little, else as of `Whole`.

    Attributes:
        spark: The session.
        run: The run.
        load_seq: The load's number.
        watermarks: The watermarks before the load.
    """

    spark: SparkSession
    run: Run
    load_seq: int
    watermarks: Watermarks

    def kept(self, wanted: Sequence[Range]) -> DataFrame:
        """See `Past.kept`."""
        rows = few_rows.within(self.run.table(SILVER_RECORDS), _OF_SILVER, self._boxes(wanted, "sequence"))
        return self._whole.kept(wanted) if rows is None else frames.of_arrow(self.spark, rows)

    def late(self, wanted: Sequence[Range]) -> DataFrame:
        """See `Past.late`."""
        rows = few_rows.within(self.run.table(SILVER_REJECTS), _OF_REJECTS, self._boxes(wanted, "first_sequence"))
        return self._whole.late(wanted) if rows is None else _late(frames.of_arrow(self.spark, rows))

    @cached_property
    def _whole(self) -> Whole:
        return Whole.of(self.spark, self.run, self.load_seq, self.watermarks)

    def _boxes(self, wanted: Iterable[Range], of: str) -> list[few_rows.Box]:
        of_loads = {"load_seq": (0, self.load_seq - 1)}
        return [
            {"topic": (topic,) * 2, "partition": (partition,) * 2, "epoch": (epoch,) * 2, of: (first, last), **of_loads}
            for topic, partition, epoch, first, last in wanted
        ]


def _late(rejects: DataFrame) -> DataFrame:
    return rejects.where(F.col("class") == LATE)
