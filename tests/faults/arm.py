"""One pipeline of the long run: its tables, who is killed over it and where, and what that came to."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jobs.demo.producer import produce
from jobs.process.context import load_settings, open_session, reporting
from lakehouse.run.context import Run
from lakehouse.table import Lakehouse
from pipelines.verify import run as proof
from tests.faults.compare import classes, compare, read_log
from tests.faults.kills import STAGES, Durations, Kill, draw, require_end
from tests.faults.pool import StuckError
from tests.support.small_config import write_config

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.faults.pool import Pool, Runner

_PATIENCE_SECONDS = 900
_WHOLE_SHARE = 0.2


@dataclass
class Arm:
    """One pipeline under fire.

    Attributes:
        servers: The broker.
        topic: The stream's topic.
        folder: Where its tables, config and logs lie.
        fences: Whether the pipeline is as it is; the control arm's is not.
        lakehouse: Where its tables are, as the section of a config; None for a folder below its own.
        struck: How often which place was struck.
        doubles: Kills in rounds with two processes at once.
        pairs: Seconds of a run after a kill and of the next one after none.
        refused: Runs that failed; the control arm's may.
        durations: What its stages take.
        last: What became of the last round.
        judged: What its tables came to at the end.
    """

    servers: str
    topic: str
    folder: Path
    source: random.Random
    fences: bool = True
    lakehouse: dict[str, Any] | None = None
    struck: Counter[str] = field(default_factory=Counter)
    doubles: int = 0
    pairs: list[tuple[float, float]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    durations: Durations = field(default_factory=Durations)
    last: str = ""
    judged: dict[str, Any] = field(default_factory=dict)
    _steady: Runner | None = None

    @property
    def root(self) -> Path:
        """Where the tables are."""
        return self.folder / "lakehouse"

    def config(self) -> Path:
        """Write the config."""
        kafka = {"bootstrap_servers": self.servers, "topics": [self.topic]}
        policies = {"max_quarantined_share": 1}  # a share of the stream may be resent records only
        place = self.lakehouse or {"root": str(self.root)}
        return write_config(self.folder, root="", kafka=kafka, policies=policies, lakehouse=place)

    @property
    def kills(self) -> int:
        """How many died so far."""
        return self.struck.total()

    def draw(self, *, is_double: bool = False, stage: str | None = None) -> Kill:
        """A way to die, in a given stage or any; in the control arm up to Silver, since its gate lets nothing out."""
        stages = STAGES if self.fences else STAGES[:2]
        return draw(self.source, is_double=is_double, stages=stages if stage is None else (stage,))

    def strike(self, pool: Pool, kill: Kill) -> None:
        """One process, one try to kill it: in a run of all stages, or in one stage as a job of its own."""
        stage = None if self.source.random() < _WHOLE_SHARE else kill.stage
        if not self._is_led_up(pool, stage):
            return
        runner = pool.take()
        kill.prepare(runner, self.root)
        runner.go(stage=stage, crash_at=kill.crash_at, is_locked=self.fences)
        self._note(pool, runner, kill)

    def _is_led_up(self, pool: Pool, stage: str | None) -> bool:
        """Whether a process that nobody kills got through the stages before it, and finished what the last death left."""
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

    def strike_double(self, pool: Pool, kills: Sequence[Kill]) -> None:
        """Two processes at once: when the one that holds the lock dies, the other takes over at once, and may die too."""
        stage = None if self.source.random() < _WHOLE_SHARE else kills[0].stage
        if not self._is_led_up(pool, stage):
            return
        runners = [pool.take(), pool.take()]
        for runner, kill in zip(runners, kills, strict=True):
            runner.go(stage=stage, crash_at=kill.crash_at, is_locked=self.fences, waits=self.fences)
        first = _first_to_work(runners)
        before = self.kills
        for place in (first, 1 - first):
            self._note(pool, runners[place], kills[place])
        self.doubles += self.kills - before

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
        """Keep that a run failed, which only the control arm's may."""
        if self.fences:
            raise error
        self.refused.append(str(error).partition("\n")[0][:300])
        self.last = self.refused[-1]

    def measure_pair(self, pool: Pool, send: Sequence[list[Any]]) -> None:
        """A fresh process after a kill, and a fresh one after a run that ended well; each with as much to do."""
        pool.fill()
        pool.rest()
        seconds = []
        for share in send:
            produce(self.servers, self.topic, share)
            seconds.append(finish(pool.take(is_fresh=True), pool)["seconds"])
        self.pairs.append((seconds[0], seconds[1]))


def finish(runner: Runner, pool: Pool) -> dict[str, Any]:
    """A run that nobody disturbs; what it did.

    Raises:
        StuckError: It failed.
    """
    runner.go(waits=True)
    done = runner.wait_for("done", "gone")
    if done["event"] == "gone" or done["exit_code"]:
        raise StuckError(f"A run that nobody disturbed ended with {done}. {runner.last_words()}")
    pool.give_back(runner)
    return done


def judge(spark: SparkSession | None, arm: Arm) -> dict[str, Any]:
    """The tables against the reference, and against each other; in a session of its own if none is given."""
    settings = load_settings(arm.config(), None)
    lakehouse = Lakehouse.of(settings)
    with reporting() as report:
        run = Run(settings.pipeline, lakehouse, report)
        spark = spark or open_session(lakehouse, report, "tidemark faults")
        verified = proof.verify(spark, run, is_deep=True) if arm.fences else None
        return {
            "tables": compare(spark, run, read_log(arm.servers, arm.topic)),
            "classes": classes(spark, run),
            "verify_deep": verified and {"ok": verified["ok"], "checks": len(verified["checks"])},  # type: ignore[arg-type] # its checks are a list
        }


def _first_to_work(runners: Sequence[Runner]) -> int:
    """Which of two has the lock: the first that says anything of a stage."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < until:
        for place, runner in enumerate(runners):
            event = runner.next_event(time.monotonic() + 0.02)
            if event is not None and event["event"].partition(".")[0] in (*STAGES, "done", "gone"):
                runner.put_back(event)
                return place
    raise StuckError("Neither of two runs began.")
