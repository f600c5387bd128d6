"""What a small run costs besides its records: Spark jobs and commits, counted per stage, so that what was won stays won."""

import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path

from pyspark.sql import SparkSession

from lakehouse.settings.pipeline import Settings
from lakehouse.table import TABLE_NAMES
from pipelines import medallion
from pipelines.job import Job
from tests.support.kafka import Sent, send
from tests.support.small_config import small_config
from tidemark.extras.demo.broker import LocalBroker

_STAGES = ("bronze", "silver", "gate", "gold")
_MOST_JOBS = {"bronze": 2, "silver": 15, "gate": 7, "gold": 23}
"""Without adaptive execution, which makes a job of each stage. Most of them are Delta's own, reading its logs. Of Gold's,
five ask which keys several streams have, and seven are of the fence against a restore."""

_COMMITS = {
    "bronze": {"bronze_records": 1},
    "silver": {"silver_loads": 1, "silver_records": 1, "silver_watermarks": 1},
    "gate": {"gate_results": 1},
    "gold": {"gold_records": 1, "gold_latest": 1, "gold_stream_health": 1},
}

_looks = count()


class Costs:
    """A report that counts what each stage has cost when it says that it is finished."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self._spark, self._root = spark, root
        self._before = self._so_far()
        self.jobs: dict[str, int] = {}
        self.commits: dict[str, dict[str, int]] = {}

    def event(self, name: str, **_: object) -> None:
        stage, what = name.split(".", maxsplit=1)
        if stage not in _STAGES or what not in ("started", "finished"):
            return
        job, commits = self._so_far()
        if what == "finished":
            first, before = self._before
            self.jobs[stage] = job - first - 1  # the look itself is one
            self.commits[stage] = dict(commits - before)
        self._before = self._so_far()

    def _so_far(self) -> tuple[int, Counter[str]]:
        """The number of a job that is run for its number alone, and each table's commits."""
        context, group = self._spark.sparkContext, f"costs-{next(_looks)}"
        context.setJobGroup(group, "a look at the costs")
        context.emptyRDD().count()
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type] # as its body has it: no group again
        while not (numbers := context.statusTracker().getJobIdsForGroup(group)):
            time.sleep(0.01)  # it is told of jobs a little later
        (number,) = numbers
        logs = {name: self._root / name / "_delta_log" for name in TABLE_NAMES}
        return number, Counter({name: len(list(log.glob("*.json"))) for name, log in logs.items()})


def test_a_small_run_takes_few_jobs_and_one_commit_of_one_file_for_each_table_that_it_changes(
    spark: SparkSession, tmp_path: Path, broker: LocalBroker, topic: Callable[..., str]
) -> None:
    name, root = topic(2), tmp_path / "lakehouse"
    config = small_config(str(root), kafka={"bootstrap_servers": broker.bootstrap_servers, "topics": [name]})
    settings = Settings.model_validate(config, context={"folder": tmp_path})

    def run(*sequences: int) -> Costs:
        each = [Sent(b"v", b"k%d" % (number % 2), [("seq", b"%d" % number)], number % 2) for number in sequences]
        if each:
            send(broker.bootstrap_servers, name, each)
        costs = Costs(spark, root)
        medallion.run(Job.on(spark, settings, costs))
        return costs

    run(1, 2, 3)  # creates the tables
    small, nothing = run(4, 5, 6, 7), run()

    assert small.commits == _COMMITS
    assert {stage: jobs for stage, jobs in small.jobs.items() if jobs > _MOST_JOBS[stage]} == {}
    files = {name: len(list((root / name).glob("*.parquet"))) for name in ("silver_records", "gold_records")}
    assert files == {"silver_records": 2, "gold_records": 2}
    assert not any(nothing.commits.values())
    assert nothing.jobs == dict.fromkeys(_STAGES, 0)
