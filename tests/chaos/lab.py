"""Runs on one cluster, one after another: their senders, their topics as plain clients read them, and these in the pipeline."""

import contextlib
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from lakehouse.machine.jars import broker_classpath
from lakehouse.machine.java import java_executable
from tests.chaos import cluster
from tests.chaos.results import FIRST, FLUSHED, MOST_OPEN, RECORDS, STRUCK_AT, Planned, Row
from tests.chaos.tables import BY_KIT, BY_VALUE, outcomes
from tests.support.kafka import delete_topic
from tests.support.published import Jumps
from tests.support.topics import records_of

FATES = "fates"
ACKNOWLEDGED, REFUSED, UNSENT = 1, 2, 3
_MOST_SECONDS = 240
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
    pass


@dataclass(frozen=True)
class Log:
    numbers: NDArray[np.int64]
    offsets: NDArray[np.int64]

    def jumps(self) -> Jumps:
        """Count duplicates and deviations record by record, as the article's consumer does."""
        seen, counts, before = set[int](), Counter[str](), int(self.numbers[0]) - 1
        for number in self.numbers.tolist():
            is_known = number in seen
            counts["duplicates"] += is_known
            if number != before + 1:
                counts[("d" if is_known else "") + ("jf" if number > before else "jb")] += 1
            seen.add(number)
            before = number
        return Jumps(*(counts[name] for name in Jumps._fields))

    def is_above(self) -> NDArray[np.bool_]:
        highest = np.maximum.accumulate(self.numbers)
        return np.concatenate(([True], self.numbers[1:] > highest[:-1]))

    def is_first(self) -> NDArray[np.bool_]:
        found = np.zeros(len(self.numbers), np.bool_)
        found[np.unique(self.numbers, return_index=True)[1]] = True
        return found

    def columns(self, fates: NDArray[np.uint8]) -> dict[str, int]:
        is_there = np.zeros(len(fates), np.bool_)
        is_there[self.numbers - FIRST] = True
        is_acknowledged, is_sent = fates == ACKNOWLEDGED, fates != UNSENT
        counted = {
            "SendCount": is_sent,
            "PosAckCount": is_acknowledged,
            "NegAckCount": fates == REFUSED,
            "NotReceived": is_acknowledged & ~is_there,
            "ReceivedNoAck": is_there & ~is_acknowledged,
            "Missing": is_sent & ~is_there,
            "Gap": ~is_there[self.numbers.min() - FIRST : self.numbers.max() - FIRST],
        }
        names = ("MsgsWithDups", "DJF", "DJB", "JF", "JB")
        counts = {name: int(flags.sum()) for name, flags in counted.items()}
        return {"Received": len(self.numbers), **counts, **dict(zip(names, self.jumps(), strict=True))}


def log_of(servers: str, topic: str) -> Log:
    found = records_of(servers, topic, isolation="read_uncommitted")
    numbers, offsets = [int(record.value or b"") for record in found], [record.offset for record in found]
    return Log(np.array(numbers, np.int64), np.array(offsets, np.int64))


class Ran(NamedTuple):
    planned: Planned  # the run
    columns: dict[str, Any]  # the part of its row that needs no tables
    log: Log  # the topic


class Lab:
    """A running cluster, the class path of the Java program, and a folder."""

    def __init__(self, kafka: cluster.Cluster, libraries: str, folder: Path) -> None:
        self._kafka, self._libraries, self._folder = kafka, libraries, folder
        self._servers = kafka.bootstrap_servers

    def run(self, planned: Planned) -> Ran:
        """Make a run, or raise `UnfitError`, or `StuckError` also where the topic is empty and cannot be compared."""
        load, at, started = os.getloadavg()[0], datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), time.monotonic()
        folder = self._folder / planned.topic
        folder.mkdir()
        fates = self._send(planned, folder)
        seconds = round(time.monotonic() - started, 1)
        found = log_of(self._servers, planned.topic)
        if not len(found.numbers):
            raise StuckError(f"The topic has none of {RECORDS:,} records: all were lost with the leader")
        of_sitting = {"Seconds": seconds, "Load": round(load, 1), "At": at}
        return Ran(planned, {**asdict(planned), **found.columns(fates), **of_sitting}, found)

    def through_tables(self, spark: SparkSession, runs: Sequence[Ran]) -> list[Row]:
        rows = []
        for numbers, is_of in ((BY_VALUE, ("java", "librdkafka")), (BY_KIT, ("kit",))):
            logs = {ran.planned.topic: ran.log for ran in runs if ran.planned.Sender in is_of}
            if logs:
                with tempfile.TemporaryDirectory(prefix="tables-", dir=self._folder) as tables:
                    found = outcomes(spark, self._servers, logs, Path(tables), numbers)
                rows += [Row(**ran.columns, **found[ran.planned.topic]) for ran in runs if ran.planned.topic in found]
            for topic in logs:
                delete_topic(self._servers, topic)
        return rows

    def _send(self, planned: Planned, folder: Path) -> NDArray[Any]:
        """Send the records to a new topic, cause the fault, repair the cluster, and return the records' fates."""
        topic = planned.topic
        self._kafka.create_topic(topic, cluster.TOPIC_CONFIGS.get(planned.Fault, {}))
        self._kafka.delay(planned.Delay)
        leader = self._kafka.leader(topic)
        command = command_of(planned, self._servers, classpath=self._libraries, folder=folder)
        try:
            with sending(command, folder) as sender:
                faults = cluster.Faults(self._kafka, topic, leader, lambda: sender.poll() is None)
                getattr(faults, planned.Fault)()
                return fates_of(sender, folder)
        finally:
            self._kafka.heal(topic)


@contextlib.contextmanager
def start_lab() -> Iterator[Lab]:
    with _compiled("Sender.java", broker_classpath()) as (libraries, folder), cluster.start_cluster() as kafka:
        yield Lab(kafka, libraries, folder)


@contextlib.contextmanager
def _compiled(program: str, libraries: str) -> Iterator[tuple[str, Path]]:
    """A folder with a compiled Java program, and the class path to run it. It takes a JDK, not only a JRE."""
    with tempfile.TemporaryDirectory(prefix="tidemark-chaos-") as made:
        classes = Path(made).resolve() / "classes"
        compiler = java_executable().resolve().with_name("javac")
        options = ["-proc:none", "-d", str(classes), "-cp", libraries]
        subprocess.run([compiler, *options, Path(__file__).with_name(program)], check=True)
        yield os.pathsep.join((str(classes), libraries)), classes.parent


@contextlib.contextmanager
def sending(command: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A sender that has sent what comes before the fault, or a `StuckError`. It is killed at the end of the block."""
    path = os.pathsep.join((str(_ROOT), str(_ROOT / "producer")))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env={**os.environ, "PYTHONPATH": path}
        )
    try:
        if not (line := next_line(process)):
            raise StuckError(f"The sender did not send {STRUCK_AT} records ({line!r}): {last_lines(folder / 'log')}")
        yield process
    finally:
        process.kill()
        process.communicate()


def fates_of(sender: subprocess.Popen[bytes], folder: Path) -> NDArray[np.uint8]:
    """Each record's fate at a sender's good end, or a `StuckError`: acknowledged, refused, unsent or, as 0, none of them."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        sender.wait(_MOST_SECONDS)
    if sender.returncode != 0:
        raise StuckError(f"The sender ended with {sender.returncode} (None: not yet): {last_lines(folder / 'log')}")
    return np.frombuffer((folder / FATES).read_bytes(), np.uint8)


def next_line(process: subprocess.Popen[bytes]) -> bytes | None:
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        return process.stdout.readline() if selector.select(60) else None


def last_lines(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-2_000:]


def command_of(planned: Planned, servers: str, *, classpath: str, folder: Path) -> list[str]:
    """The command of a sender to Kafka. The one in Java, of that class path, and the one in Python take the same arguments."""
    is_java = planned.Sender == "java"
    properties = {
        **_PROPERTIES,
        "bootstrap.servers": servers,
        "acks": planned.Acks,
        "enable.idempotence": str(planned.Idempotence == "on").lower(),
        "max.in.flight.requests.per.connection": str(planned.InFlight),
        **({"max.block.ms": "120000"} if is_java else {"log_level": "2"}),
    }
    file, log4j = folder / "sender.properties", folder / "log4j2.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), encoding="utf-8")
    log4j.write_text("rootLogger.level = off\n", encoding="utf-8")
    numbers = map(str, (FIRST, RECORDS, FLUSHED, STRUCK_AT, MOST_OPEN, cluster.RATES.get(planned.Fault, 0)))
    arguments = [str(file), planned.topic, *numbers, str(folder / FATES)]
    if not is_java:
        return [sys.executable, "-m", "tests.chaos.python_sender", *arguments, planned.Sender]
    options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dlog4j2.configurationFile={log4j}"]
    return [str(java_executable()), *options, "-cp", classpath, "Sender", *arguments]
