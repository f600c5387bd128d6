"""The Kafka source: its options from the settings, and a quick check that a broker can be reached."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

from lakehouse.errors import SourceError

if TYPE_CHECKING:
    from lakehouse.settings.pipeline import Kafka

    Offsets = dict[str, dict[str, int]]
    """Topic to partition to offset; -2 is a partition's earliest, -1 its latest."""

_CONNECT_SECONDS = 5.0

_API_TIMEOUT, _REQUEST_TIMEOUT = "default.api.timeout.ms", "request.timeout.ms"

_DEFAULTS = {
    # Spark asks three times, so a broker that never answers costs three of these. Kafka's own default is 60 s.
    _API_TIMEOUT: "30000",
    # Kafka's default of 500 means a call into the consumer for every 500 records.
    "max.poll.records": "5000",
    # At a partition's end, Spark's request for its bounds waits for the fetch in progress: half a second by default.
    "fetch.max.wait.ms": "20",
}
"""Client properties that the settings may override."""


def reader_options(kafka: Kafka, start: str | Offsets = "earliest") -> dict[str, str]:
    """Return the options of Spark's Kafka source, with secrets in plain text. Without a checkpoint it begins at `start`."""
    client = {**_DEFAULTS, **kafka.client_properties(), "isolation.level": "read_committed"}
    if _REQUEST_TIMEOUT in kafka.properties and _API_TIMEOUT not in kafka.properties:
        del client[_API_TIMEOUT]  # it must not be less than the request timeout, or the client refuses both
    options = {
        **{f"kafka.{name}": value for name, value in client.items()},
        "subscribe": ",".join(kafka.topics),
        "startingOffsets": start if isinstance(start, str) else json.dumps(start),
        "includeHeaders": "true",
        "failOnDataLoss": "true",
    }
    if kafka.max_offsets_per_trigger is not None:
        options["maxOffsetsPerTrigger"] = str(kafka.max_offsets_per_trigger)
    return options


def require_reachable(bootstrap_servers: str) -> None:
    """Raise a `SourceError` unless a server accepts a connection within 5 s: the Kafka client would retry for minutes."""
    refusals = []
    for server in bootstrap_servers.split(","):
        host, port = _address(server)
        try:
            socket.create_connection((host, port), timeout=_CONNECT_SECONDS).close()
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


def _address(server: str) -> tuple[str, int]:
    host, _, port = server.strip().rpartition("://")[2].rpartition(":")
    return host.strip("[]"), int(port)


def _reason(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return "the name is unknown"
    if isinstance(error, TimeoutError):
        return "no answer"
    return error.strerror or str(error)
