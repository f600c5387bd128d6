"""Small and warm: the whole pipeline over a thousand new records, beside its commits alone, and over none. And `--help`."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from bench import floor
from bench.loads import Place, Silent, settings_of
from bench.peers import spark_stream
from bench.peers.job import RUN
from bench.peers.job import Job as BareJob
from bench.sitting import BARE_COMMITS, HELP, NOTHING, WARM, require
from bench.topics import PARTITIONS, send_more
from lakehouse.run.context import Run
from lakehouse.table import GOLD_RECORDS, Lakehouse
from pipelines import medallion
from pipelines.job import Job

if TYPE_CHECKING:
    from bench.sitting import Sitting
    from bench.topics import Topic
    from lakehouse.settings.pipeline import Settings

NEW_RECORDS = 1_000
_NEW = f"{NEW_RECORDS:,} new"
HELP_TRIES = 5


class WarmPipeline:
    """A pipeline that has its history behind it.

    Args:
        place: Where it runs.
        topic: What it has read: its history.
    """

    def __init__(self, place: Place, topic: Topic) -> None:
        self._place, self._topic = place, topic
        self._highest = max(topic.unique)
        self._records = 0
        self._settings: Settings = settings_of(place, topic.name, place.folder / "warm-pipeline")
        self._took(self._run(), topic.records)
        self._bare = BareJob(RUN, servers=place.servers, topic=topic.name, work=str(place.folder / "bare-commits"))
        floor.copy_tables(Path(str(self._settings.lakehouse.root)), self._bare)
        spark_stream.copy_from_kafka(place.spark, self._bare)

    def measure(self, sitting: Sitting) -> None:
        """Send a thousand records and run all stages over them and the bare commits, in turns; then a run over nothing."""
        send_more(self._place.servers, self._topic.name, self._highest + 1, NEW_RECORDS)
        steps = [self._measure_run, self._measure_bare]
        for step in steps if len(sitting.starts) % 2 else reversed(steps):
            step(sitting)
        self._highest += NEW_RECORDS // PARTITIONS
        self._took(sitting.measure(NOTHING, "0 new", 0, self._run), 0)

    def _measure_run(self, sitting: Sitting) -> None:
        self._took(sitting.measure(WARM, _NEW, NEW_RECORDS, self._run), NEW_RECORDS)

    def _measure_bare(self, sitting: Sitting) -> None:
        commit = partial(floor.commit_bare, self._place.spark, self._bare, self._highest)
        sitting.measure(BARE_COMMITS, _NEW, NEW_RECORDS, commit)
        floor.require_gained(self._bare, self._highest, NEW_RECORDS)

    def _run(self) -> dict[str, Any]:
        return cast("dict[str, Any]", medallion.run(Job.on(self._place.spark, self._settings, Silent())))

    def _took(self, result: dict[str, Any], records: int) -> None:
        self._records += records
        require("records of Bronze", observed=result["bronze"]["records"], expected=records)
        require("accepted records of Silver", observed=result["silver"]["accepted"], expected=records)
        run = Run("bench", Lakehouse(root=self._settings.lakehouse.root), Silent())
        gold = self._place.spark.read.table(run.table(GOLD_RECORDS).sql).count()
        require("rows of Gold", observed=gold, expected=self._records)


def measure_help(sitting: Sitting) -> None:
    """Ask the installed command for its help, as a user does."""
    command = [str(Path(sys.executable).with_name("tidemark")), "--help"]
    for _ in range(HELP_TRIES):
        done = sitting.measure(HELP, "", 0, lambda: subprocess.run(command, check=True, capture_output=True, text=True))
        require("the help names the commands", observed="demo" in done.stdout, expected=True)
