"""One record read on the driver, by the rules that Spark reads millions with: for explaining it, not for deciding it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from lakehouse.extract.written import PREFIX_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehouse.extract.sources import Source
    from silver.rules import Rules

_MOST_BYTES = 1_024
_LARGEST = 2**63 - 1
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]|\['([^']*)'\]")


def key(rules: Rules, record: Mapping[str, Any]) -> tuple[str | None, int | None, int | None]:
    """Producer, epoch and sequence of a record; None for what cannot be read, or only by Spark: a function's, an Avro field.

    Args:
        rules: The rules of the load that decided it.
        record: The Bronze record; one of a version before 0.2 lacks what was extracted at ingest. Of an invalid one Bronze
            has neither epoch nor sequence, also where one of the two can be read: they are read from its bytes.

    >>> from lakehouse.extract.sources import Source
    >>> from silver.rules import Rules
    >>> key(Rules(Source("json", "$.m.seq"), epoch=Source("header", "e")), {
    ...     "value": b'{"m": {"seq": 7}}', "headers": [{"key": "e", "value": b"2"}]})
    (None, 2, 7)
    """
    if erased := record.get("erased"):
        return erased["producer"], erased["epoch"], erased["sequence"]
    if record.get("rules_fingerprint") == rules.fingerprint and record["problem"] is None:
        return record["producer"], record["epoch"], record["sequence"]
    producer = _text(rules.producer, record) if rules.producer else None
    epoch = _number(rules.epoch, record) if rules.epoch else 0
    return producer, epoch, _number(rules.sequence, record)


def _text(source: Source, record: Mapping[str, Any]) -> str | None:
    if source.encoding != "utf8":
        number = _number(source, record)
        return None if number is None else str(number)
    raw = _raw(source, record)
    if raw is None or not 1 <= len(raw) <= _MOST_BYTES:
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _number(source: Source, record: Mapping[str, Any]) -> int | None:
    raw = _raw(source, record)
    if raw is None:
        return None
    if source.encoding != "utf8":
        is_whole = len(raw) == (4 if source.encoding == "int32" else 8) and raw[0] < 0x80  # noqa: PLR2004 -- the sign's bit
        return int.from_bytes(raw) if is_whole else None
    number = int(raw) if raw.isdigit() and len(raw) <= _MOST_BYTES else None
    return number if number is not None and number <= _LARGEST else None


def _raw(source: Source, record: Mapping[str, Any]) -> bytes | None:
    value: bytes | None = record.get("value")
    match source.form:
        case "header":
            headers = record.get("headers") or []
            return next((header["value"] for header in headers if header["key"] == source.argument), None)
        case "offset":
            return str(record["offset"]).encode()
        case "value":
            return value
        case "bytes" if value is not None:
            start, end = (int(bound) for bound in source.argument.split(":"))
            return value[start:end]
        case "json" | "prefixed_json" if value is not None:
            return _at_path(value if source.form == "json" else value[PREFIX_BYTES:], source.argument)
        case _:
            return None


def _at_path(value: bytes, path: str) -> bytes | None:
    try:
        found = json.loads(value.decode(errors="replace"), parse_int=str, parse_float=str)
        for name, index, quoted in _STEP.findall(path):
            found = found[int(index)] if index else found[name or quoted]
        return None if found is None else str(found).encode()
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return None
