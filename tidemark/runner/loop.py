"""`tidemark run --every`: run after run in one session, until a signal arrives."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

from lakehouse.errors import AnotherWriterError, GateFailedError, TopicsSkippedError
from tidemark.runner.once import run_once
from tidemark.runner.summary import STAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from lakehouse.run.context import Report
    from pipelines.job import Job


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
) -> int:
    """Run the pipeline every `seconds`, from start to start; at once if a run took longer.

    `on_result` gets the result of each successful run, `on_failure` that of the others. Another writer, a failed gate or a
    skipped topic does not end the loop; any other TidemarkError does. Returns 130 after Ctrl-C, 143 after SIGTERM.
    """
    _ = job.spark  # the session sets signal handlers as it starts: ours must come after them
    with _stop_on_signals() as stop:
        while not stop.is_set():
            started = time.monotonic()
            with contextlib.suppress(AnotherWriterError, GateFailedError, TopicsSkippedError, StopRequestedError):
                telling = job.telling(StoppableReport(job.report, stop))
                on_result(run_once(telling, stage=stage, on_failure=on_failure))
            stop.wait(max(0.0, seconds - (time.monotonic() - started)))
    job.report.event("run.stopped", exit_code=stop.exit_code)
    return stop.exit_code


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
