"""Find errors that would stop the next run before it reads or writes, with the run's own checks. Writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from lakehouse.delta import tables
from lakehouse.delta.errors import SPARK_ERRORS
from lakehouse.errors import TidemarkError, headline
from lakehouse.run.lock import require_no_run
from lakehouse.table import TABLE_NAMES
from pipelines import bronze_to_silver, kafka_to_bronze, silver_to_gold
from pipelines.job import storage_errors_named

if TYPE_CHECKING:
    from lakehouse.run.context import Run
    from pipelines.job import Job

_REQUIRED = {
    "bronze": kafka_to_bronze.require_bronze,
    "silver": bronze_to_silver.require_silver,
    "gate": silver_to_gold.require_gate,
    "gold": silver_to_gold.require_gold,
}


def find(job: Job) -> dict[str, TidemarkError | None]:
    """Return the TidemarkError that would stop the tables as a whole (`tables`) and each stage, or None.

    Leaves out stages that the run would not reach: all after an error of the tables, gate and Gold after an error of Silver.
    """
    spark, run = job.spark, job.new_run()
    found = {"tables": _refusal(run, partial(_require_tables, job, run))}
    for name, require in _REQUIRED.items():
        if found["tables"] is None and (name in ("bronze", "silver") or found["silver"] is None):
            found[name] = _refusal(run, partial(require, spark, run, job.settings))
    return found


def _require_tables(job: Job, run: Run) -> None:
    require_no_run(run.lakehouse)
    job.require_own(run)
    names = (*TABLE_NAMES, *(model.name for model in job.settings.gold.models))
    for table in map(run.table, names):
        if tables.exists(job.spark, table):
            tables.require_writable(job.spark, table)


def _refusal(run: Run, look: Callable[[], None]) -> TidemarkError | None:
    try:
        with storage_errors_named(run.lakehouse):
            look()
    except TidemarkError as error:
        return error
    except (OSError, *SPARK_ERRORS) as error:
        what = "The run would end in an error of Spark or of this machine."
        return TidemarkError(what, where=run.lakehouse.name, observed=headline(str(error)))
    return None
