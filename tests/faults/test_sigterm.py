"""SIGTERM, as schedulers send it: the run leaves, says so, and the next one finishes what was begun."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakehouse.extract.sources import Source
from silver.load import steps
from silver.rules import Rules
from silver.state import tables
from tests.support.bronze import Record, put
from tests.support.small_config import write_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run

pytestmark = [pytest.mark.spark, pytest.mark.fault]

_RULES = Rules(Source("header", "seq"))
_REPOSITORY = Path(__file__).parents[2]
_PATIENCE_SECONDS = 600


class Job:
    """The job of Silver as a scheduler starts it, over a root of its own."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.root = folder / "lakehouse"
        self._stderr = folder / "stderr"
        config = write_config(folder, root=str(self.root))
        command = [sys.executable, "-m", "jobs.load_silver", "--config", str(config)]
        with self._stderr.open("wb") as stderr:
            self.process = subprocess.Popen(
                command, cwd=_REPOSITORY, env={**os.environ, **environment}, stderr=stderr, start_new_session=True
            )

    @property
    def said(self) -> str:
        """What it said so far."""
        return self._stderr.read_text(encoding="utf-8")

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Until something holds."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while not is_so():
            assert time.monotonic() < until, self.said
            assert self.process.poll() is None, self.said
            time.sleep(0.02)

    def is_stopped(self) -> bool:
        return "State:\tT" in Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")


@pytest.fixture
def started() -> Iterator[Callable[..., Job]]:
    """Starts jobs; none outlives the test."""
    jobs: list[Job] = []

    def start(folder: Path, **environment: str) -> Job:
        jobs.append(Job(folder, **environment))
        return jobs[-1]

    yield start
    for job in jobs:
        if job.process.poll() is None:
            os.killpg(job.process.pid, signal.SIGKILL)
            job.process.wait()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="whether a process stands still is read from /proc")
def test_a_run_that_is_terminated_says_so_and_the_next_one_finishes_what_was_begun(
    spark: SparkSession, tmp_path: Path, run_at: Callable[[Path], Run], started: Callable[..., Job]
) -> None:
    folders = {name: tmp_path / name for name in ("claimed", "at_work", "with_its_jvm")}
    for folder in folders.values():
        folder.mkdir()
        put(spark, run_at(folder / "lakehouse"), [Record.of(offset, sequence) for offset, sequence in enumerate([1, 2, 2, 3])])
    at_work, with_its_jvm = started(folders["at_work"]), started(folders["with_its_jvm"])
    claimed = started(folders["claimed"], TIDEMARK_STOP_AT="silver.claimed")

    # The one that stands still last: on a slow machine the others are through before it has claimed.
    at_work.wait_until(lambda: '"silver.started"' in at_work.said)
    at_work.process.terminate()
    with_its_jvm.wait_until(lambda: '"silver.started"' in with_its_jvm.said)
    os.killpg(with_its_jvm.process.pid, signal.SIGTERM)
    claimed.wait_until(claimed.is_stopped)
    claimed.process.terminate()
    claimed.process.send_signal(signal.SIGCONT)

    for job in (claimed, at_work, with_its_jvm):
        assert job.process.wait(_PATIENCE_SECONDS) == 143, job.said
        assert "tidemark: terminated; the next run finishes what was begun." in job.said
        assert "Exception while sending command" not in job.said, "its work was not interrupted"
        run = run_at(job.root)
        tables.create_tables(spark, run, _RULES)
        done = steps.load_once(spark, run, _RULES)
        assert job is not claimed or (done is not None and done.is_repeat)
        rows = spark.read.table(run.table("silver_records").sql).orderBy("offset").collect()
        assert [(row["offset"], row["sequence"]) for row in rows] == [(0, 1), (1, 2), (3, 3)]
