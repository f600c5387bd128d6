"""What a person decided of published records, brought to Gold: by the command, or by the next run if that was cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from gold.withdraw import withdraw
from lakehouse.contracts.silver import RESTORE
from lakehouse.table import SILVER_LOADS
from silver.request import Request

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.contracts.gate import GateRun
    from lakehouse.run import Run


def amend_gold(spark: SparkSession, run: Run, audited: GateRun) -> None:
    """Take out of Gold what a load of an audited range took back from Silver. Done again it changes nothing.

    Whether the range passed does not matter. Commits to Gold's tables, see `gold.withdraw.withdraw`; nothing where there is no
    such load.
    """
    is_asked = F.col("load_seq").between(audited.first_load_seq, audited.last_load_seq) & (F.col("kind") == RESTORE)
    loads = spark.read.table(run.table(SILVER_LOADS).sql).where(is_asked)
    for row in loads.groupBy("load_seq").agg(F.first("request").alias("request")).orderBy("load_seq").collect():
        swap = Request.from_json(row["request"]).swap
        if swap is not None:
            withdraw(spark, run, keep_to=swap.keep_to, undo_to=swap.undo_to)
