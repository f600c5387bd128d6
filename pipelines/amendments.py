"""What a person's load changes in Gold beside adding to it, by rule: whoever comes next finishes it.

The ledger says what was asked for, so a load that is finished and not published is what Gold may still have to follow. Each of
the changes finds nothing to do where it was done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from expectations.pinned import last_published
from gold import amend
from gold.refresh import refresh_models
from lakehouse import delta
from lakehouse.contracts.silver import ERASE
from lakehouse.table import GOLD_STREAM_HEALTH, SILVER_LOADS
from silver import watermarks
from silver.request import Request

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.run import Run
    from lakehouse.settings import Settings


def amend_gold(spark: SparkSession, run: Run, settings: Settings) -> int | None:
    """Remove from Gold what finished loads that are not published have erased, and make the models anew.

    Commits to gold_latest and gold_records, and to the models.

    Returns:
        The last such load, None where there is none. A model that is made while there is one names it.

    Raises:
        ModelError: A model failed; the next run tries again.
    """
    if not delta.exists(spark, run.table(GOLD_STREAM_HEALTH)):
        return None
    finished = watermarks.read(spark, run).load_seq
    loads = spark.read.table(run.table(SILVER_LOADS).sql).where(F.col("kind") == ERASE)
    pending = loads.where(F.col("load_seq").between(last_published(spark, run) + 1, finished))
    asked = sorted(pending.select("load_seq", "request").distinct().collect())
    for load_seq, text in asked:
        erase = Request.from_json(text).erase
        if erase is not None:
            amend.remove_key(spark, run, topic=erase.topic, key_sha256=erase.key_sha256, before_load_seq=load_seq)
    if not asked:
        return None
    last: int = asked[-1]["load_seq"]
    refresh_models(spark, run, settings.gold, amended_by=last)
    return last
