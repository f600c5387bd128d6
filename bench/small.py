"""Measures small runs in a warm session: over a thousand new records, over none, and after a load was cut off.

A run over new records takes turns with its commits alone.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import patch

from bench import floor
from bench.generated import RULES, append_records, fill_silver
from bench.loads import Place, Silent, settings_of
from bench.peers import spark_stream
from bench.peers.job import RUN
from bench.peers.job import Job as BareJob
from bench.sitting import require
from bench.topics import PARTITIONS, plan_topic, send_more, send_topic
from lakehouse.run.context import Run
from lakehouse.table import BRONZE_RECORDS, GOLD_RECORDS, Lakehouse
from pipelines import medallion
from pipelines.job import Job
from silver.load import steps

if TYPE_CHECKING:
    from bench.sitting import Sitting

WARM, NOTHING = "warm run, all stages", "warm run, nothing new"
BARE_COMMITS = "its eight commits, bare"
RECOVERY = "next run after a load was cut off"
NEW_RECORDS = 1_000

_NEW = f"{NEW_RECORDS:,} new"
_HISTORY = 200_000


def measure(sitting: Sitting, place: Place, history: int, rounds: int) -> None:
    """Run on a thousand new records and on none; then cut a load of `history` records off, and run again.

    Raises:
        WrongResultError: A run read or accepted another number of records than were sent.
    """
    sitting.tell("Small runs: making their history")
    warm, cut = _WarmRuns(place, min(history, _HISTORY)), _CutLoads(place, history // PARTITIONS * PARTITIONS)
    for _ in range(rounds):
        sitting.start_round()
        warm.measure(sitting)
        cut.measure(sitting)


class _WarmRuns:
    """A pipeline that has read a topic, and copies of its tables for the bare commits."""

    def __init__(self, place: Place, history: int) -> None:
        self._place, self._topic = place, plan_topic("history", history)
        send_topic(place.servers, self._topic)
        self._highest = max(self._topic.unique)
        self._records = 0
        self._settings = settings_of(place, self._topic.name, place.folder / "warm-pipeline")
        self._require(self._run(), self._topic.records)
        self._bare = BareJob(RUN, servers=place.servers, topic=self._topic.name, work=str(place.folder / "bare-commits"))
        floor.copy_tables(Path(str(self._settings.lakehouse.root)), self._bare)
        spark_stream.copy_from_kafka(place.spark, self._bare)

    def measure(self, sitting: Sitting) -> None:
        """Send a thousand records; run all stages over them and commit them bare, in turns; then run over nothing."""
        send_more(self._place.servers, self._topic.name, self._highest + 1, NEW_RECORDS)
        ways = [self._measure_run, self._measure_bare]
        for way in ways if len(sitting.starts) % 2 else reversed(ways):
            way(sitting)
        self._highest += NEW_RECORDS // PARTITIONS
        self._require(sitting.measure(NOTHING, "0 new", 0, self._run), 0)

    def _measure_run(self, sitting: Sitting) -> None:
        self._require(sitting.measure(WARM, _NEW, NEW_RECORDS, self._run), NEW_RECORDS)

    def _measure_bare(self, sitting: Sitting) -> None:
        commit = partial(floor.commit_bare, self._place.spark, self._bare, self._highest)
        sitting.measure(BARE_COMMITS, _NEW, NEW_RECORDS, commit)
        floor.require_gained(self._bare, self._highest, NEW_RECORDS)

    def _run(self) -> dict[str, Any]:
        return cast("dict[str, Any]", medallion.run(Job.on(self._place.spark, self._settings, Silent())))

    def _require(self, result: dict[str, Any], records: int) -> None:
        self._records += records
        require("records of Bronze", observed=result["bronze"]["records"], expected=records)
        require("accepted records of Silver", observed=result["silver"]["accepted"], expected=records)
        gold = Lakehouse(root=self._settings.lakehouse.root).table(GOLD_RECORDS)
        require("rows of Gold", observed=self._place.spark.read.table(gold.sql).count(), expected=self._records)


class _CutLoads:
    """Silver with a history. Each load ends after its rows are committed, before its watermarks are."""

    def __init__(self, place: Place, records: int) -> None:
        self._spark, self._records, self._sent = place.spark, records, records
        self._run = Run("bench", Lakehouse(root=str(place.folder / "cut")), Silent())
        fill_silver(self._spark, self._run, records)

    def measure(self, sitting: Sitting) -> None:
        """Cut a load off, then measure the run that finishes it."""
        append_records(self._spark, self._run.table(BRONZE_RECORDS), self._records, self._sent)
        with suppress(_CutOff), patch.object(steps, "advance", side_effect=_CutOff):
            self._load()
        done = sitting.measure(RECOVERY, f"on {self._records:,}", self._records, self._load)
        accepted = done and done.counts["accepted"]
        require("accepted records of the load that was cut off", observed=accepted, expected=self._records)
        self._sent += self._records

    def _load(self) -> steps.Load | None:
        return steps.load_once(self._spark, self._run, RULES)


class _CutOff(Exception):  # noqa: N818 -- ends a load on purpose
    pass
