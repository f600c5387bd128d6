"""One pipeline of the long run: its tables, the kills over it, and their result."""

import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.run.context import Run
from lakehouse.table import Lakehouse
from pipelines.verify import run as proof
from tests.faults.compare import classes, compare, read_log
from tests.faults.kills import NEVER, STAGES, Durations, Kill, draw, require_end
from tests.faults.pool import Pool, Runner, StuckError
from tests.support.kafka import send_outgoing
from tests.support.small_config import write_config
from tidemark.process.context import load_settings, reporting

_PATIENCE_SECONDS = 900
_STRUCK_TWICE_SHARE, _WHOLE_SHARE = 0.5, 0.2


@dataclass
class Arm:
    servers: str
    topic: str
    folder: Path  # of its tables, config and logs
    source: random.Random
    fences: bool = True  # the control arm runs without them
    struck: Counter[str] = field(default_factory=Counter)  # kills by place
    doubles: int = 0  # kills in rounds with two processes at once
    pairs: list[tuple[float, float]] = field(default_factory=list)  # seconds of a run after a kill, and of the next one
    refused: list[str] = field(default_factory=list)  # failed runs, which only the control arm may have
    durations: Durations = field(default_factory=Durations)
    last: str = ""  # the result of the last round
    judged: dict[str, Any] = field(default_factory=dict)
    _steady: Runner | None = None

    @property
    def root(self) -> Path:
        return self.folder / "lakehouse"

    def config(self) -> Path:
        kafka = {"bootstrap_servers": self.servers, "topics": [self.topic]}
        policies = {"max_quarantined_share": 1}  # a share of the stream may be resent records only
        return write_config(self.folder, root=str(self.root), kafka=kafka, policies=policies)

    @property
    def kills(self) -> int:
        return self.struck.total()

    def strike(self, pool: Pool, *, is_double: bool) -> None:
        """Try to kill one or two processes, in all stages or in one. If the one with the lock dies, the other takes over."""
        kills = [self._draw(is_double=is_double)]
        if is_double:
            is_struck_twice = self.source.random() < _STRUCK_TWICE_SHARE
            kills.append(self._draw(is_double=True, stage=kills[0].stage) if is_struck_twice else NEVER)
        stage = None if self.source.random() < _WHOLE_SHARE else kills[0].stage
        if not self._lead_up(pool, stage):
            return
        runners = [pool.take() for _ in kills]
        if not is_double:
            kills[0].prepare(runners[0], self.root)
        for runner, kill in zip(runners, kills, strict=True):
            runner.go(stage=stage, crash_at=kill.crash_at, is_locked=self.fences, waits=is_double and self.fences)
        before, first = self.kills, _first_to_work(runners) if is_double else 0
        for index in (first, 1 - first)[: len(kills)]:
            self._note(pool, runners[index], kills[index])
        self.doubles += (self.kills - before) * is_double

    def _draw(self, *, is_double: bool, stage: str | None = None) -> Kill:
        stages = STAGES if self.fences else STAGES[:2]
        return draw(self.source, is_double=is_double, stages=stages if stage is None else (stage,))

    def _lead_up(self, pool: Pool, stage: str | None) -> bool:
        if stage is None:
            return True
        if self._steady is None:
            self._steady = pool.start_steady()
        for before in STAGES[: STAGES.index(stage)]:
            self._steady.go(stage=before, is_locked=self.fences, waits=self.fences)
            try:
                require_end(self._steady, self._steady.wait_for("done", "gone"))
            except StuckError as error:
                self._refuse(error)
                return False
        return True

    def _note(self, pool: Pool, runner: Runner, kill: Kill) -> None:
        try:
            where = kill.strike(runner, self.durations)
        except StuckError as error:
            self._refuse(error)
            runner.kill()
            return
        if where is None:
            pool.give_back(runner)
        else:
            self.struck[where] += 1
            self.last = where

    def _refuse(self, error: StuckError) -> None:
        if self.fences:
            raise error
        self.refused.append(str(error).partition("\n")[0][:300])
        self.last = self.refused[-1]

    def measure_pair(self, pool: Pool, send: Sequence[list[Any]]) -> None:
        pool.fill()
        pool.rest()
        seconds = []
        for share in send:
            send_outgoing(self.servers, self.topic, share)
            seconds.append(finish(pool.take(is_fresh=True), pool)["seconds"])
        self.pairs.append((seconds[0], seconds[1]))


def finish(runner: Runner, pool: Pool) -> dict[str, Any]:
    """Run all stages in a process that nobody kills, and return its last event; raise `StuckError` if it fails."""
    runner.go(waits=True)
    done = runner.wait_for("done", "gone")
    if done["event"] == "gone" or done["exit_code"]:
        raise StuckError(f"A run that nobody killed ended with {done}. {runner.last_words()}")
    pool.give_back(runner)
    return done


def judge(spark: SparkSession, arm: Arm) -> dict[str, Any]:
    settings = load_settings(arm.config(), None)
    with reporting() as report:
        run = Run(settings.pipeline, Lakehouse.of(settings), report)
        verified = proof.verify(spark, run, is_deep=True) if arm.fences else None
        return {
            "tables": compare(spark, run, read_log(arm.servers, arm.topic)),
            "classes": classes(spark, run),
            "verify_deep": verified and {"ok": verified["ok"], "checks": len(verified["checks"])},  # type: ignore[arg-type] # its checks are a list
        }


def _first_to_work(runners: Sequence[Runner]) -> int:
    until = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < until:
        for place, runner in enumerate(runners):
            event = runner.next_event(time.monotonic() + 0.02)
            if event is not None and event["event"].partition(".")[0] in (*STAGES, "done", "gone"):
                runner.put_back(event)
                return place
    raise StuckError("Neither of two runs began.")
