"""SIGTERM, as schedulers send it, and Ctrl-C: the run leaves, says so, and the next one finishes what was begun."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse.run.context import Run
from tests.faults.test_two_runs import bronze, load, silver
from tests.support.small_config import write_config

pytestmark = [pytest.mark.spark, pytest.mark.fault]

_REPOSITORY = Path(__file__).parents[2]
_PATIENCE_SECONDS = 600


class Job:
    """The job of Silver as a scheduler starts it, over a root of its own."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "lakehouse"
        self._stderr = folder / "stderr"
        config = write_config(folder, root=str(self.root))
        command = [sys.executable, "-m", "jobs.load_silver", "--config", str(config)]
        with self._stderr.open("wb") as stderr:
            env = {**os.environ, "PYTHONPATH": str(_REPOSITORY)}
            self.process = subprocess.Popen(command, cwd=folder, env=env, stderr=stderr, start_new_session=True)

    @property
    def said(self) -> str:
        return self._stderr.read_text(encoding="utf-8")

    def wait_until_at_work(self) -> None:
        until = time.monotonic() + _PATIENCE_SECONDS
        while '"silver.started"' not in self.said:
            assert time.monotonic() < until, self.said
            assert self.process.poll() is None, self.said
            time.sleep(0.02)


@pytest.fixture
def started() -> Iterator[Callable[..., Job]]:
    jobs: list[Job] = []

    def start(folder: Path) -> Job:
        jobs.append(Job(folder))
        return jobs[-1]

    yield start
    for job in jobs:
        if job.process.poll() is None:
            os.killpg(job.process.pid, signal.SIGKILL)
            job.process.wait()


def test_a_run_that_is_terminated_or_interrupted_says_so_and_the_next_one_finishes_it(
    spark: SparkSession, tmp_path: Path, run_at: Callable[[Path], Run], started: Callable[[Path], Job]
) -> None:
    folders = [tmp_path / "alone", tmp_path / "interrupted"]
    for folder in folders:
        folder.mkdir()
        bronze(spark, run_at(folder / "lakehouse"), 0, [1, 2, 2, 3])
    alone, interrupted = map(started, folders)

    alone.wait_until_at_work()
    alone.process.terminate()
    interrupted.wait_until_at_work()
    os.killpg(interrupted.process.pid, signal.SIGINT)  # as a terminal sends Ctrl-C: to all that it started

    for job, code, word in ((alone, 143, "terminated"), (interrupted, 130, "interrupted")):
        assert job.process.wait(_PATIENCE_SECONDS) == code, job.said
        text = [line for line in job.said.splitlines() if not line.startswith(("{", "WARNING: Using incubator modules"))]
        assert text == [f"tidemark: {word}; the next run finishes what was begun."]
        assert not (job.root.parent / "spark-warehouse").exists()
        run = run_at(job.root)
        load(spark, run)
        assert silver(spark, run) == [(0, 1), (1, 2), (3, 3)]
