"""`tidemark demo`: run the pipeline twice on a real local Kafka broker, and compare the tables with what was sent."""

from __future__ import annotations

import contextlib
import multiprocessing
import shlex
import signal
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse.errors import TidemarkError, UsageError
from lakehouse.table import Lakehouse
from pipelines.job import Job
from tidemark.extras.demo.check import Findings, compare_events, compare_incidents, compare_second_run
from tidemark.extras.demo.events import EVENTS_HEADER, EVENTS_SCHEMA, EVENTS_TOPIC
from tidemark.extras.demo.producer import INCIDENTS_SCHEMA, INCIDENTS_TOPIC, expected, send_events, send_incidents
from tidemark.process import output
from tidemark.process.context import open_session, reporting
from tidemark.runner.once import run_once

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

    from lakehouse.run.context import Report
    from lakehouse.settings.pipeline import Settings

INCIDENTS, EVENTS = INCIDENTS_TOPIC, EVENTS_TOPIC

# Two pipelines, each with its own lakehouse: they read the sequence from different places, and a table holds one meaning of it.
_CONFIGS = {
    INCIDENTS: f"""\
# The article's example: the id in the value is the sequence.
pipeline: {INCIDENTS}
kafka: {{bootstrap_servers: "<servers>", topics: [{INCIDENTS}]}}
lakehouse: {{root: ./{INCIDENTS}}}
sequence: {{json: $.id}}
value: {{format: json, schema: "{INCIDENTS_SCHEMA}"}}
""",
    EVENTS: f"""\
# Many records over many partitions: the sequence is a header.
pipeline: {EVENTS}
kafka: {{bootstrap_servers: "<servers>", topics: [{EVENTS}]}}
lakehouse: {{root: ./{EVENTS}}}
sequence: {{header: {EVENTS_HEADER}}}
value: {{format: json, schema: "{EVENTS_SCHEMA}"}}
""",
}


def run_demo(into: Path | None = None, *, records: int = 200_000) -> None:
    """Start a broker, send records, run both pipelines twice, and print what their tables hold next to what was sent.

    The broker is always stopped; tables and configs stay in `into`, which must be empty or new, by default a temporary folder.

    Raises:
        UsageError: The folder is not empty.
        ToolError: Java or the jars are missing, or the broker does not start.
        TidemarkError: A run failed, or the tables do not hold what was sent; the error names each difference.
    """
    folder = _folder(into)
    sent = expected(records)
    with reporting() as report:
        settings, first, second = _run_twice(folder, records, report)
    found = Findings()
    compare_incidents(Lakehouse.of(settings[INCIDENTS]), sent, found)
    compare_events(Lakehouse.of(settings[EVENTS]), sent, found)
    compare_second_run(first, second, found)
    _say_what_next(folder)
    if found.differences:
        raise TidemarkError(
            "The tables do not hold what was sent.",
            where=str(folder),
            observed="; ".join(found.differences),
            next_step="This is a fault of Tidemark: please report it with the folder's _reports.",
        )


def _run_twice(
    folder: Path, records: int, report: Report
) -> tuple[dict[str, Settings], dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    with _broker(report) as servers, _sending(servers, records, report) as sending:
        settings = {name: _settings(folder, name, servers) for name in _CONFIGS}
        spark = open_session(Lakehouse.of(settings[INCIDENTS]), report, "tidemark demo")
        jobs = {name: Job.on(spark, each, report) for name, each in settings.items()}
        first = {}
        for name in (INCIDENTS, EVENTS):
            report.event("producers.finished", stream=name, records=sending[name].result())
            first[name] = run_once(jobs[name])
        second = {name: run_once(job) for name, job in jobs.items()}
    return settings, first, second


def _folder(into: Path | None) -> Path:
    if into is None:
        return Path(tempfile.mkdtemp(prefix="tidemark-demo-"))
    folder = into.absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            "The demo starts with an empty folder: what is there belongs to another broker's topics.",
            where=str(folder),
            observed="a folder that is not empty" if folder.is_dir() else "a file",
            expected="an empty folder, or none",
            next_step="Name another one with --into, or leave --into out for a temporary one.",
        )
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def _broker(report: Report) -> Iterator[str]:
    from bronze.dev_broker.broker import LocalBroker

    report.event("broker.starting")
    with LocalBroker() as broker:
        report.event("broker.finished", listening_on=broker.bootstrap_servers)
        yield broker.bootstrap_servers


@contextlib.contextmanager
def _sending(servers: str, records: int, report: Report) -> Iterator[dict[str, Future[int]]]:
    """Send from a separate process, first the incidents; yield the number of records per stream as futures."""
    report.event("producers.starting")
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _leave_interrupts_to_the_demo) as producers:
        try:
            yield {
                INCIDENTS: producers.submit(send_incidents, servers),
                EVENTS: producers.submit(send_events, servers, records),
            }
        except BaseException:
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _leave_interrupts_to_the_demo() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _settings(folder: Path, name: str, servers: str) -> Settings:
    from lakehouse.config import load as configs

    file = folder / f"{name}.yml"
    file.write_text(_CONFIGS[name].replace("<servers>", servers), encoding="utf-8")
    # Without the user's TIDEMARK_ variables: they are meant for another pipeline.
    return configs.load(file, environ={})


def _say_what_next(folder: Path) -> None:
    events, incidents = (f"--config {shlex.quote(str(folder / name))}.yml" for name in (EVENTS, INCIDENTS))
    rejects = "SELECT class, reason, sum(records) FROM silver_rejects GROUP BY ALL"
    latest = "SELECT key, payload.id FROM gold_latest"
    output.write(f"\nTables, configs and reports stay in {folder}. The broker has ended. Try next:")
    output.write(f"  tidemark status {events}")
    output.write(f"  tidemark sql {events} '{rejects}'")
    output.write(f"  tidemark sql {incidents} --json '{latest}'")
    output.write(f"  tidemark config show {events}")
