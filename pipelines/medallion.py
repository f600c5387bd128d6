"""The operations of a job: run all stages (Kafka, Bronze, Silver, the gate, Gold) or one, decide, restore, verify.

A function that may write first checks by `Job.alone` or `Job.require_own` that the tables belong to this pipeline. Decisions,
restore and rebuild wait a minute for another run, then raise AnotherWriterError.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from expectations import gx
from lakehouse.contracts.silver import ACCEPT
from lakehouse.delta import tables as delta
from lakehouse.errors import TableMissingError, TopicsSkippedError, UsageError
from lakehouse.run.lock import require_no_run
from lakehouse.spark import progress
from lakehouse.table import BRONZE_RECORDS, SILVER_LOADS, SILVER_WATERMARKS
from pipelines import bronze_to_silver, kafka_to_bronze, maintenance, preflight, silver_to_gold
from pipelines.job import storage_errors_named
from pipelines.operate import accept_topic, erasure, requests
from pipelines.verify import run as verifying

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Settings
    from pipelines.job import Job
    from silver.state.request import Request

_STAGES = {
    "bronze": kafka_to_bronze.run,
    "silver": bronze_to_silver.run,
    "gate": silver_to_gold.run_gate,
    "gold": silver_to_gold.run_gold,
}

_PATIENCE_SECONDS = 60


def run(job: Job, stage: str | None = None) -> dict[str, object]:
    """Run the pipeline once: all stages, or one of bronze, silver, gate and gold.

    Skips topics that cannot be read if `kafka.on_unreadable_topic` is skip, and then raises an error after the last stage.
    Its events are run.started, <stage>.started, <stage>.finished, each stage's own, and in a long stage <stage>.working.

    Returns:
        pipeline, run_id, the result of each stage (None for stages that did not run), seconds; JSON-serializable.

    Raises:
        ConfigError: The config is wrong, see `pipelines.preflight`. Nothing was started.
        TopicsSkippedError: Topics were skipped; all stages finished for the others.
        TidemarkError: A stage failed; see the stages. What earlier stages committed stays.
    """
    if stage is not None and stage not in _STAGES:
        raise UsageError("There is no such stage.", where="--stage", observed=stage, expected=", ".join(_STAGES))
    preflight.require_config(job.settings, stage)
    report, run = job.report, job.new_run()
    report.event("run.started", pipeline=run.pipeline, run_id=run.run_id, stage=stage or "all")
    result: dict[str, object] = {"pipeline": run.pipeline, "run_id": run.run_id, **dict.fromkeys(_STAGES)}
    with job.alone(run):
        started = time.monotonic()
        for name in [stage] if stage else _STAGES:
            report.event(f"{name}.started")
            with progress.report_progress(job.spark, report, name):
                done = _STAGES[name](job.spark, run, job.settings)
            report.event(f"{name}.finished", **done)
            result[name] = done
            if name == "bronze" and stage is None and done["records"]:
                gx.import_early()
    _require_none_skipped(job.settings, result["bronze"])
    result["seconds"] = round(time.monotonic() - started, 3)
    report.event("run.finished", seconds=result["seconds"])
    return result


def _require_none_skipped(settings: Settings, bronze: Any) -> None:
    """Raise if Bronze, by its result or None, skipped topics."""
    if bronze and (skipped := bronze["skipped"]):
        error = TopicsSkippedError(
            "Unreadable topics were skipped; other topics and records already in Bronze were processed.",
            where=f"topic {', '.join(each['topic'] for each in skipped)} at {settings.kafka.bootstrap_servers}",
            observed="; ".join(f"{each['topic']}: {each['reason']}" for each in skipped),
            expected="topics that can all be read",
            next_step="The events bronze.topic_failed say what to do for each. Later runs read a topic as soon as they can.",
        )
        error.topics = tuple(each["topic"] for each in skipped)
        raise error


def plan(job: Job) -> dict[str, object]:
    """Preview the next load of Silver; see `pipelines.bronze_to_silver.preview`. Raises AnotherWriterError during a run.

    Raises:
        TableMissingError: Bronze has not been written yet. Nothing is created.
    """
    run = job.new_run()
    require_no_run(run.lakehouse)
    with storage_errors_named(run.lakehouse):
        if _is_before_first_run(job, run):  # the lock would create the root
            raise TableMissingError(
                "There is nothing to plan: Bronze has no records yet.",
                where=run.lakehouse.name,
                next_step="`tidemark run --stage bronze` reads them from Kafka; `tidemark check` looks at a sample instead.",
            )
    with job.alone(run):
        return {"pipeline": run.pipeline, **bronze_to_silver.preview(job.spark, run, job.settings)}


def _is_before_first_run(job: Job, run: Run) -> bool:
    root = run.lakehouse.local_root
    if root is not None and not root.is_dir():
        return True
    return not any(delta.exists(job.spark, run.table(name)) for name in (BRONZE_RECORDS, SILVER_LOADS, SILVER_WATERMARKS))


def decide(
    job: Job, request: Request, *, is_dry_run: bool = False, numbering: str | accept_topic.Choose | None = None
) -> dict[str, object]:
    """Execute an operator's request; see `pipelines.operate.requests` and `pipelines.operate.accept_topic`.

    `numbering` applies to the accepted topic.
    """
    accept = partial(accept_topic.carry_out, numbering=numbering)
    carry_out = accept if request.kind == ACCEPT else requests.carry_out
    return run_alone(job, partial(carry_out, request=request, is_dry_run=is_dry_run))


def run_alone(job: Job, do: Callable[[SparkSession, Run, Settings], dict[str, object]]) -> dict[str, object]:
    """Execute an operation that writes, such as `recover.restore.restore`. Returns its result, with pipeline and run_id."""
    run = job.new_run()
    with job.alone(run, wait_seconds=_PATIENCE_SECONDS):
        done = do(job.spark, run, job.settings)
    return {"pipeline": run.pipeline, "run_id": run.run_id, **done}


def partitions(job: Job) -> list[dict[str, Any]]:
    """Return Silver's last position in each partition, read with Spark; empty before the first load.

    Columns: topic, partition, and the highest high_watermark, last_offset and load_seq of the partition's streams.
    """
    spark, table = job.spark, job.new_run().table(SILVER_WATERMARKS)
    if not delta.exists(spark, table):
        return []
    highest = [F.max(name).alias(name) for name in ("high_watermark", "last_offset", "load_seq")]
    found = spark.read.table(table.sql).groupBy("topic", "partition").agg(*highest).orderBy("topic", "partition")
    return [row.asDict() for row in found.collect()]


def verify(job: Job, *, is_deep: bool = False) -> dict[str, object]:
    """Verify the tables against each other; see `pipelines.verify.run.verify`. A run may be active."""
    spark, run = job.spark, job.new_run()
    job.report.event("verify.started", pipeline=run.pipeline, is_deep=is_deep)
    found = verifying.verify(spark, run, is_deep=is_deep)
    job.report.event("verify.finished" if found["ok"] else "verify.failed", seconds=found["seconds"])
    return {"pipeline": run.pipeline, **found}


def maintain(job: Job, *, is_dry_run: bool) -> dict[str, object]:
    """Maintain every table and retire quiet streams; see `pipelines.maintenance`. A run may be active."""
    spark, run, started = job.spark, job.new_run(), time.monotonic()
    job.require_own(run)
    job.report.event("maintenance.started", pipeline=run.pipeline, run_id=run.run_id, is_dry_run=is_dry_run)
    tables = maintenance.maintain(spark, run, job.settings, is_dry_run=is_dry_run)
    retired = maintenance.retire(spark, run, job.settings, is_dry_run=is_dry_run)
    seconds = round(time.monotonic() - started, 3)
    job.report.event("maintenance.finished", seconds=seconds)
    named = {"pipeline": run.pipeline, "run_id": run.run_id, "is_dry_run": is_dry_run}
    return {**named, "tables": tables, "retired": retired, "seconds": seconds}


def forget(job: Job, key: bytes, *, is_dry_run: bool) -> dict[str, object]:
    """Finish erasures; see `pipelines.operate.erasure.forget`."""
    spark, run, started = job.spark, job.new_run(), time.monotonic()
    job.require_own(run)
    job.report.event("maintenance.started", pipeline=run.pipeline, run_id=run.run_id, is_dry_run=is_dry_run)
    with storage_errors_named(run.lakehouse):
        done = erasure.forget(spark, run, job.settings, key, is_dry_run=is_dry_run)
    seconds = round(time.monotonic() - started, 3)
    job.report.event("maintenance.finished", seconds=seconds)
    return {"pipeline": run.pipeline, "run_id": run.run_id, **done, "seconds": seconds}
