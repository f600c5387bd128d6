"""The whole path: Kafka, Bronze, Silver, the gate, Gold. Or one stage of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lakehouse.errors import UsageError
from lakehouse.lock import locked
from lakehouse.run import Run
from lakehouse.table import Lakehouse
from pipelines import arrival, bronze_to_silver, kafka_to_bronze, silver_to_gold

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.run import Report
    from lakehouse.settings import Settings
    from silver.order import Order

_STAGES = {
    "bronze": kafka_to_bronze.run,
    "silver": bronze_to_silver.run,
    "gate": silver_to_gold.run_gate,
    "gold": silver_to_gold.run_gold,
}


def run(spark: SparkSession, settings: Settings, report: Report, stage: str | None = None) -> dict[str, object]:
    """Run the pipeline once.

    Args:
        spark: The session.
        settings: The config.
        report: Whom to tell: run.started, <stage>.started, <stage>.finished and what each stage reports in between.
        stage: bronze, silver, gate or gold; None for all, one after another.

    Returns:
        pipeline, run_id, what each stage did (None for those that did not run), seconds; everything fits JSON.

    Raises:
        TidemarkError: A stage failed; see the stages. What earlier stages committed stays.
    """
    if stage is not None and stage not in _STAGES:
        raise UsageError("There is no such stage.", where="--stage", observed=stage, expected=", ".join(_STAGES))
    started = time.monotonic()
    run = _new_run(settings, report)
    report.event("run.started", pipeline=run.pipeline, run_id=run.run_id, stage=stage or "all")
    result: dict[str, object] = {"pipeline": run.pipeline, "run_id": run.run_id, **dict.fromkeys(_STAGES)}
    with locked(run.lakehouse):
        for name in [stage] if stage else _STAGES:
            report.event(f"{name}.started")
            done = _STAGES[name](spark, run, settings)
            report.event(f"{name}.finished", **done)
            result[name] = done
    result["seconds"] = round(time.monotonic() - started, 3)
    report.event("run.finished", seconds=result["seconds"])
    return result


def plan(spark: SparkSession, settings: Settings, report: Report) -> dict[str, object]:
    """What the next load of Silver would do; see `pipelines.bronze_to_silver.preview`."""
    run = _new_run(settings, report)
    with locked(run.lakehouse):
        return {"pipeline": run.pipeline, **bronze_to_silver.preview(spark, run, settings)}


def orders(spark: SparkSession, settings: Settings, report: Report, topic: str | None = None) -> dict[str, list[Order]]:
    """How the streams arrived; see `pipelines.arrival.orders`."""
    return arrival.orders(spark, _new_run(settings, report), settings, topic=topic)


def _new_run(settings: Settings, report: Report) -> Run:
    place = settings.lakehouse
    lakehouse = Lakehouse(root=place.root, catalog=place.catalog, schema=place.schema_, volume=place.volume)
    return Run(settings.pipeline, lakehouse, report)
