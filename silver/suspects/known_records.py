"""The records that suspects are compared with: those that earlier loads kept, and their late records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakehouse.contracts.silver import LATE, REJECTS, silver_records
from lakehouse.delta import small_tables
from lakehouse.spark import frames, pruning
from lakehouse.table import SILVER_RECORDS, SILVER_REJECTS
from silver.state.tables import before_load
from silver.suspects.compare import KEY
from silver.suspects.content_hash import comparable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.run.context import Run
    from lakehouse.spark.pruning import Range
    from silver.rules import Rules
    from silver.state.watermarks import Watermarks

_OF_SILVER = (*KEY, "key", "value", "erased")
_OF_REJECTS = (*(name for name in KEY if name != "sequence"), "class", "first_offset", "first_sequence", "content_sha256")


@dataclass(frozen=True)
class KnownRecords:
    """The state after the earlier loads: their rows of `silver_records` and `silver_rejects`, and the watermarks.

    `rules` are those of the load. `few` returns the rows of a table in some ranges without a query; None if they are not few.
    """

    silver: Callable[[], DataFrame]
    rejects: Callable[[], DataFrame]
    watermarks: Watermarks
    rules: Rules
    few: Callable[[str, Sequence[str], Sequence[Range], str], DataFrame | None] = lambda *_: None

    @classmethod
    def of(cls, spark: SparkSession, run: Run, load_seq: int, watermarks: Watermarks, rules: Rules) -> KnownRecords:
        """Return the state of a run's tables before a load. If few rows are in the ranges, the driver reads them."""

        def few(table: str, columns: Sequence[str], wanted: Sequence[Range], of: str) -> DataFrame | None:
            boxes: list[small_tables.Box] = [
                {
                    **{name: (value, value) for name, value in (("topic", topic), ("partition", partition), ("epoch", epoch))},
                    of: (first, last),
                    "load_seq": (0, load_seq - 1),
                }
                for topic, partition, epoch, first, last in wanted
            ]
            rows: pa.Table | None = small_tables.few(run.table(table), columns, boxes)
            return None if rows is None else frames.of_arrow(spark, rows)

        return cls(
            lambda: before_load(spark, run, silver_records(), load_seq),
            lambda: before_load(spark, run, REJECTS, load_seq),
            watermarks,
            rules,
            few,
        )

    def kept(self, wanted: Sequence[Range]) -> DataFrame:
        """Rows of `silver_records` with a sequence in some ranges, prepared for `content_sha256`."""
        rows = self.few(SILVER_RECORDS, _OF_SILVER, wanted, "sequence")
        return comparable(self.silver().where(pruning.sequence_filter(wanted)) if rows is None else rows, self.rules)

    def late(self, wanted: Sequence[Range]) -> DataFrame:
        """Late rows of `silver_rejects`, in any state, with a sequence in some ranges."""
        of = "first_sequence"
        rows = self.few(SILVER_REJECTS, _OF_REJECTS, wanted, of)
        found = self.rejects().where(pruning.sequence_filter(wanted, of=of)) if rows is None else rows
        return found.where(F.col("class") == LATE)
