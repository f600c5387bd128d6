"""Full disks, files that may not be written, tables whose last commit is gone, and a run that is asked to end."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse.errors import StorageError, TableStateError
from lakehouse.run.context import Run
from pipelines import medallion
from pipelines.job import Job
from pipelines.verify.run import verify
from silver.load import steps
from silver.rules import Rules
from silver.state.tables import create_tables
from tests.faults.conftest import Disk
from tests.faults.pool import Runner
from tests.faults.test_two_runs import bronze, load, marks, rejects, silver
from tests.support.bronze import put
from tests.support.silver import RULES, load_records, message
from tests.support.small_config import settings_of, write_config

pytestmark = pytest.mark.fault

_WITHOUT_OVERRIDE = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
"""Root without the right to pass over a file's mode: root is who runs the tests where a disk can be mounted."""


def require_loaded_once(spark: SparkSession, run: Run) -> None:
    assert (silver(spark, run), rejects(spark, run), marks(spark, run)) == ([(0, 1), (1, 2), (3, 3)], [(2, 1)], [(3, 3)])
    assert spark.read.table(run.table("silver_loads").sql).count() == 1


def test_a_disk_that_is_full_under_a_table_ends_the_run_and_the_next_one_with_room_finishes(
    spark: SparkSession, new_run: Callable[[], Run], tmp_path: Path, disk: Callable[[Path], Disk]
) -> None:
    run = new_run()
    settings = settings_of(run)
    full = disk(tmp_path / "lakehouse" / "silver_records")
    bronze(spark, run, 0, [1, 2, 2, 3])
    create_tables(spark, run, Rules.of(settings))
    full.fill()

    with pytest.raises(StorageError, match=r"A disk is full(.|\n)*No space left on device(.|\n)*make room"):
        medallion.run(Job.on(spark, settings, run.report), "silver")
    full.clear()
    medallion.run(Job.on(spark, settings, run.report), "silver")

    require_loaded_once(spark, run)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root, and setpriv to give its rights up")
def test_sparks_own_disk_is_full_or_a_table_may_not_be_written_and_the_next_run_finishes(
    spark: SparkSession,
    new_run: Callable[[], Run],
    tmp_path: Path,
    root: list[str],
    disk: Callable[[Path], Disk],
    *,
    start_runner: Callable[..., Runner],
) -> None:
    run = new_run()
    own = disk(tmp_path / "spark")
    runner = start_runner(prefix=_WITHOUT_OVERRIDE, environment={"SPARK_LOCAL_DIRS": str(tmp_path / "spark")})
    bronze(spark, run, 0, [1, 2, 2, 3])
    create_tables(spark, run, Rules.of(settings_of(run)))
    log = tmp_path / "lakehouse" / "silver_records" / "_delta_log"
    runner.get_ready()

    own.fill()
    runner.go(stage="silver", settings=root)
    full = runner.wait_for("done")
    own.clear()
    log.chmod(0o555)
    runner.go(stage="silver", settings=root)
    refused = runner.wait_for("done")
    log.chmod(0o755)
    runner.go(stage="silver", settings=root)
    done = runner.wait_for("done")

    assert (full["exit_code"], refused["exit_code"], done["exit_code"]) == (1, 1, 0)
    assert "A disk is full" in full["error"]
    assert "A file cannot be read or written" in refused["error"]
    require_loaded_once(spark, run)


@pytest.fixture(scope="module")
def loaded(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, run_at: Callable[[Path], Run]) -> Run:
    run = run_at(tmp_path_factory.mktemp("loaded") / "lakehouse")
    load_records(spark, run, [message(0, 1), message(1, 2), message(2, 2)])
    load_records(spark, run, [message(3, 3), message(4, 3)])
    put(spark, run, [message(5, 4)])
    return run


def emptied(log: Path) -> None:
    log.write_bytes(b"")
    (log.parent / f".{log.name}.crc").unlink()  # Hadoop's own, which is lost where files are copied


def removed(log: Path) -> None:
    for file in log.parent.glob(f"*{log.stem}*"):
        file.unlink()


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (emptied, {"silver_watermarks": ["logs_are_whole"], "silver_rejects": ["logs_are_whole"]}),
        (removed, {"silver_watermarks": [], "silver_rejects": ["rejects_match_ledger", "each_offset_once"]}),
    ],
)
def test_without_its_last_commit_each_table_stops_the_load_is_healed_by_it_or_is_named_by_verify(
    spark: SparkSession,
    loaded: Run,
    copied: Callable[[Run, Path], Run],
    tmp_path: Path,
    *,
    damage: Callable[[Path], None],
    found: dict[str, list[str]],
) -> None:
    outcomes: dict[str, object] = {}
    for table in ("silver_loads", "silver_records", "silver_watermarks", "silver_rejects"):
        run = copied(loaded, tmp_path / table)
        damage(max((tmp_path / table / table / "_delta_log").glob("*.json")))
        try:
            while steps.load_once(spark, run, RULES) is not None:
                pass
        except TableStateError as error:
            outcomes[table] = str(error.where).replace(f"{tmp_path}/{table}/", "")
            continue
        silver = spark.read.table(run.table("silver_records").sql).orderBy("offset").collect()
        assert [(row["offset"], row["sequence"]) for row in silver] == [(0, 1), (1, 2), (3, 3), (5, 4)]
        proved = verify(spark, run, is_deep=False)
        outcomes[table] = [each["check"] for each in proved["checks"] if not each["ok"]]  # type: ignore[attr-defined] # its checks are a list

    assert outcomes == {"silver_loads": "silver_loads and silver_watermarks", "silver_records": "silver_records", **found}


_REPOSITORY = Path(__file__).parents[2]
_PATIENCE_SECONDS = 600


class Scheduled:
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
def started() -> Iterator[Callable[..., Scheduled]]:
    jobs: list[Scheduled] = []

    def start(folder: Path) -> Scheduled:
        jobs.append(Scheduled(folder))
        return jobs[-1]

    yield start
    for job in jobs:
        if job.process.poll() is None:
            os.killpg(job.process.pid, signal.SIGKILL)
            job.process.wait()


def test_a_run_that_is_terminated_or_interrupted_says_so_and_the_next_one_finishes_it(
    spark: SparkSession, tmp_path: Path, run_at: Callable[[Path], Run], started: Callable[[Path], Scheduled]
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
