"""Runs on Pulsar. Their topics are copied to Kafka, and go through the pipeline from there."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bronze.dev_broker.broker import LocalBroker, create_topic
from lakehouse.machine.jars import broker_classpath
from tests.chaos import log
from tests.chaos.faults import TCP_SECONDS
from tests.chaos.lab import Lab
from tests.chaos.log import Log
from tests.chaos.pulsar.cluster import NAMESPACES, start_cluster
from tests.chaos.pulsar.program import classpath, java, last_lines
from tests.chaos.senders import FATES, MOST_OPEN, Sender, StuckError, compile_java, next_line
from tests.chaos.setting import FIRST, FLUSHED, STRUCK_AT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tests.chaos.pulsar.cluster import Broker, Cluster
    from tests.chaos.setting import Planned

_READ_SECONDS = 240


class PulsarLab(Lab):
    """Pulsar, a Kafka broker for the copies, and the compiled programs of this folder."""

    def __init__(self, pulsar: Cluster, servers: str, libraries: str, folder: Path) -> None:
        super().__init__(servers, folder)
        self._pulsar, self._libraries = pulsar, libraries

    def _send(self, planned: Planned, records: int, folder: Path) -> NDArray[Any]:
        owner = self._pulsar.owner(_path_of(planned))
        for broker in self._pulsar.brokers:
            broker.clients.delay_seconds = planned.setting.delay_ms / 1000
        numbers = map(str, (FIRST, records, FLUSHED, STRUCK_AT, MOST_OPEN))
        command = [*self._program("PulsarSender", planned, folder), "sender", *numbers, str(folder / FATES)]
        try:
            with Sender(command, folder) as sender:
                sender.await_strike()
                _strike(planned.setting.fault, owner)
                return sender.fates()
        finally:
            self._pulsar.heal()

    def _read(self, planned: Planned, folder: Path) -> tuple[Log, Log]:
        """Read the topic and copy it. The copier is killed halfway and started again, so Kafka gets some records twice."""
        file = folder / "numbers"
        _run_to_end([*self._program("PulsarReader", planned, folder), str(file)], folder / "reader.log")
        numbers = np.array(file.read_bytes().split(), np.int64)
        create_topic(self._servers, planned.topic, partitions=1)
        command = [*self._program("Copier", planned, folder), self._servers, planned.topic]
        with (folder / "first-copier.log").open("wb") as output:
            first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=output)
        try:
            while (line := next_line(first)) and int(line) < len(numbers) // 2:
                pass
        finally:
            first.kill()
            first.communicate()
        _run_to_end(command, folder / "copier.log")
        return Log(numbers, np.arange(len(numbers))), log.read(self._servers, planned.topic)

    def _program(self, name: str, planned: Planned, folder: Path) -> list[str]:
        """The command of a program of this folder, up to its own arguments."""
        topic = f"persistent://{_path_of(planned)}"
        return [*java(folder, self._libraries, memory=256), name, self._pulsar.service_url, topic]


@contextlib.contextmanager
def start_pulsar_lab() -> Iterator[PulsarLab]:
    """Start the lab on Pulsar."""
    with tempfile.TemporaryDirectory(prefix="tidemark-chaos-") as made:
        folder = Path(made).resolve()
        libraries = os.pathsep.join((classpath(), broker_classpath()))
        libraries = compile_java([*Path(__file__).parent.glob("*.java")], folder / "classes", libraries)
        with start_cluster(libraries) as pulsar, LocalBroker() as kafka:
            yield PulsarLab(pulsar, kafka.bootstrap_servers, libraries, folder)


def _path_of(planned: Planned) -> str:
    """The topic in Pulsar, with its namespace."""
    return f"{NAMESPACES[planned.setting.is_idempotent]}/{planned.topic}"


def _strike(fault: str, owner: Broker) -> None:
    """Kill the topic's owner; or cut its clients' connections, and refuse new ones for some seconds."""
    if fault == "leader_killed":
        owner.kill()
        return
    owner.clients.refuse()
    owner.clients.cut()
    time.sleep(TCP_SECONDS)
    owner.clients.accept()


def _run_to_end(command: list[str], output: Path) -> None:
    """Run a program that has to succeed.

    Raises:
        StuckError: It failed.
    """
    with output.open("wb") as file:
        done = subprocess.run(command, stdout=file, stderr=file, check=False, timeout=_READ_SECONDS)
    if done.returncode != 0:
        raise StuckError(f"{output.stem} ended with {done.returncode}: {last_lines(output)}")
