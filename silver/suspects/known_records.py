"""The records that suspects are compared with: those that earlier loads kept, and their late records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakehouse.contracts.silver import LATE, REJECTS, silver_records
from lakehouse.delta import small_tables
from lakehouse.spark import frames, pruning
from silver.state.tables import before_load
from silver.suspects.compare import KEY
from silver.suspects.content_hash import comparable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.contract import Contract
    from lakehouse.run.context import Run
    from lakehouse.spark.pruning import Range
    from silver.rules import Rules
    from silver.state.watermarks import Watermarks

_OF_SILVER = (*KEY, "key", "value", "erased")
_OF_REJECTS = (*(name for name in KEY if name != "sequence"), "class", "first_offset", "first_sequence", "content_sha256")


@dataclass(frozen=True)
class KnownRecords:
    """The state after the earlier loads: the watermarks, and the rows of two tables with a sequence in some ranges.

    `rules` are those of the load.
    """

    silver: Callable[[Sequence[Range]], DataFrame]
    rejects: Callable[[Sequence[Range]], DataFrame]
    watermarks: Watermarks
    rules: Rules

    @classmethod
    def of(cls, spark: SparkSession, run: Run, load_seq: int, watermarks: Watermarks, rules: Rules) -> KnownRecords:
        """Return the state of a run's tables before a load. If few rows are in the ranges, the driver reads them."""

        def rows(contract: Contract, columns: Sequence[str], of: str, wanted: Sequence[Range]) -> DataFrame:
            before = (0, load_seq - 1)
            boxes: list[small_tables.Box] = [
                {"topic": (topic, topic), "partition": (at, at), "epoch": (epoch, epoch), of: (first, last), "load_seq": before}
                for topic, at, epoch, first, last in wanted
            ]
            few = small_tables.few(run.table(contract.name), columns, boxes)
            if few is not None:
                return frames.of_arrow(spark, few)
            return before_load(spark, run, contract, load_seq).where(pruning.sequence_filter(wanted, of=of))

        return cls(
            lambda wanted: rows(silver_records(), _OF_SILVER, "sequence", wanted),
            lambda wanted: rows(REJECTS, _OF_REJECTS, "first_sequence", wanted),
            watermarks,
            rules,
        )

    def kept(self, wanted: Sequence[Range]) -> DataFrame:
        """Rows of `silver_records` with a sequence in some ranges, prepared for `content_sha256`."""
        return comparable(self.silver(wanted), self.rules)

    def late(self, wanted: Sequence[Range]) -> DataFrame:
        """Late rows of `silver_rejects`, in any state, with a sequence in some ranges."""
        return self.rejects(wanted).where(F.col("class") == LATE)
