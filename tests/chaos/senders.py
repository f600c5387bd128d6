"""The senders: a process for each run, which numbers records, says when so many are sent, and keeps what became of each."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from lakehouse.machine.java import java_executable
from tests.chaos.setting import FIRST, FLUSHED, STRUCK_AT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from numpy.typing import NDArray

    from tests.chaos.setting import Setting

MOST_OPEN = 10_000
"""Records that are sent and not yet acknowledged, at most: the article's limit."""

FATES = "fates"
ACKNOWLEDGED, REFUSED, UNSENT = 1, 2, 3
_DELIVERY_SECONDS = 180
_END_SECONDS = 240


class StuckError(Exception):
    """A sender ended or stood still where it should not."""


def compile_java(sources: Sequence[Path], into: Path, libraries: str) -> str:
    """Compile programs in Java, and return the class path to run them by.

    Raises:
        StuckError: There is no compiler beside the Java that is used, or it refuses.
    """
    compiler = java_executable().resolve().with_name("javac")
    try:
        done = subprocess.run(
            [compiler, "-proc:none", "-d", into, "-cp", libraries, *sources], capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise StuckError(f"A JDK is needed, not only a JRE: {error}") from error
    if done.returncode != 0:
        raise StuckError(f"{sources[0].name} does not compile: {done.stderr}")
    return os.pathsep.join((str(into), libraries))


@dataclass(frozen=True)
class Task:
    """What a sender is to send.

    Attributes:
        setting: The client's settings.
        topic: Where to.
        bootstrap_servers: The brokers.
        records: How many.
        rate: Records a second; 0 for as many as it can.
    """

    setting: Setting
    topic: str
    bootstrap_servers: str
    records: int
    rate: float

    def properties(self) -> dict[str, str]:
        """The client's properties, as Java's and librdkafka name them both."""
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "acks": self.setting.acks,
            "enable.idempotence": str(self.setting.is_idempotent).lower(),
            "max.in.flight.requests.per.connection": str(self.setting.in_flight),
            "retries": str(2**31 - 1),
            "retry.backoff.ms": "100",
            "linger.ms": "1000",
            "batch.size": "16384",
            # The article's client fails over in seconds too; at their defaults its metadata is asked for later.
            "reconnect.backoff.max.ms": "500",
            "request.timeout.ms": "10000",
        }


class Sender:
    """A sender at work. Use it as a `with` block: at its end the process is gone.

    Args:
        command: What starts it.
        folder: The folder of its files; it writes what became of its records to `fates` there.
    """

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self._fates, self._log = folder / FATES, folder / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env=_environment()
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    @property
    def is_sending(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def await_strike(self) -> None:
        """Return once it has sent so many records that the fault is due.

        Raises:
            StuckError: It ended before, or says nothing for a minute.
        """
        output = self._process.stdout
        assert output is not None
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            if not selector.select(60) or not output.readline():
                raise StuckError(f"The sender sent no {STRUCK_AT} records: {self._last_words()}")

    def fates(self) -> NDArray[np.uint8]:
        """Wait for its end; what became of each record: 1 acknowledged, 2 failed for good, 3 never sent, 0 none of them.

        Raises:
            StuckError: It failed, or is not done within some minutes.
        """
        try:
            code = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            raise StuckError(f"The sender is not done after {_END_SECONDS} s: {self._last_words()}") from None
        if code != 0:
            raise StuckError(f"The sender ended with {code}: {self._last_words()}")
        return np.frombuffer(self._fates.read_bytes(), np.uint8)

    def _last_words(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")[-2_000:]


def command_of(task: Task, classpath: str, folder: Path) -> list[str]:
    """What starts a sender to Kafka.

    Args:
        task: What it sends.
        classpath: The compiled Java sender's.
        folder: An empty folder for its files.
    """
    return (_java if task.setting.sender == "java" else _python)(task, classpath, folder)


def _environment() -> dict[str, str]:
    """The environment of a sender, which finds this repository and the producer kit in it."""
    root = Path(__file__).parents[2]
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(root), str(root / "producer")))}


def _java(task: Task, classpath: str, folder: Path) -> list[str]:
    properties = {**task.properties(), "delivery.timeout.ms": str(_DELIVERY_SECONDS * 1000), "max.block.ms": "120000"}
    file = folder / "sender.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), encoding="utf-8")
    numbers = (FIRST, task.records, FLUSHED, STRUCK_AT, MOST_OPEN, task.rate)
    log4j = folder / "log4j2.properties"
    log4j.write_text("rootLogger.level = off\n", encoding="utf-8")
    options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dlog4j2.configurationFile={log4j}"]
    return [
        str(java_executable()),
        *options,
        "-cp",
        classpath,
        "Sender",
        str(file),
        task.topic,
        *map(str, numbers),
        str(folder / FATES),
    ]


def _python(task: Task, _classpath: str, folder: Path) -> list[str]:
    asked = {
        "properties": {**task.properties(), "message.timeout.ms": str(_DELIVERY_SECONDS * 1000), "log_level": "2"},
        "is_kit": task.setting.sender == "kit",
        "topic": task.topic,
        "first": FIRST,
        "records": task.records,
        "flushed": FLUSHED,
        "told": STRUCK_AT,
        "open": MOST_OPEN,
        "rate": task.rate,
        "fates": str(folder / FATES),
        "state": str(folder / "state"),
    }
    return [sys.executable, "-m", "tests.chaos.python_sender", json.dumps(asked)]
