"""One record read on the driver, by the rules that Spark reads millions with: for explaining it, not for deciding it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse.contracts.silver import UNDECODABLE
from lakehouse.extract import on_driver
from lakehouse.extract.written import without_prefix
from lakehouse.settings import payload_schema
from lakehouse.settings.extractor import ROLES
from silver.extract import json_misfit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from silver.rules import Rules


def key(rules: Rules, record: Mapping[str, Any]) -> tuple[str | None, int | None, int | None]:
    """Producer, epoch and sequence of a record; None for what cannot be read, or only by Spark: a function's, a value's field.

    Args:
        rules: The rules of the load that decided it.
        record: The Bronze record; one of a version before 0.2 lacks what was extracted at ingest. Of an invalid one Bronze
            has neither epoch nor sequence, also where one of the two can be read: they are read from its bytes.

    >>> from lakehouse.extract.sources import Source
    >>> from silver.rules import Rules
    >>> key(Rules(Source("json", "$.m.seq"), epoch=Source("header", "e")), {
    ...     "topic": "t", "value": b'{"m": {"seq": 7}}', "headers": [{"key": "e", "value": b"2"}]})
    (None, 2, 7)
    """
    if erased := record.get("erased"):
        return erased["producer"], erased["epoch"], erased["sequence"]
    rules = rules.of_topic(record["topic"])
    if record.get("rules_fingerprint") == rules.fingerprint and record["problem"] is None:
        return record["producer"], record["epoch"], record["sequence"]
    headers = [(header["key"], header["value"]) for header in record.get("headers") or []]
    found = on_driver.Record(record.get("value"), headers, record.get("offset") or 0)
    producer = on_driver.name(rules.producer, found)[0] if rules.producer else None
    epoch = on_driver.number(rules.epoch, found)[0] if rules.epoch else 0
    return producer, epoch, on_driver.number(rules.sequence, found)[0]


def misfit(rules: Rules, record: Mapping[str, Any], reason: str | None) -> str | None:
    """What is wrong with a record's JSON value; None if nothing is seen, or if the reason has another cause.

    Args:
        rules: The rules of the load that decided it.
        record: The Bronze record.
        reason: Why it is invalid; None for one whose value was accepted as undecodable.

    Returns:
        The field that is not of its type; or what the value is, if a sequence, producer or epoch could not be read from it.

    >>> from lakehouse.extract.sources import Source
    >>> from silver.rules import Payload, Rules
    >>> rules = Rules(Source("json", "$.seq"), payload=Payload("json", "id DATE"))
    >>> misfit(rules, {"topic": "t", "value": b"[1]"}, "sequence_missing")
    'the value: a list, where an object is wanted'
    >>> misfit(rules, {"topic": "t", "value": b'{"id": 1}'}, "value_undecodable")
    'id: a whole number, where DATE is wanted'
    >>> misfit(rules, {"topic": "t", "value": b'{"id": 1}'}, "sequence_missing")
    """
    rules, value = rules.of_topic(record["topic"]), record.get("value")
    if value is None:
        return None
    role, _, problem = (reason or UNDECODABLE).partition("_")
    if role in ROLES:
        source = rules.sources.by_role.get(role)
        return None if source is None else json_misfit.unread(source, problem, value)
    if rules.payload is None or rules.payload.format != "json":
        return None
    body = without_prefix(value) if rules.written else value
    return None if body is None else json_misfit.misfit(body, payload_schema.of(rules.payload.schema))
