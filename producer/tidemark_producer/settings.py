"""The client's settings: those that keep order are set, and a setting that breaks it is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidemark_producer.records import UnsafeSetting

_ENDLESS = 2**31 - 1
_MOST_IN_FLIGHT = 5
_TRUE = {"true", "t", "1"}
_PARTITIONER = "murmur2_random"

_ALIASES = {
    "request.required.acks": "acks",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.send.max.retries": "retries",
    "delivery.timeout.ms": "message.timeout.ms",
}
_PULSAR_AND_KAFKA = '"Testing Producer Deduplication in Apache Kafka and Apache Pulsar"'
_ACKS = (
    "a leader that dies then takes records along that were reported as sent. Leave it out: idempotence needs acks=all "
    '("Idempotent Producers: Eliminating Duplicate Messages").'
)
_IDEMPOTENCE = (
    f"in {_PULSAR_AND_KAFKA} all 50 runs with a killed leader had records out of order without it, and 33 of them duplicates; "
    "with it none had any. Leave it out, or set max.in.flight to 1 beside it."
)
_IN_FLIGHT = "with more than 5 requests in flight a broker no longer recognises a repeated one. Leave it out."
_RETRIES = "a delivery that is not tried again fails, and leaves a gap in the numbers. Leave it out: the client tries for ever."
_TIMEOUT = (
    "a record that times out leaves a gap, and what is behind it is delivered; sent again, it is late. Leave it out, and limit "
    "how long you wait: `send`, `flush`, `close` and the future's `result` have a timeout."
)
_REPORTS = "without a report for each record nobody knows which ones Kafka has. Leave it out."
_GAPLESS = "what follows a refused record is then delivered, and the record itself is late when it is sent again. Leave it out."
_LIFO = "the last record is then sent first, so numbers fall. Leave it out."
_RANDOM = (
    "a record that is sent again then gets into another partition, where nobody knows it. Leave it out, or take murmur2_random."
)


def checked(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings for a client; raise an `UnsafeSetting` if one breaks the order or loses records."""
    given = {**config.get("default.topic.config", {}), **config}
    named = {_ALIASES.get(name, name): value for name, value in given.items()}
    is_idempotent = _text(named.get("enable.idempotence", True)) in _TRUE
    is_transactional = "transactional.id" in named
    for name, value in given.items():
        why = _why_unsafe(_ALIASES.get(name, name), _text(value), is_transactional=is_transactional)
        if why is not None:
            raise UnsafeSetting(name, value, why)
    if not is_idempotent and _text(named.get("max.in.flight.requests.per.connection")) != "1":
        raise UnsafeSetting("enable.idempotence", named["enable.idempotence"], _IDEMPOTENCE)
    # Errors only: librdkafka warns of each setting that it calls experimental, as the one below.
    made = {"log_level": 3, "partitioner": _PARTITIONER, "enable.idempotence": True, "acks": "all"}
    if not is_transactional:
        made["message.timeout.ms"] = 0
        if is_idempotent:  # after a refused batch librdkafka drops what is behind it, instead of delivering it
            made["enable.gapless.guarantee"] = True
    return {**made, **config}


def drawn_keys(config: Mapping[str, Any]) -> tuple[bytes | None, ...]:
    """Return the keys of records that go to a random partition if none is given."""
    partitioner = _text(config["partitioner"])
    if partitioner == "consistent_random":
        return None, b""
    return (None,) if partitioner.endswith("_random") else ()


def _text(value: object) -> str:
    return str(value).strip().lower()


def _why_unsafe(name: str, value: str, *, is_transactional: bool) -> str | None:
    number = int(value) if value.lstrip("-").isdecimal() else None
    found = {
        "acks": (value not in {"all", "-1"}, _ACKS),
        "max.in.flight.requests.per.connection": (number is not None and number > _MOST_IN_FLIGHT, _IN_FLIGHT),
        "retries": (number is not None and number < _ENDLESS, _RETRIES),
        # In a transaction a record that times out ends the whole transaction.
        "message.timeout.ms": (number != 0 and not is_transactional, _TIMEOUT),
        "delivery.report.only.error": (value in _TRUE, _REPORTS),
        "enable.gapless.guarantee": (value not in _TRUE, _GAPLESS),
        "queuing.strategy": (value == "lifo", _LIFO),
        "partitioner": (value == "random", _RANDOM),
    }
    is_unsafe, why = found.get(name, (False, ""))
    return why if is_unsafe else None
