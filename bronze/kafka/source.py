"""The Kafka source: its options from the settings, and a quick check that a broker can be reached."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakehouse.errors import SourceError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.extract.sources import Sources
    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Kafka

    Offsets = dict[str, dict[int, int]]
    """Topic to partition to offset; -2 is a partition's earliest, -1 its latest."""
    Ranges = Mapping[tuple[str, int], tuple[int, int]]
    """(topic, partition) to the first offset and the one after the last."""

_CONNECT_SECONDS = 5.0
_API_TIMEOUT, _REQUEST_TIMEOUT = "default.api.timeout.ms", "request.timeout.ms"
_DEFAULTS = {  # client properties that the settings may override
    # Spark asks three times, so a broker that never answers costs three of these. Kafka's own default is 60 s.
    _API_TIMEOUT: "30000",
    # Kafka's default of 500 means a call into the consumer for every 500 records.
    "max.poll.records": "5000",
    # At a partition's end, Spark's request for its bounds waits for the fetch in progress: half a second by default.
    "fetch.max.wait.ms": "20",
}


@dataclass(frozen=True)
class Ingest:
    """What one ingest reads and writes: the topics of the settings, or those of them that can be read."""

    spark: SparkSession
    run: Run
    kafka: Kafka
    sources: Sources | None = None

    def of_topics(self, *topics: str) -> Ingest:
        """Return the ingest of these topics only."""
        start = self.kafka.starting_offsets
        own = {name: start[name] for name in topics} if isinstance(start, dict) else start
        return replace(self, kafka=self.kafka.model_copy(update={"topics": topics, "starting_offsets": own}))


def java_properties(kafka: Kafka) -> dict[str, str]:
    """Return the properties of a Java client that reads as Spark does, with secrets in plain text."""
    client = {**_DEFAULTS, **kafka.client_properties(), "isolation.level": "read_committed"}
    if _REQUEST_TIMEOUT in kafka.properties and _API_TIMEOUT not in kafka.properties:
        del client[_API_TIMEOUT]  # it must not be less than the request timeout, or the client refuses both
    return client


def reader_options(kafka: Kafka, start: str | Mapping[str, Mapping[Any, int]] = "earliest") -> dict[str, str]:
    """Return the options of Spark's Kafka source, with secrets in plain text. Without a checkpoint it begins at `start`."""
    options = {
        **{f"kafka.{name}": value for name, value in java_properties(kafka).items()},
        "subscribe": ",".join(kafka.topics),
        "startingOffsets": start if isinstance(start, str) else json.dumps(start),
        "includeHeaders": "true",
        "failOnDataLoss": "true",
    }
    if kafka.max_offsets_per_trigger is not None:
        options["maxOffsetsPerTrigger"] = str(kafka.max_offsets_per_trigger)
    return options


def range_options(kafka: Kafka, ranges: Ranges) -> dict[str, str]:
    """Return the options of a batch read of offset ranges, with secrets in plain text."""
    named: dict[str, list[int]] = {}
    bounds_of: tuple[Offsets, Offsets] = ({}, {})
    for (name, partition), span in ranges.items():
        named.setdefault(name, []).append(partition)
        for offsets, offset in zip(bounds_of, span, strict=True):
            offsets.setdefault(name, {})[partition] = offset
    options = reader_options(kafka, bounds_of[0])
    for other in ("subscribe", "maxOffsetsPerTrigger"):
        options.pop(other, None)
    return {**options, "assign": json.dumps(named), "endingOffsets": json.dumps(bounds_of[1])}


def require_reachable(bootstrap_servers: str) -> None:
    """Raise a `SourceError` unless a server accepts a connection within 5 s: the Kafka client would retry for minutes."""
    refusals = []
    for server in bootstrap_servers.split(","):
        host, _, port = server.strip().rpartition("://")[2].rpartition(":")
        host = host.strip("[]")
        try:
            socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
        except OSError as error:
            refusals.append(f"{host}:{port}: {_reason(error)}")
        else:
            return
    raise SourceError(
        "No Kafka broker answers.",
        where=bootstrap_servers,
        observed="; ".join(refusals),
        expected=f"an open port within {_CONNECT_SECONDS:.0f} s",
        next_step="Check kafka.bootstrap_servers, that the broker runs, and that it can be reached from here (firewall, VPN).",
    )


def _reason(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return "the name is unknown"
    if isinstance(error, TimeoutError):
        return "no answer"
    return error.strerror or str(error)
