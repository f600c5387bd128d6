"""The sender processes: one for each run. It numbers records, announces the strike, and keeps the fate of each record."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from lakehouse.machine.java import java_executable
from tests.chaos.setting import FIRST, FLUSHED, STRUCK_AT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tests.chaos.setting import Planned

MOST_OPEN = 10_000
"""The most records that are sent and not yet acknowledged: the article's limit."""
FATES = "fates"
ACKNOWLEDGED, REFUSED, UNSENT = 1, 2, 3
_END_SECONDS = 240
_ROOT = Path(__file__).parents[2]
_PROPERTIES = {  # as Java's client and librdkafka both name them
    "retries": str(2**31 - 1),
    "retry.backoff.ms": "100",
    "linger.ms": "1000",
    "batch.size": "16384",
    # The article's client fails over within seconds too; with the defaults it asks for metadata later.
    "reconnect.backoff.max.ms": "500",
    "request.timeout.ms": "10000",
    "delivery.timeout.ms": "180000",
}


class StuckError(Exception):
    """A sender or a reader ended or stopped where it should not."""


def compile_java(sources: Sequence[Path], into: Path, libraries: str) -> str:
    """Compile Java programs into a new folder, and return the class path to run them.

    Raises:
        StuckError: The Java in use has no compiler, or the compiler refuses.
    """
    compiler = java_executable().resolve().with_name("javac")
    into.mkdir()
    try:
        done = subprocess.run(
            [compiler, "-proc:none", "-d", into, "-cp", libraries, *sources], capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise StuckError(f"A JDK is needed, not only a JRE: {error}") from error
    if done.returncode != 0:
        raise StuckError(f"{sources[0].name} does not compile: {done.stderr}")
    return os.pathsep.join((str(into), libraries))


class Sender:
    """A running sender process; it is killed at the end of the `with` block.

    Args:
        command: The command that starts it.
        folder: Its folder. It writes the fates of its records there.
    """

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self._fates, self._log = folder / FATES, folder / "log"
        path = os.pathsep.join((str(_ROOT), str(_ROOT / "producer")))
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env={**os.environ, "PYTHONPATH": path}
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def is_sending(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def await_strike(self) -> None:
        """Return once it has sent the records that come before the fault.

        Raises:
            StuckError: It ended before, or is silent for a minute.
        """
        if not (line := next_line(self._process)):
            raise StuckError(f"The sender did not send {STRUCK_AT} records ({line!r}): {self._last_lines()}")

    def fates(self) -> NDArray[np.uint8]:
        """Wait for its end, and return the fate of each record: acknowledged, refused, unsent or, as 0, none of them.

        Raises:
            StuckError: It failed, or still runs after some minutes.
        """
        try:
            code = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            raise StuckError(f"The sender still runs after {_END_SECONDS} s: {self._last_lines()}") from None
        if code != 0:
            raise StuckError(f"The sender ended with {code}: {self._last_lines()}")
        return np.frombuffer(self._fates.read_bytes(), np.uint8)

    def _last_lines(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")[-2_000:]


def next_line(process: subprocess.Popen[bytes]) -> bytes | None:
    """The next line of a process: empty at its end, None after a minute of silence."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        return process.stdout.readline() if selector.select(60) else None


def command_of(planned: Planned, servers: str, records: int, rate: float, *, classpath: str, folder: Path) -> list[str]:
    """The command of a sender to Kafka. The Java sender and the one in Python take the same arguments.

    Args:
        planned: The run.
        servers: The brokers.
        records: The number of records.
        rate: Records a second; 0 for no limit.
        classpath: The class path of the Java sender.
        folder: The run's folder.
    """
    setting, is_java = planned.setting, planned.setting.sender == "java"
    properties = {
        **_PROPERTIES,
        "bootstrap.servers": servers,
        "acks": setting.acks,
        "enable.idempotence": str(setting.is_idempotent).lower(),
        "max.in.flight.requests.per.connection": str(setting.in_flight),
        **({"max.block.ms": "120000"} if is_java else {"log_level": "2"}),
    }
    file, log4j = folder / "sender.properties", folder / "log4j2.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), encoding="utf-8")
    log4j.write_text("rootLogger.level = off\n", encoding="utf-8")
    numbers = map(str, (FIRST, records, FLUSHED, STRUCK_AT, MOST_OPEN, rate))
    arguments = [str(file), planned.topic, *numbers, str(folder / FATES)]
    if not is_java:
        return [sys.executable, "-m", "tests.chaos.python_sender", *arguments, setting.sender]
    options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dlog4j2.configurationFile={log4j}"]
    return [str(java_executable()), *options, "-cp", classpath, "Sender", *arguments]
