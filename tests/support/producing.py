"""Senders of the producer kit, in the test and in processes that a test may kill at any moment."""

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tidemark_producer import Counter, FileStore, Numbers, Sender, SqlStore

from tests.support.examples import examples
from tests.support.topics import Found, records_of

TABLE = (
    "CREATE TABLE IF NOT EXISTS tidemark_producers "
    "(name VARCHAR(1024) PRIMARY KEY, epoch BIGINT NOT NULL, sequence BIGINT NOT NULL)"
)

KIT_PATH = os.pathsep.join([str(Path(__file__).parents[2] / "producer"), os.environ.get("PYTHONPATH", "")])
"""Where Python finds the kit, installed or not."""


def kills(places: int) -> int:
    """How often a test kills a process: `places` times in `make test-places`, else a few times."""
    return places if os.environ.get("TESTS") == "places" else examples(2, 3)


class Kit:
    def __init__(self, servers: str, topic: Callable[..., str], folder: Path) -> None:
        self.servers, self.topic, self.folder = servers, topic, folder
        self.config: dict[str, Any] = {"bootstrap.servers": self.servers, "log_level": 0, "linger.ms": 1}

    def sender(self, numbers: Numbers | None = None, settings: Mapping[str, Any] | None = None, **options: Any) -> Sender:
        return Sender({**self.config, **(settings or {})}, "shop", numbers or self.counter(), **options)

    def counter(self) -> Counter:
        return Counter(FileStore(self.folder / "numbers"), new=True)

    def records(self, topic: str) -> list[Found]:
        return records_of(self.servers, topic)

    def positions(self, topic: str) -> list[tuple[int, int]]:
        return [record.position for record in self.records(topic)]


def in_row(path: Path) -> SqlStore:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(TABLE)
    return SqlStore(lambda: sqlite3.connect(path, timeout=30), paramstyle=sqlite3.paramstyle)


RESUMING = """
import sys
from tidemark_producer import Given, Sender, last_accepted
servers, topic, end, named = sys.argv[1:]
config = {"bootstrap.servers": servers, "linger.ms": 1, "queue.buffering.max.messages": 3000}
numbers = Given(accepted=lambda: {topic: last_accepted(config, topic, "shop")})
with Sender(config, "shop", numbers) as sender:
    begin = numbers.continue_after()
    for number in range(0 if begin is None else begin + 1, int(end)):
        partition = number * 7919 % 3 if named == "named" else None
        sent = sender.send(topic, b"%d" % number, b"%d" % (number * 7919 % 3), partition=partition, sequence=number)
        if number % 2000 == 1999:
            sent.result()
            print("on")
print("done")
"""  # sends the numbers of a source from the first one that Kafka may lack, prints `on` now and then, and ends with the source


def start(program: str | Path, *arguments: str, python: Path | None = None) -> subprocess.Popen[str]:
    """Start a Python program, a text or a file, that may import the kit; its output can be read line by line."""
    given = ["-c", program] if isinstance(program, str) else [str(program)]
    return subprocess.Popen(
        [str(python or sys.executable), "-u", *given, *arguments],
        env={**os.environ, "PYTHONPATH": KIT_PATH},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def kill(process: subprocess.Popen[str]) -> list[str]:
    """Kill a running program, and return the lines of its output that were not read, the last one only if it is whole."""
    assert process.stdout is not None
    assert process.stderr is not None
    process.send_signal(signal.SIGKILL)
    with process:
        *whole, _ = process.stdout.read().split("\n")
        said = process.stderr.read()
    assert process.returncode == -signal.SIGKILL, said
    return whole


def run_and_kill(seed: int, program: str, *arguments: str) -> None:
    process = start(program, *arguments)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "on\n", process.stderr.read()
    time.sleep(random.Random(seed).random() / 4)
    kill(process)
