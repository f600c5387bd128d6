"""Runs on one cluster, one after another, and their topics through the pipeline."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from abc import ABC, abstractmethod
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lakehouse.machine.jars import broker_classpath
from tests.chaos import faults, log
from tests.chaos.cluster import delete_topics, start_cluster
from tests.chaos.results import Row
from tests.chaos.senders import Sender, StuckError, command_of, compile_java
from tests.chaos.setting import PULSAR
from tests.chaos.tables import BY_COPIER, BY_KIT, BY_VALUE, outcomes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from tests.chaos.cluster import Cluster
    from tests.chaos.log import Log
    from tests.chaos.setting import Planned


class Ran(NamedTuple):
    """A run whose topic still exists."""

    planned: Planned  # the run
    columns: dict[str, Any]  # the part of its row that needs no tables
    log: Log  # the topic
    read: Log  # the topic that Bronze reads: the same, or its copy in Kafka


class Lab(ABC):
    """A running cluster and a folder. `servers` is the Kafka that Bronze reads from."""

    def __init__(self, servers: str, folder: Path) -> None:
        self._servers, self._folder = servers, folder

    @abstractmethod
    def _send(self, planned: Planned, records: int, folder: Path) -> NDArray[Any]:
        """Send the records to a new topic, cause the fault, repair the cluster, and return the records' fates."""

    @abstractmethod
    def _read(self, planned: Planned, folder: Path) -> tuple[Log, Log]:
        """The topic, and the one that Bronze reads."""

    def run(self, planned: Planned, records: int) -> Ran:
        """Make a run.

        Raises:
            StuckError: A sender or a reader failed, or the topic is empty and cannot be compared.
            UnfitError: The cluster did not recover.
        """
        load, at, started = os.getloadavg()[0], datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), time.monotonic()
        folder, setting = self._folder / planned.topic, planned.setting
        folder.mkdir()
        fates = self._send(planned, records, folder)
        seconds = round(time.monotonic() - started, 1)
        found, read = self._read(planned, folder)
        if not len(found.numbers):
            raise StuckError(f"The topic has none of {records:,} records: all were lost with the leader")
        columns = {
            "Sender": setting.sender,
            "Acks": setting.acks,
            "Idempotence": "on" if setting.is_idempotent else "off",
            "InFlight": setting.in_flight,
            "Fault": setting.fault,
            "Delay": setting.delay_ms,
            "TestRun": planned.nth,
            "Received": len(found.numbers),
            **found.columns(fates),
            "Seconds": seconds,
            "Load": round(load, 1),
            "At": at,
        }
        return Ran(planned, columns, found, read)

    def through_tables(self, spark: SparkSession, runs: Sequence[Ran]) -> list[Row]:
        """Take the runs' topics through the pipeline, one for each way to number records, and remove them."""
        rows = []
        for numbers, is_of in ((BY_VALUE, ("java", "librdkafka")), (BY_KIT, ("kit",)), (BY_COPIER, (PULSAR,))):
            logs = {ran.planned.topic: ran.read for ran in runs if ran.planned.setting.sender in is_of}
            if logs:
                with tempfile.TemporaryDirectory(prefix="tables-", dir=self._folder) as tables:
                    found = outcomes(spark, self._servers, logs, Path(tables), numbers)
                rows += [Row(**ran.columns, **found[ran.planned.topic]) for ran in runs if ran.planned.topic in found]
                delete_topics(self._servers, list(logs))
        return rows


class KafkaLab(Lab):
    """A cluster of Kafka, and the compiled Java sender."""

    def __init__(self, cluster: Cluster, classpath: str, folder: Path) -> None:
        super().__init__(cluster.bootstrap_servers, folder)
        self._cluster, self._classpath = cluster, classpath

    def _send(self, planned: Planned, records: int, folder: Path) -> NDArray[Any]:
        fault, topic = planned.setting.fault, planned.topic
        self._cluster.create_topic(topic, faults.TOPIC_CONFIGS.get(fault, {}))
        target = faults.prepare(self._cluster, topic, delay_ms=planned.setting.delay_ms)
        rate = faults.RATES.get(fault, 0.0)
        command = command_of(planned, self._servers, records, rate, classpath=self._classpath, folder=folder)
        try:
            with Sender(command, folder) as sender:
                sender.await_strike()
                faults.strike(fault, target, lambda: sender.is_sending)
                return sender.fates()
        finally:
            faults.heal(self._cluster, topic)

    def _read(self, planned: Planned, _folder: Path) -> tuple[Log, Log]:
        found = log.read(self._servers, planned.topic)
        return found, found


@contextlib.contextmanager
def start_kafka_lab() -> Iterator[KafkaLab]:
    """Start the lab on Kafka."""
    with tempfile.TemporaryDirectory(prefix="tidemark-chaos-") as made:
        folder = Path(made).resolve()
        classpath = compile_java([Path(__file__).with_name("Sender.java")], folder / "classes", broker_classpath())
        with start_cluster() as cluster:
            yield KafkaLab(cluster, classpath, folder)
