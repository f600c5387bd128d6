"""How a run of the long test dies: at a random moment of a stage, at a named crash point, or at a Delta commit."""

import contextlib
import random
import re
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakehouse import table
from lakehouse.delta.log_files import last_version
from lakehouse.errors import AnotherWriterError
from tests.faults.pool import Runner, StuckError
from tests.support import strace

STAGES = ("bronze", "silver", "gate", "gold")
TABLES = (
    *(table.BRONZE_RECORDS, table.SILVER_LOADS, table.SILVER_RECORDS, table.SILVER_REJECTS, table.SILVER_WATERMARKS),
    *(table.GATE_RESULTS, table.GOLD_RECORDS, table.GOLD_LATEST, table.GOLD_STREAM_HEALTH),
)

_PACKAGES = ("bronze", "silver", "expectations", "gold")
_POINT = re.compile(r'crash_point\("([a-z_.]+)"\)')
_ELSEWHERE = {
    *("bronze.topics_noted", "bronze.carried_on", "bronze.begun_anew", "gate.kept_aside"),
    *("gold.model_made", "gold.replaced", "gold.withdrawn", "gold.by_stream", "gold.latest_anew"),
}  # crash points of a first read, odd timestamps, rows kept out of Gold, models, rebuilds, restores, keys of several streams
_BEFORE, _AFTER = ("link,linkat", "%%stat")
"""The system calls that are struck as they begin: the link that makes a commit's file; after it, the look at its checksum's."""
_PATIENCE_SECONDS = 900
_TRACER_SECONDS = 10
_GUESSED_SECONDS = 4.0


def crash_points() -> list[str]:
    """Every crash point that the code names, but for those of what the long run has none of."""
    repository = Path(__file__).parents[2]
    files = [path for package in _PACKAGES for path in (repository / package).rglob("*.py")]
    named = {name for path in files for name in _POINT.findall(path.read_text(encoding="utf-8"))}
    return sorted(named - _ELSEWHERE)


@dataclass
class Durations:
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, _GUESSED_SECONDS))
    _started: dict[str, float] = field(default_factory=dict)

    def learn(self, event: dict[str, Any]) -> None:
        stage, _, what = event["event"].partition(".")
        if stage in self.seconds and what == "started":
            self._started[stage] = event["at"]
        elif stage in self.seconds and what == "finished" and stage in self._started:
            took = event["at"] - self._started.pop(stage)
            self.seconds[stage] = 0.7 * self.seconds[stage] + 0.3 * took


@dataclass(frozen=True)
class Moment:
    """Some time after a stage has started, as a share of what it takes."""

    stage: str
    share: float
    is_python_alone: bool = False  # the JVM is left to find out by itself

    crash_at = None

    def prepare(self, runner: Runner, root: Path) -> None:
        pass

    def strike(self, runner: Runner, durations: Durations) -> str | None:
        """Wait for the moment and kill; what was struck, or None where the run ended first."""
        until = time.monotonic() + _PATIENCE_SECONDS
        is_waiting = True
        while (event := runner.next_event(until)) is not None and event["event"] not in ("done", "gone"):
            durations.learn(event)
            if is_waiting and event["event"] == f"{self.stage}.started":
                until, is_waiting = time.monotonic() + self.share * durations.seconds[self.stage], False
        if event is not None:
            require_end(runner, event)
            return None
        if is_waiting:
            raise StuckError(f"{self.stage} never started. {runner.last_words()}")
        if self.is_python_alone:
            runner.kill_python()
        else:
            runner.kill()
        return f"in {runner.stage}" + (", Python alone" if self.is_python_alone else "")


NEVER = Moment("gold", 1_000)  # a run that is left alone ends before that


@dataclass(frozen=True)
class Point:
    """A crash point of the code, where the process kills itself."""

    crash_at: str

    @property
    def stage(self) -> str:
        return self.crash_at.partition(".")[0]

    def prepare(self, runner: Runner, root: Path) -> None:
        pass

    def strike(self, runner: Runner, durations: Durations) -> str | None:
        """Wait until it has died; None where the run never came to the point."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while (event := runner.next_event(until)) is not None:
            durations.learn(event)
            if event["event"] == "gone":
                runner.kill()
                return f"at {self.crash_at}"
            if event["event"] == "done":
                require_end(runner, event)
                return None
        raise StuckError(f"Neither died at {self.crash_at} nor ended. {runner.last_words()}")


@dataclass
class Commit:
    """The link that makes a Delta commit: the JVM dies as it asks for it, or at once after it."""

    table: str
    is_after: bool
    _file: Path = Path()
    _tracer: subprocess.Popen[bytes] | None = None

    crash_at = None

    @property
    def stage(self) -> str:
        return self.table.partition("_")[0]

    def prepare(self, runner: Runner, root: Path) -> None:
        folder = root / self.table
        self._file = folder / "_delta_log" / f"{last_version(folder) + 1:020}.json"
        calls = _AFTER if self.is_after else _BEFORE
        file = self._file.with_name(f".{self._file.name}.crc") if self.is_after else self._file
        once = "signal=SIGKILL:when=1"
        self._tracer = strace.attached(runner.jvm, calls, once, "-P", str(file), patience_seconds=_PATIENCE_SECONDS)

    def strike(self, runner: Runner, _durations: Durations) -> str | None:
        """Wait for the commit; None where the run ended without it."""
        assert self._tracer is not None
        until = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < until:
            if self._tracer.poll() is not None:
                runner.kill()
                when = "after" if self.is_after else "before"
                own = any(self._file.parent.glob(f".{self._file.name}.*.tmp"))
                if self._file.exists() != self.is_after or not own:
                    raise StuckError(f"{self._file} was to be struck {when} its link, and is not as it is then")
                return f"{when} the commit to {self.table}"
            event = runner.next_event(time.monotonic() + 0.01)
            if event and event["event"] == "done" and not self._ends(event):
                self._tracer.terminate()
                self._tracer.wait()
                require_end(runner, event)
                return None
        raise StuckError(f"Neither died at the commit to {self.table} nor ended. {runner.last_words()}")

    def _ends(self, done: dict[str, Any]) -> bool:
        assert self._tracer is not None
        if done["exit_code"] in (0, AnotherWriterError.exit_code):
            return False
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._tracer.wait(_TRACER_SECONDS)
        return self._tracer.poll() is not None


Kill = Moment | Point | Commit


def draw(source: random.Random, *, is_double: bool = False, stages: Sequence[str] = STAGES) -> Kill:
    """A way to die in one of some stages, at random: so that stages, points and tables all get their share."""
    sort = source.choices(["moment", "point", "commit"], [6, 3, 0 if is_double or not strace.IS_INSTALLED else 1])[0]
    if sort == "point":
        return Point(source.choice([each for each in crash_points() if each.startswith(tuple(stages))]))
    if sort == "commit":
        return Commit(source.choice([each for each in TABLES if each.startswith(tuple(stages))]), source.random() < 0.5)
    return Moment(source.choice(stages), source.random(), source.random() < 0.15)


def require_end(runner: Runner, event: dict[str, Any]) -> None:
    if event["event"] == "gone" or event["exit_code"] not in (0, AnotherWriterError.exit_code):
        raise StuckError(f"A run ended with {event}. {runner.last_words()}")
