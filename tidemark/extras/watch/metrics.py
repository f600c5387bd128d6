"""Prometheus metrics of a pipeline: what each means, a file of them, and a port that serves them.

The config bounds all labels: topics, partitions, classes, stages. A producer is never a label.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from lakehouse import __version__
from lakehouse.contracts.gate import CRITICAL, WARN
from lakehouse.contracts.gold import UNMET
from lakehouse.contracts.silver import CLASSES, HELD, QUARANTINED
from lakehouse.escape import printable
from tidemark.process.output import whole
from tidemark.readers.lag import partitions_in_kafka

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from lakehouse.run.context import Report
    from tidemark.extras.watch.state import State

Sample = tuple[str, tuple[str, ...], float | int | bool | None]
"""A metric's name, its label values and its value; None leaves it out."""


class Meaning(NamedTuple):
    """A metric's description with its unit, its labels besides the pipeline, and whether it only rises, except by a restore."""

    help: str
    labels: tuple[str, ...] = ()
    is_counter: bool = False


_OF_PARTITION = ("topic", "partition")

METRICS = {
    "tidemark_build_info": Meaning("The version that wrote this; always 1.", ("version",)),
    "tidemark_last_run_timestamp_seconds": Meaning("When the last run ended, in seconds since 1970."),
    "tidemark_last_run_exit_code": Meaning("Exit code of the last run: 0 done, 3 the gate failed, 5 the breaker opened."),
    "tidemark_last_run_duration_seconds": Meaning("How long the last run took."),
    "tidemark_last_success_timestamp_seconds": Meaning("When a stage came to its end last, since 1970.", ("stage",)),
    "tidemark_stage_duration_seconds": Meaning("How long a stage took when it came to its end last.", ("stage",)),
    "tidemark_skipped_topics": Meaning("Topics that the last run of Bronze could not read, and skipped."),
    "tidemark_last_load_records": Meaning("Bronze records by class, of the last run of Silver.", ("class",)),
    "tidemark_last_load": Meaning("Number of the last load that Silver finished."),
    "tidemark_published_load": Meaning("Number of the last load that Gold has."),
    "tidemark_freshness_seconds": Meaning(
        "From Kafka's timestamp to Gold, in the last minute of `run --every`.", ("percentile",)
    ),
    "tidemark_breaker_open": Meaning("Whether the breaker stopped the last load: 1 it did."),
    "tidemark_gate_passed": Meaning("Whether the last gate run let its loads out: 1 it did."),
    "tidemark_gate_unmet_expectations": Meaning("Expectations that the last gate run found not met.", ("severity",)),
    "tidemark_records_total": Meaning("Bronze records by the class that they ended in.", ("class",), is_counter=True),
    "tidemark_held_records": Meaning("Records in quarantine that wait for a decision.", ("class",)),
    "tidemark_high_watermark": Meaning("Highest accepted sequence, of the partition's highest producer.", _OF_PARTITION),
    "tidemark_last_offset": Meaning("Last Kafka offset that Silver decided, inclusive.", _OF_PARTITION),
    "tidemark_lag_offsets": Meaning("Offsets of Kafka that Silver has not decided.", _OF_PARTITION),
}
"""Every metric by name, in the order of the documentation. All have the label `pipeline`."""


class _Shown(Collector):
    """The metrics as of the last run that ended in this process."""

    def __init__(self) -> None:
        self.families: list[Metric] = []

    def collect(self) -> Iterable[Metric]:
        return self.families


freshness: dict[str, float] = {}
"""Seconds by percentile, in the loop's last minute."""
_SHOWN = _Shown()
_REGISTRY = CollectorRegistry()
_REGISTRY.register(_SHOWN)


def of_runs(state: State) -> Iterator[Sample]:
    """Yield samples from the state that the runs left."""
    yield "tidemark_build_info", (__version__,), 1
    if state.ended_at is None:
        return
    yield "tidemark_last_run_timestamp_seconds", (), state.ended_at.timestamp()
    yield "tidemark_last_run_exit_code", (), state.exit_code
    yield "tidemark_last_run_duration_seconds", (), state.seconds
    for name, stage in state.stages.items():
        yield "tidemark_last_success_timestamp_seconds", (name,), stage.ended_at.timestamp()
        yield "tidemark_stage_duration_seconds", (name,), stage.seconds
    yield "tidemark_skipped_topics", (), state.skipped_topics
    for name, records in state.classes.items():
        yield "tidemark_last_load_records", (name,), records
    yield "tidemark_last_load", (), state.load_seq
    yield "tidemark_published_load", (), state.published_load_seq
    for percentile, seconds in freshness.items():
        yield "tidemark_freshness_seconds", (percentile,), seconds
    yield "tidemark_breaker_open", (), state.is_breaker_open
    if state.gate_unmet is not None:
        yield "tidemark_gate_passed", (), not state.gate_unmet.get(CRITICAL)
        for severity, count in state.gate_unmet.items():
            yield "tidemark_gate_unmet_expectations", (severity,), count


def of_tables(found: Mapping[str, Any]) -> Iterator[Sample]:
    """Yield samples from a status, or from the parts that could be read."""
    totals, last, published = found.get("totals"), found.get("last_load"), found.get("published")
    if totals and last:
        for name in CLASSES:
            yield "tidemark_records_total", (name,), totals[name]
        # The last claimed load may not be finished.
        yield "tidemark_last_load", (), max((row["load_seq"] for row in found["partitions"]), default=0)
        held = {row["class"]: row["records"] for row in found["rejects"] if row["state"] == HELD}
        for name in QUARANTINED:
            yield "tidemark_held_records", (name,), held.get(name, 0)
    if aside := found.get("kept_aside"):
        yield "tidemark_held_records", (UNMET,), sum(row["records"] for row in aside if row["state"] == HELD)
    yield "tidemark_published_load", (), published["load_seq"] if published else None
    if gate := found.get("gate"):
        yield "tidemark_gate_passed", (), gate["passed"]
        for severity in (CRITICAL, WARN):
            unmet = sum(each["severity"] == severity for each in gate["unmet"])
            yield "tidemark_gate_unmet_expectations", (severity,), unmet
    for (topic, partition), position in partitions_in_kafka(found.get("partitions", [])).items():
        yield "tidemark_high_watermark", (topic, str(partition)), position["high_watermark"]
        yield "tidemark_last_offset", (topic, str(partition)), position["last_offset"]


def of_lags(lags: Iterable[Mapping[str, Any]] | None) -> Iterator[Sample]:
    """Yield samples of `tidemark.readers.lag.lags`; none if it is unknown."""
    for row in lags or ():
        yield "tidemark_lag_offsets", (row["topic"], str(row["partition"])), row["lag"]


def show(pipeline: str, samples: Iterable[Sample]) -> None:
    """Replace the metrics that the file and the port show; of a repeated sample, the last one counts."""
    last = {(name, labels): value for name, labels, value in samples if value is not None}
    families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
    for (name, labels), value in last.items():
        meaning = METRICS[name]
        kind = CounterMetricFamily if meaning.is_counter else GaugeMetricFamily
        family = families.setdefault(name, kind(name, meaning.help, labels=["pipeline", *meaning.labels]))
        family.add_metric([printable(label) for label in (pipeline, *labels)], value)
    _SHOWN.families = [families[name] for name in METRICS if name in families]


def write_file(file: str) -> None:
    """Write the current metrics in Prometheus' text format, readable by other users; UsageError if that fails."""
    with whole(Path(file), mode=0o644) as unfinished:
        unfinished.write_bytes(generate_latest(_REGISTRY))


@contextlib.contextmanager
def listening(host: str, port: int, report: Report) -> Iterator[None]:
    """Serve the current metrics on a port; if it cannot be opened, report that and go on without it."""
    try:
        server, thread = start_http_server(port, host, _REGISTRY)
    except OSError as error:
        report.event("watch.metrics_port_failed", host=host, port=port, why=error.strerror)
        yield
        return
    report.event("watch.listening", host=host, port=port)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
