"""Measures the whole path: Kafka to Bronze and a bare Structured Streaming copy; Kafka to Gold and three plain copies."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from bench import floor
from bench.loads import Silent, settings_of
from bench.peers import spark_stream
from bench.peers.job import RUN, Job
from bench.peers.registry import FEW
from bench.sitting import Sitting, require
from bench.topics import PARTITIONS, plan_topic, send_first
from bronze.ingest import ingest
from lakehouse.extract.sources import Sources
from lakehouse.run.context import Run
from lakehouse.table import BRONZE_RECORDS, GOLD_RECORDS, Lakehouse
from pipelines import job, medallion

if TYPE_CHECKING:
    from pathlib import Path

    from bench.loads import Place
    from bench.topics import Topic

BARE_COPY, TO_BRONZE = "Kafka to a table, bare copy", "Kafka to Bronze"
THREE_COPIES, TO_GOLD = "Kafka to a table and on to two more, plain copies", "Kafka to Gold, all stages"
FIRST_RECORDS = 4_000
"""Every way takes these in before it is timed, so that tables and checkpoints exist."""

_WARM_UP_RECORDS = 200_000


def measure(sitting: Sitting, place: Place, records: int, rounds: int) -> None:
    """Take in the same topic, in turns: by a bare copy, Bronze alone, three copies, and all stages.

    Raises:
        WrongResultError: A table does not hold what it has to.
    """
    sitting.tell("Whole path: warming up")
    _Paths(place, "whole-warm-up", min(records, _WARM_UP_RECORDS), 1).measure(Sitting(), 0)
    sitting.tell(f"Whole path: sending {records:,} records")
    paths = _Paths(place, "whole", records, rounds)
    for nth in range(rounds):
        sitting.start_round()
        paths.measure(sitting, nth)


class _Paths:
    """A topic, and for each round a folder for each way to take it in, which has taken in its first records."""

    def __init__(self, place: Place, name: str, records: int, rounds: int) -> None:
        self._place = place
        self._topic: Topic = plan_topic(name, records, resent_share=FEW.resent_share)
        send_rest = send_first(place.servers, self._topic, FIRST_RECORDS)
        for nth in range(rounds):
            for way, folder in self._ways(nth):
                folder.mkdir(parents=True)
                self._do(way, folder, 0)
        send_rest()

    def measure(self, sitting: Sitting, nth: int) -> None:
        """One round: every way once, another one first in each."""
        ways = self._ways(nth)
        for way, folder in ways[nth % len(ways) :] + ways[: nth % len(ways)]:
            taken = self._topic.records - FIRST_RECORDS
            sitting.measure(way, FEW.name, taken, partial(self._do, way, folder, FIRST_RECORDS // PARTITIONS))
            self._check(way, folder)
            shutil.rmtree(folder)

    def _ways(self, nth: int) -> list[tuple[str, Path]]:
        folder = self._place.folder / self._topic.name
        names = {BARE_COPY: "copy", TO_BRONZE: "bronze", THREE_COPIES: "copies", TO_GOLD: "gold"}
        return [(way, folder / f"{name}-{nth}") for way, name in names.items()]

    def _do(self, way: str, folder: Path, first_offset: int) -> None:
        """Take in what is new: from this offset on, in each partition."""
        spark, settings = self._place.spark, settings_of(self._place, self._topic.name, folder)
        ways: dict[str, Callable[[], object]] = {
            BARE_COPY: lambda: spark_stream.copy_from_kafka(spark, self._job(folder)),
            TO_BRONZE: lambda: ingest(
                spark, Run("bench", Lakehouse(root=str(folder)), Silent()), settings.kafka, Sources.of(settings)
            ),
            THREE_COPIES: lambda: floor.copy_thrice(spark, self._job(folder), first_offset),
            TO_GOLD: lambda: medallion.run(job.Job.on(spark, settings, Silent())),
        }
        ways[way]()

    def _job(self, folder: Path) -> Job:
        return Job(RUN, servers=self._place.servers, topic=self._topic.name, work=str(folder))

    def _check(self, way: str, folder: Path) -> None:
        lakehouse = Lakehouse(root=str(folder))
        tables = {
            BARE_COPY: self._job(folder).table,
            TO_BRONZE: lakehouse.table(BRONZE_RECORDS).location,
            THREE_COPIES: floor.lakehouse_of(self._job(folder)).table(GOLD_RECORDS).location,
            TO_GOLD: lakehouse.table(GOLD_RECORDS).location,
        }
        rows = self._place.spark.read.format("delta").load(str(tables[way])).count()
        expected = sum(self._topic.unique) if way == TO_GOLD else self._topic.records
        require(f"rows of {way}", observed=rows, expected=expected)
