"""One run after another on Pulsar, their topics copied to Kafka, and from there through the pipeline."""

from __future__ import annotations

import os
import selectors
import subprocess
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bronze.dev_broker.broker import LocalBroker, create_topic
from lakehouse.machine.jars import broker_classpath
from tests.chaos import log
from tests.chaos.faults import TCP_SECONDS
from tests.chaos.lab import Ran, rows_of
from tests.chaos.log import Log
from tests.chaos.pulsar.cluster import NAMESPACES, Cluster
from tests.chaos.pulsar.program import classpath, java
from tests.chaos.senders import FATES, MOST_OPEN, Sender, StuckError, compile_java
from tests.chaos.setting import FIRST, FLUSHED, STRUCK_AT
from tests.chaos.started import Started
from tests.chaos.tables import BY_COPIER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from tests.chaos.pulsar.cluster import Broker
    from tests.chaos.results import Row
    from tests.chaos.setting import Planned

_READ_SECONDS = 240
_MEMORY = 256


class Lab(Started):
    """Pulsar, a Kafka broker for the copies and a folder, as long as the `with` block."""

    def _start(self) -> None:
        self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="tidemark-chaos-"))).resolve()
        libraries = os.pathsep.join((classpath(), broker_classpath()))
        sources = [*Path(__file__).parent.glob("*.java")]
        self._libraries = compile_java(sources, self._made("classes"), libraries).split(os.pathsep)
        self._pulsar = self._stack.enter_context(Cluster(self._libraries))
        self._kafka = self._stack.enter_context(LocalBroker())

    def run(self, planned: Planned, records: int) -> Ran:
        """Send the records to a new topic, strike in the middle, wait until Pulsar is whole again, and copy what is there.

        The copier is killed halfway and started again, so that Kafka gets some records twice from it alone.

        Raises:
            StuckError: The sender or a reader ended or stood still.
            UnfitError: Pulsar did not come back.
        """
        load, at, started = os.getloadavg()[0], datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), time.monotonic()
        setting, folder = planned.setting, self._made(planned.topic)
        topic = f"{NAMESPACES[setting.is_idempotent]}/{planned.topic}"
        owner = self._pulsar.owner(topic)
        for broker in self._pulsar.brokers:
            broker.clients.delay_seconds = setting.delay_ms / 1000
        numbers = (FIRST, records, FLUSHED, STRUCK_AT, MOST_OPEN)
        place = (self._pulsar.service_url, f"persistent://{topic}")
        try:
            command = [*self._java(folder), "PulsarSender", *place, "sender", *map(str, numbers), str(folder / FATES)]
            with Sender(command, folder) as sender:
                sender.await_strike()
                _strike(setting.fault, owner)
                fates = sender.fates()
        finally:
            self._pulsar.await_whole()
        seconds = round(time.monotonic() - started, 1)
        found = self._read(place, folder)
        copied = self._copied(place, planned.topic, len(found.numbers), folder)
        return Ran(planned, log.compare(fates, found), found, copied, seconds, round(load, 1), at)

    def through_tables(self, spark: SparkSession, runs: Sequence[Ran]) -> list[Row]:
        """Take the copies through the pipeline."""
        return rows_of(spark, self._kafka.bootstrap_servers, runs, self._folder, BY_COPIER)

    def _read(self, place: tuple[str, str], folder: Path) -> Log:
        file = folder / "numbers"
        with (folder / "reader.log").open("wb") as said:
            command = [*self._java(folder), "PulsarReader", *place, str(file)]
            done = subprocess.run(command, stdout=said, stderr=said, check=False, timeout=_READ_SECONDS)
        if done.returncode != 0:
            raise StuckError(f"The topic cannot be read: {(folder / 'reader.log').read_text(errors='replace')[-2_000:]}")
        numbers = np.array(file.read_bytes().split(), np.int64)
        return Log(numbers, np.arange(len(numbers)))

    def _copied(self, place: tuple[str, str], topic: str, records: int, folder: Path) -> Log:
        servers = self._kafka.bootstrap_servers
        create_topic(servers, topic, partitions=1)
        command = [*self._java(folder), "Copier", *place, servers, topic]
        with (folder / "copier.log").open("wb") as said:
            first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said)
            try:
                _await_copied(first, records // 2)
            finally:
                first.kill()
                first.wait()
            done = subprocess.run(command, stdout=said, stderr=said, check=False, timeout=_READ_SECONDS)
        if done.returncode != 0:
            raise StuckError(f"The copier ended with {done.returncode}: {(folder / 'copier.log').read_text()[-2_000:]}")
        return log.read(servers, topic)

    def _java(self, folder: Path) -> list[str]:
        return java(folder, self._libraries, memory=_MEMORY)

    def _made(self, name: str) -> Path:
        made = self._folder / name
        made.mkdir()
        return made


def _strike(fault: str, owner: Broker) -> None:
    """Kill the topic's owner; or cut its clients' connections, and let none come about for some seconds."""
    if fault == "leader_killed":
        owner.kill()
        return
    owner.clients.refuse()
    owner.clients.cut()
    time.sleep(TCP_SECONDS)
    owner.clients.accept()


def _await_copied(copier: subprocess.Popen[bytes], messages: int) -> None:
    """Return once a copier says that it has copied so many."""
    assert copier.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(copier.stdout, selectors.EVENT_READ)
        while selector.select(60):
            line = copier.stdout.readline()
            if not line or int(line) >= messages:
                return
