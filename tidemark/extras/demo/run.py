"""`tidemark demo`: run the pipeline twice on a real local Kafka broker, and compare the tables with what was sent."""

from __future__ import annotations

import contextlib
import multiprocessing
import shlex
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse.contracts.silver import ACCEPTED, DUPLICATE, INVALID
from lakehouse.errors import TidemarkError, UsageError
from lakehouse.table import GOLD_RECORDS, SILVER_RECORDS, Lakehouse
from pipelines.job import Job
from tidemark.extras.demo.broker import LocalBroker
from tidemark.extras.demo.producer import EVENTS_HEADER, EVENTS_SCHEMA, INCIDENTS_SCHEMA, expected, send_events, send_incidents
from tidemark.extras.demo.producer import EVENTS_TOPIC as EVENTS
from tidemark.extras.demo.producer import INCIDENTS_TOPIC as INCIDENTS
from tidemark.process import output
from tidemark.process.context import open_session, reporting
from tidemark.readers import database, files
from tidemark.readers.status import status
from tidemark.runner.once import run_once
from tidemark.runner.summary import STAGES

if TYPE_CHECKING:
    from concurrent.futures import Future

    from lakehouse.run.context import Report
    from lakehouse.settings.pipeline import Settings
    from tidemark.extras.demo.producer import Sent

_KEPT_INCIDENTS = """
    SELECT key::VARCHAR AS incident, list(payload.id ORDER BY "offset") AS ids, list(payload.data ORDER BY "offset") AS data
    FROM gold_records GROUP BY incident ORDER BY incident
"""

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
    TidemarkError if a run fails, or the tables do not hold what was sent; the error names each difference.
    """
    folder = _folder(into)
    sent = expected(records)
    with reporting() as report:
        settings, first, second = _run_twice(folder, records, report)
    differences: list[str] = []
    _compare_incidents(Lakehouse.of(settings[INCIDENTS]), sent, differences)
    _compare_events(Lakehouse.of(settings[EVENTS]), sent, differences)
    _compare_second_run(first, second, differences)
    _say_what_next(folder)
    if differences:
        raise TidemarkError(
            "The tables do not hold what was sent.",
            where=str(folder),
            observed="; ".join(differences),
            next_step="This is a fault of Tidemark: please report it with the folder's _reports.",
        )


def _run_twice(
    folder: Path, records: int, report: Report
) -> tuple[dict[str, Settings], dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    report.event("broker.starting")
    with LocalBroker() as broker:
        servers = broker.bootstrap_servers
        report.event("broker.finished", listening_on=servers)
        with _sending(servers, records, report) as sending:
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


def _expect(differences: list[str], what: str, *, observed: Any, expected: Any) -> None:
    if observed != expected:
        differences.append(f"{what}: {observed}, not {expected}")


def _compare_incidents(lakehouse: Lakehouse, sent: Sent, differences: list[str]) -> None:
    """Print the article's incidents as Gold holds them: every id once, in the order of each incident."""
    totals = status("incidents", lakehouse)["totals"]
    kept = _rows(lakehouse, _KEPT_INCIDENTS)
    output.write(f"The article's example: {totals['records']} records arrived, {totals[ACCEPTED]} were kept.")
    rows = [(row["incident"], ", ".join(map(str, row["ids"])), ", ".join(row["data"])) for row in kept]
    output.write_table(["incident", "id", "data"], rows)
    _expect(differences, "records of the example", observed=totals["records"], expected=sent.incident_records)
    _expect(differences, "ids by incident", observed={row["incident"]: row["ids"] for row in kept}, expected=sent.incidents)
    _check_tables(lakehouse, totals[ACCEPTED], differences)


def _compare_events(lakehouse: Lakehouse, sent: Sent, differences: list[str]) -> None:
    """Print the long stream: classes next to what was sent, watermarks, the gate's verdict, and the tables' row counts."""
    state = status("events", lakehouse)
    totals, expected = state["totals"], Counter(sent.classes)
    rows = [
        ("new", expected[ACCEPTED], ACCEPTED, totals[ACCEPTED]),
        ("again", expected[DUPLICATE], DUPLICATE, totals[DUPLICATE]),
        ("bad", expected[INVALID], INVALID, totals[INVALID]),
        ("in all", expected.total(), "in all", totals["records"]),
    ]
    output.write(f"\nA stream of {totals['records']:,} records over {len(sent.high_watermarks)} partitions.")
    output.write_table(["sent", "records", "ended as", "records in the tables"], rows)
    for label, count, name, observed in rows:
        _expect(differences, f"records sent {label} that ended as {name}", observed=observed, expected=count)
    output.write_rows(state["streams"], ("topic", "partition", "high_watermark", "last_offset"), title="Watermarks")
    watermarks = {stream["partition"]: stream["high_watermark"] for stream in state["streams"]}
    _expect(differences, "watermarks by partition", observed=watermarks, expected=sent.high_watermarks)
    gate = state["gate"]
    verdict = "passed" if gate["passed"] else "FAILED"
    output.write(f"\nGate: {verdict}; {gate['expectations']} expectations, {len(gate['unmet'])} not met.")
    _expect(differences, "the gate passed", observed=gate["passed"], expected=True)
    _check_tables(lakehouse, totals[ACCEPTED], differences)


def _compare_second_run(first: Mapping[str, Any], second: Mapping[str, Any], differences: list[str]) -> None:
    """Print what the second run of each pipeline did: nothing, since Kafka had nothing new."""
    output.write("\nThe same again, with nothing new in Kafka:")
    columns = ["pipeline", "run", "read from Kafka", "accepted", "published", "seconds"]
    rows = []
    for name in first:
        for label, result in (("first", first[name]), ("second", second[name])):
            counted = (("bronze", "records"), ("silver", ACCEPTED), ("gold", "records"))
            counts = [result[stage][count] for stage, count in counted]
            rows.append([name, label, *counts, result["seconds"]])
            if label == "second":
                _expect(differences, f"records of the second run of {name}", observed=counts, expected=[0, 0, 0])
    output.write_table(columns, rows)


def _check_tables(lakehouse: Lakehouse, accepted: int, differences: list[str]) -> None:
    """Print every table with its row count and folder; Silver and Gold must hold what was accepted."""
    folders = files.tables(lakehouse)
    rows = {name: _rows(lakehouse, f'SELECT count(*) AS "rows" FROM "{name}"')[0]["rows"] for name in folders}  # noqa: S608 -- our tables
    names = sorted(folders, key=lambda name: (STAGES.index(name.partition("_")[0]), name))
    output.write_table(["table", "rows", "folder"], [(name, rows[name], str(folders[name])) for name in names], title="Tables")
    for name in (SILVER_RECORDS, GOLD_RECORDS):
        _expect(differences, f"rows of {name}", observed=rows.get(name), expected=accepted)


def _rows(lakehouse: Lakehouse, sql: str) -> list[dict[str, Any]]:
    with database.run_query(lakehouse, sql) as found:
        return [dict(zip(found.columns, row, strict=True)) for row in found.rows]
