"""Publish metrics and send alerts after a run. A failure here is reported, and does not fail the run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from lakehouse.errors import BreakerOpenError, TidemarkError
from lakehouse.escape import shortened
from lakehouse.run.context import Report, bind
from lakehouse.settings import formats
from lakehouse.table import Lakehouse
from tidemark.process.exit_codes import best_effort, scrub_text
from tidemark.runner.summary import STAGES

if TYPE_CHECKING:
    from lakehouse.settings.pipeline import Alerts, Settings
    from pipelines.job import Job
    from tidemark.extras.watch.alerts import Alert, Finding
    from tidemark.extras.watch.state import State

_LONGEST_DETAILS = 4_000
"""Maximum characters of an alert's details: receivers refuse long bodies."""


class Followed:
    """A report that keeps the results of a run's stages, and forwards every event.

    Attributes:
        bound: The fields bound to the report's events.
        stages: The result of each completed stage.
        audited: What the gate found, see `expectations.gate`; None if it audited nothing.
        started: When the run started, on the clock of `time.monotonic`.
    """

    def __init__(self, report: Report) -> None:
        self.bound: dict[str, object] = {}
        self.stages: dict[str, dict[str, Any]] = {}
        self.audited: dict[str, Any] | None = None
        self.started = time.monotonic()
        self._report = report

    @property
    def done(self) -> dict[str, dict[str, Any]]:
        """The result of each completed stage, and what the gate found if it did not complete."""
        return self.stages if self.audited is None else {"gate": self.audited, **self.stages}

    def event(self, name: str, **fields: object) -> None:
        """Forward an event."""
        bind(self.bound, name, fields)
        stage, _, what = name.partition(".")
        if stage in STAGES and what == "finished":
            self.stages[stage] = fields
        elif name == "gate.audited":
            self.audited = fields
        self._report.event(name, **fields)


@contextlib.contextmanager
def watching(job: Job) -> Iterator[Followed]:
    """Yield the run's report; publish metrics and send alerts when the run ends, but not if it is interrupted."""
    followed = Followed(job.report)
    try:
        yield followed
    except TidemarkError as error:
        _watch(job.telling(followed), followed, error)
        raise
    _watch(job.telling(followed), followed, None)


def keep_freshness(settings: Settings, seconds: dict[str, float]) -> None:
    """Keep the freshness by percentile for the metrics of later runs of this process."""
    if settings.watch.has_metrics:
        formats.load("watch").freshness = seconds


@contextlib.contextmanager
def listening(settings: Settings, report: Report) -> Iterator[None]:
    """Serve the metrics of the last run on `watch.metrics_port`, if the config names one."""
    if settings.watch.metrics_port is None:
        yield
        return
    from tidemark.extras.watch import state as watch_state

    metrics = formats.load("watch")
    with best_effort(report, "watch.state"):
        metrics.show(settings.pipeline, metrics.of_runs(watch_state.read(watch_state.place(settings))))
    with metrics.listening(settings.watch.metrics_host, settings.watch.metrics_port, report):
        yield


def _watch(job: Job, followed: Followed, error: TidemarkError | None) -> None:
    settings = job.settings
    if not settings.watch.is_on:
        return
    from tidemark.extras.watch import state as watch_state

    place, state = None, watch_state.State()
    with best_effort(followed, "watch.state"):
        place = watch_state.place(settings)
        state = watch_state.read(place)
    with best_effort(followed, "watch.state"):
        state = _after(state, followed, error)
    found: dict[str, Any] = {}
    with best_effort(followed, "watch.tables"):
        found = _tables(job)
    lags = None
    with best_effort(followed, "watch.lag"):
        lags = _lags(job, found, followed)
    with best_effort(followed, "watch.metrics"):
        _publish(settings, state, found, lags)
    with best_effort(followed, "watch.alert"):
        _alert(settings, state, _findings(settings, followed, error, lags), followed)
    with best_effort(followed, "watch.state"):
        if place is not None:
            watch_state.write(place, state)


def _after(state: State, followed: Followed, error: TidemarkError | None) -> State:
    """Return the state after a run; what this run did not reach stays unchanged."""
    from lakehouse.contracts.gate import CRITICAL, WARN
    from lakehouse.contracts.silver import CLASSES
    from tidemark.extras.watch.state import Stage

    stages, audited, now = followed.stages, followed.audited, datetime.now(UTC)
    ended = {name: Stage(ended_at=now, seconds=float(done.get("seconds", 0))) for name, done in stages.items()}
    changed: dict[str, Any] = {
        "run_id": str(followed.bound.get("run_id", "")),
        "ended_at": now,
        "seconds": round(time.monotonic() - followed.started, 3),
        "exit_code": error.exit_code if error else 0,
        "stages": state.stages | ended,
    }
    if bronze := stages.get("bronze"):
        changed["skipped_topics"] = len(bronze.get("skipped", ()))
    if silver := stages.get("silver"):
        changed |= {"classes": {name: silver[name] for name in CLASSES}, "is_breaker_open": False}
        changed["load_seq"] = max(silver["loads"], default=state.load_seq)
    if isinstance(error, BreakerOpenError):
        changed["is_breaker_open"] = True
    if audited:
        changed["gate_unmet"] = {CRITICAL: len(audited["failed"]), WARN: len(audited["warned"])}
    if "gold" in stages:
        changed["published_load_seq"] = stages["gold"].get("last_load_seq", state.published_load_seq)
    return state.model_copy(update=changed)


def _tables(job: Job) -> dict[str, Any]:
    """Return the status from the tables; only the partitions' watermarks if Spark is needed."""
    lakehouse = Lakehouse.of(job.settings)
    if lakehouse.is_in_files:
        from tidemark.readers.status import status

        return status(job.settings.pipeline, lakehouse, with_missing=False, most_streams=0)
    from pipelines import medallion

    return {"partitions": medallion.partitions(job)}


def _lags(job: Job, found: dict[str, Any], report: Report) -> list[dict[str, Any]] | None:
    settings = job.settings
    is_wanted = settings.watch.has_metrics or settings.watch.alerts.max_lag is not None
    if not is_wanted or "partitions" not in found:
        return None  # without the watermarks, all that Kafka has would count as behind
    from bronze.kafka.metadata import LookError
    from tidemark.readers.lag import lags_of

    try:
        return lags_of(job, found["partitions"])
    except LookError as error:
        report.event("watch.lag_failed", why=str(error))
        return None


def _publish(settings: Settings, state: State, found: dict[str, Any], lags: list[dict[str, Any]] | None) -> None:
    if not settings.watch.has_metrics:
        return
    metrics = formats.load("watch")
    samples = [*metrics.of_runs(state), *metrics.of_tables(found), *metrics.of_lags(lags)]
    metrics.show(settings.pipeline, samples)
    if settings.watch.metrics_file is not None:
        metrics.write_file(str(settings.watch.metrics_file))


def _findings(
    settings: Settings, followed: Followed, error: TidemarkError | None, lags: list[dict[str, Any]] | None
) -> list[Finding]:
    from tidemark.extras.watch import alerts

    return [
        alerts.of_gate(followed.audited, error, is_finished="gate" in followed.stages),
        alerts.of_breaker(error, is_finished="silver" in followed.stages),
        alerts.of_lag(lags, settings.watch.alerts.max_lag),
        alerts.of_topics(followed.stages.get("bronze")),
    ]


def _alert(settings: Settings, state: State, findings: list[Finding], report: Report) -> None:
    """Send the due alerts, and keep them in the state. One that no channel took is due again after the next run."""
    if not settings.watch.alerts.is_on:
        return
    from tidemark.extras.watch import alerts

    for finding in findings:
        if finding.is_on is False:
            state.alerted.pop(finding.name, None)
    for finding in alerts.due(findings, state.alerted):
        text, details = shortened(scrub_text(finding.text)), shortened(scrub_text(finding.details), _LONGEST_DETAILS)
        alert = alerts.Alert(settings.pipeline, finding.name, text, details, at=datetime.now(UTC), run_id=state.run_id)
        if _send(alert, settings.watch.alerts, report):
            state.alerted[finding.name] = finding.cause


def _send(alert: Alert, chosen: Alerts, report: Report) -> bool:
    """Send an alert by every channel of the config; return whether any took it."""
    from tidemark.extras.watch import channels

    ways: dict[str, Callable[[], None]] = {}
    if chosen.webhook is not None:
        ways["webhook"] = partial(channels.post, alert, chosen.webhook)
    if chosen.mail_command is not None:
        ways["mail_command"] = partial(channels.run_program, alert, chosen.mail_command)
    is_sent = False
    for way, send in ways.items():
        try:
            send()
        except channels.NotSentError as error:
            report.event("watch.alert_failed", alert=alert.alert, way=way, why=str(error))
        else:
            is_sent = True
            report.event("watch.alerted", alert=alert.alert, way=way)
    return is_sent
