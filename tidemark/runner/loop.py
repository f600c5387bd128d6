"""`tidemark run --every`: run after run in one session, until a signal arrives."""

from __future__ import annotations

import contextlib
import gc
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from lakehouse.errors import AnotherWriterError, GateFailedError, TopicsSkippedError
from tidemark.runner.minutes import Minutes
from tidemark.runner.once import run_once
from tidemark.runner.summary import STAGES

if TYPE_CHECKING:
    from types import FrameType

    from lakehouse.run.context import Report
    from lakehouse.settings.pipeline import Settings
    from pipelines.job import Job

_LOOK_SECONDS = 0.5
"""How often the loop asks Kafka for new records while it waits."""


class StopRequestedError(Exception):
    """A run ended between two stages because the loop ends."""


class StoppableReport:
    """Forwards a run's events. Once `stop` is set, it ends the run between two stages, where nothing is half done."""

    def __init__(self, report: Report, stop: threading.Event) -> None:
        self._report = report
        self._stop = stop
        self._stage: str | None = None

    def event(self, name: str, **fields: object) -> None:
        """Forward an event. Raises StopRequestedError at the first event of another stage if `stop` is set."""
        stage = name.partition(".")[0]
        if stage in STAGES and stage != self._stage:
            if self._stop.is_set() and self._stage is not None:
                raise StopRequestedError
            self._stage = stage
        self._report.event(name, **fields)


def run_every(
    job: Job,
    *,
    seconds: float,
    stage: str | None = None,
    on_result: Callable[[dict[str, Any]], None] = lambda _: None,
    on_failure: Callable[[dict[str, Any]], None] = lambda _: None,
    on_minute: Callable[[dict[str, Any]], None] | None = None,
) -> int:
    """Run the pipeline again when Kafka has new records, and at the latest `seconds` after the last start.

    A single stage, and a run after one that failed, waits for `seconds`. If the last run took longer, the next starts at once.

    `on_result` gets the result of each successful run, `on_failure` that of the others, `on_minute` the sums of `Minutes`.
    Another writer, a failed gate or a skipped topic does not end the loop; any other TidemarkError does. Returns 130 after
    Ctrl-C, 143 after SIGTERM.
    """
    _ = job.spark  # the session sets signal handlers as it starts: ours must come after them
    with _stop_on_signals() as stop:
        minutes = Minutes(job, on_minute)
        ends_in_kafka = _ask_for_ends(job.settings) if stage is None else _know_no_ends
        while not stop.is_set():
            started, ends, has_failed = time.monotonic(), ends_in_kafka(), True
            with contextlib.suppress(AnotherWriterError, GateFailedError, TopicsSkippedError, StopRequestedError):
                telling = job.telling(StoppableReport(minutes, stop))
                on_result(run_once(telling, stage=stage, on_failure=on_failure))
                has_failed = False
            minutes.end_run(time.monotonic() - started)
            if not gc.get_freeze_count():  # the collections before later runs then skip the modules that are loaded now
                gc.collect()
                gc.freeze()
            while not stop.is_set() and (left := started + seconds - time.monotonic()) > 0:
                if not has_failed and ends_in_kafka() != ends:
                    break
                stop.wait(min(left, _LOOK_SECONDS))
    job.report.event("run.stopped", exit_code=stop.exit_code)
    return stop.exit_code


def _ask_for_ends(settings: Settings) -> Callable[[], object]:
    """Return a function that asks Kafka where the partitions end. It returns None if this machine cannot ask."""
    from pyspark.sql.utils import is_remote

    from bronze.kafka import metadata

    if is_remote():  # the server must reach Kafka, not this machine
        return _know_no_ends
    try:
        client = metadata.client(settings.kafka)
    except metadata.LoginError:
        return _know_no_ends

    def ask() -> object:
        with contextlib.suppress(metadata.LookError):
            topics = client.describe(list(settings.kafka.topics))
            return {
                name: client.offsets(name, list(seen.partitions), metadata.LATEST, is_committed=True)
                for name, seen in topics.items()
            }
        return None

    return ask


def _know_no_ends() -> None:
    return None


class _Stop(threading.Event):
    """Set when the loop ends, with the exit code of the signal."""

    exit_code = 0


@contextlib.contextmanager
def _stop_on_signals() -> Iterator[_Stop]:
    """Yield an event that the first Ctrl-C or SIGTERM sets; a second one ends the process."""
    stop = _Stop()
    former = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def ask(signalled: int, _frame: FrameType | None) -> None:
        stop.exit_code = 128 + signalled
        stop.set()
        for number, handler in former.items():
            signal.signal(number, handler)

    for number in former:
        signal.signal(number, ask)
    try:
        yield stop
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
