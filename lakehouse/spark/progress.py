"""Reports Spark's progress every few seconds while a stage runs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.utils import is_remote

from lakehouse.run.context import WORKING, Report

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


@contextlib.contextmanager
def report_progress(spark: SparkSession, report: Report, stage: str, *, every_seconds: float = 5.0) -> Iterator[None]:
    """Report `<stage>.working` with its tasks every few seconds; nothing over Spark Connect, which has no status tracker."""
    if is_remote():
        yield
        return
    is_over = threading.Event()
    arguments = (spark.sparkContext, report, f"{stage}.{WORKING}", is_over, every_seconds)
    looking = threading.Thread(target=_look, args=arguments, daemon=True)
    looking.start()
    try:
        yield
    finally:
        is_over.set()
        looking.join(every_seconds)  # with a timeout: the JVM may no longer answer


def _look(context: SparkContext, report: Report, event: str, is_over: threading.Event, every_seconds: float) -> None:
    tracker = context.statusTracker()
    while not is_over.wait(every_seconds):
        try:
            stages = [info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage)) is not None]
        except Exception:  # noqa: BLE001 -- a failed progress request must not end the run
            return
        if stages:
            done, tasks = sum(each.numCompletedTasks for each in stages), sum(each.numTasks for each in stages)
            report.event(event, tasks_done=done, tasks=tasks)
