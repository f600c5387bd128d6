"""Processes that are started ahead of their run, so that the next one is warm when one dies."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Self

from tests.support.quick import JVM_OPTIONS

_REPOSITORY = Path(__file__).parents[2]
_PATIENCE_SECONDS = 900

# Several of them share the memory of one machine.
_SMALL = "-XX:MaxNewSize=256m"


class StuckError(Exception):
    pass


class Runner:
    """A process of the long run (`tests.faults.runner`), started by `prefix`. A mortal one dies too soon to compile much."""

    def __init__(
        self,
        config: Path,
        log: Path,
        *,
        arguments: tuple[str, ...] = (),
        is_mortal: bool = True,
        prefix: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.stage: str | None = None  # which the last event named
        self.is_used = self.is_gone = False
        self.jvm = 0  # its process id, once it is ready
        self._log = log
        self._events: queue.Queue[dict[str, Any]] = queue.Queue()
        command = [*prefix, sys.executable, "-m", "tests.faults.runner", str(config), *arguments]
        options = f"{JVM_OPTIONS} {_SMALL}" if is_mortal else ""
        own = {"SPARK_SUBMIT_OPTS": options, "PYTHONPATH": str(_REPOSITORY)}
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                command,
                cwd=log.parent,
                env={**os.environ, **own, **(environment or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # a group of its own: it and its JVM die together
            )
        assert self.process.stdout is not None
        threading.Thread(target=self._listen, args=(self.process.stdout,), daemon=True).start()

    def _listen(self, lines: IO[bytes]) -> None:
        with lines:
            for line in lines:
                with contextlib.suppress(ValueError):  # the line that it died in
                    self._events.put(json.loads(line))
        self._events.put({"event": "gone"})

    def next_event(self, until: float) -> dict[str, Any] | None:
        try:
            event = self._events.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            return None
        self.stage = _stage(event) or self.stage
        self.is_gone = event["event"] == "gone"
        return event

    def put_back(self, event: dict[str, Any]) -> None:
        self._events.queue.appendleft(event)

    def wait_for(self, *names: str) -> dict[str, Any]:
        """The next event of one of these names; a `StuckError` if none comes."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while (event := self.next_event(until)) is not None:
            if event["event"] in names:
                return event
            if event["event"] == "gone":
                break
        raise StuckError(f"Waited for {' or '.join(names)}, in vain. {self.last_words()}")

    def get_ready(self) -> None:
        self.jvm = self.wait_for("ready")["jvm"]

    def go(self, **order: str | bool | list[str] | None) -> None:
        """Start a run that dies at `crash_at` or pauses at `stop_at`. With `waits` it starts when another run has ended."""
        self.stage, self.is_used = None, True
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        while not self.is_gone and self.next_event(time.monotonic() + _PATIENCE_SECONDS):
            pass  # what it said last tells the stage
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()

    def kill_python(self) -> None:
        self.process.kill()
        self.process.wait()

    def last_words(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]


class Pool:
    """So many processes, started ahead."""

    def __init__(self, config: Path, folder: Path, size: int, arguments: tuple[str, ...] = ()) -> None:
        self._config, self._folder, self._size, self._arguments = config, folder, size, arguments
        self._waiting: list[Runner] = []
        self._started: list[Runner] = []
        self._dead: list[Runner] = []

    def __enter__(self) -> Self:
        self.fill()
        return self

    def __exit__(self, *_: object) -> None:
        for runner in self._started:
            runner.kill()

    def bury(self) -> None:
        """End the JVMs of those that were dead the last time: one that was left behind had a round to find out."""
        for runner in self._dead:
            runner.kill()
            self._started.remove(runner)
        self._dead = [each for each in self._started if each.process.poll() is not None]

    def fill(self, more: int = 0) -> None:
        while len(self._waiting) < self._size + more:
            runner = Runner(self._config, self._next_log(), arguments=self._arguments)
            self._started.append(runner)
            self._waiting.append(runner)

    def take(self, *, is_fresh: bool = False) -> Runner:
        fitting = [each for each in self._waiting if not (is_fresh and each.is_used)]
        if not fitting:
            self.fill(len(self._waiting))
            fitting = [each for each in self._waiting if not each.is_used]
        runner = fitting[0]
        self._waiting.remove(runner)
        if not runner.jvm:
            runner.get_ready()
        return runner

    def start_steady(self) -> Runner:
        runner = Runner(self._config, self._next_log(), arguments=self._arguments, is_mortal=False)
        self._started.append(runner)
        runner.get_ready()
        return runner

    def give_back(self, runner: Runner) -> None:
        self._waiting.insert(0, runner)

    def rest(self) -> None:
        for runner in self._waiting:
            if not runner.jvm:
                runner.get_ready()

    def _next_log(self) -> Path:
        logs = self._folder / "logs"
        logs.mkdir(exist_ok=True, parents=True)
        return logs / f"runner-{len(list(logs.iterdir())):04}.log"


def _stage(event: dict[str, Any]) -> str | None:
    stage = str(event["event"]).partition(".")[0]
    return stage if stage in ("bronze", "silver", "gate", "gold") else None
