"""Measures run after run in one process, as `tidemark run --every` does, with maintenance in between."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

from bench.loads import Silent, settings_of
from bench.machine import held_bytes
from bench.peers.sizes import written
from bench.sitting import require
from bench.small import NEW_RECORDS
from bench.topics import PARTITIONS, plan_topic, send_more, send_topic
from lakehouse.table import TABLE_NAMES, Lakehouse
from pipelines import medallion
from pipelines.job import Job
from tidemark.runner.loop import run_every

if TYPE_CHECKING:
    from bench.loads import Place
    from bench.sitting import Sitting
    from bench.topics import Topic

RUNS = 1_000
TENTHS = 10
"""Facts are kept by tenths of the runs, each after a maintenance."""
MEDIAN, SLOWEST = "a run, median", "a run, 99 of 100 faster"
HEAP, SPARK, PYTHON = "Spark's heap, what is live", "resident memory, Spark", "resident memory, Python"
LIVE, KEPT, LOGS = "files of the tables' last versions", "files on disk", "files of the logs on disk"

_FIRST = 2_000
_MEGABYTE = 1e6


def measure(sitting: Sitting, place: Place, runs: int) -> None:
    """Run on a thousand new records again and again.

    Raises:
        WrongResultError: A run accepted another number of records.
    """
    topic = plan_topic("endless", _FIRST)
    send_topic(place.servers, topic)
    at_once = {"allow_short_retention": True, "retain_hours": 0}  # nobody else reads these tables, so old files may go
    settings = settings_of(place, topic.name, place.folder / "endless", maintenance=at_once)
    job = Job.on(place.spark, settings, Silent())
    medallion.run(job)
    sitting.start_round()
    run_every(job, seconds=0, on_result=_Loop(sitting, place, job, topic, max(TENTHS, runs)).record)


class _Loop:
    """Sends what the next run is to read, looks at each tenth, and ends the loop."""

    def __init__(self, sitting: Sitting, place: Place, job: Job, topic: Topic, runs: int) -> None:
        self._sitting, self._place, self._job, self._topic, self._runs = sitting, place, job, topic, runs
        self._highest = max(topic.unique)
        self._seconds: list[float] = []
        self._send()

    def record(self, result: dict[str, Any]) -> None:
        require("accepted records of a run", observed=result["silver"]["accepted"], expected=NEW_RECORDS)
        self._seconds.append(result["seconds"])
        tenth = self._runs // TENTHS
        if len(self._seconds) % tenth == 0:
            self._look(self._seconds[-tenth:])
        if len(self._seconds) == tenth * TENTHS:
            os.kill(os.getpid(), signal.SIGTERM)  # the loop's own way to end
        else:
            self._send()

    def _send(self) -> None:
        send_more(self._place.servers, self._topic.name, self._highest + 1, NEW_RECORDS)
        self._highest += NEW_RECORDS // PARTITIONS

    def _look(self, seconds: list[float]) -> None:
        maintained: Any = medallion.maintain(self._job, is_dry_run=False)["tables"]
        last = len(self._seconds)
        name = f"runs {last - len(seconds) + 1:,} to {last:,}"
        self._sitting.count(MEDIAN, name, percentile(seconds, 50), "s")
        self._sitting.count(SLOWEST, name, percentile(seconds, 99), "s")
        jvm: Any = self._place.spark._jvm  # noqa: SLF001 -- nothing else knows the heap
        memory = jvm.java.lang.management.ManagementFactory.getMemoryMXBean()
        memory.gc()
        self._sitting.count(HEAP, name, memory.getHeapMemoryUsage().getUsed() / _MEGABYTE, "MB")
        self._sitting.count(SPARK, name, held_bytes(jvm.java.lang.ProcessHandle.current().pid()) / _MEGABYTE, "MB")
        self._sitting.count(PYTHON, name, held_bytes(os.getpid()) / _MEGABYTE, "MB")
        self._sitting.count(LIVE, name, sum(each["files_after"] for each in maintained), "files")
        lakehouse = Lakehouse.of(self._job.settings)
        folders = [folder for each in TABLE_NAMES if (folder := lakehouse.table(each).local_folder) is not None]
        logs = sum(written(folder / "_delta_log")[1] for folder in folders)
        self._sitting.count(KEPT, name, sum(written(folder)[1] for folder in folders) - logs, "files")
        self._sitting.count(LOGS, name, logs, "files")


def percentile(values: Sequence[float], percent: int) -> float:
    """The smallest value that so many percent of all values do not exceed (nearest rank).

    >>> percentile([4.0, 1.0, 3.0, 2.0], 50), percentile([4.0, 1.0, 3.0, 2.0], 99)
    (2.0, 4.0)
    """
    return sorted(values)[ceil(percent / 100 * len(values)) - 1]
