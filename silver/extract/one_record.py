"""Read one record on the driver, by the rules of Spark's extraction. Explains a record; never decides it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from lakehouse.contracts.silver import UNDECODABLE
from lakehouse.extract import on_driver
from lakehouse.extract.on_driver import Digits, Record
from lakehouse.extract.written import without_prefix
from lakehouse.settings import payload_schema
from lakehouse.settings.extractor import ROLES

if TYPE_CHECKING:
    from lakehouse.extract.sources import Source
    from lakehouse.settings.payload_schema import Type
    from silver.rules import Rules

TEXT, WHOLE, FRACTION, LOGICAL, OBJECT, LIST = ("text", "a whole number", "a fraction", "true or false", "an object", "a list")
JSON_FORMS = ("json", "prefixed_json")
_OF_VALUE = ("missing", "not_json", "not_utf8")
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_MOST = {"FLOAT": 3.4028235677973366e38, "DOUBLE": float("inf")}
_TAKES = {
    **dict.fromkeys(_BITS, (WHOLE,)),
    **dict.fromkeys(_MOST, (WHOLE, FRACTION)),
    **dict.fromkeys(("BINARY", "DATE", "TIMESTAMP_NTZ"), (TEXT,)),
    "STRING": (TEXT, WHOLE, LOGICAL, OBJECT, LIST),
    "BOOLEAN": (LOGICAL,),
    "DECIMAL": (TEXT, WHOLE, FRACTION),
    "TIMESTAMP": (TEXT, WHOLE),
}


def key(rules: Rules, record: Mapping[str, Any]) -> tuple[str | None, int | None, int | None]:
    """Return producer, epoch and sequence, from Bronze if it extracted them; None for values that only Spark can read."""
    if erased := record.get("erased"):
        return erased["producer"], erased["epoch"], erased["sequence"]
    rules = rules.of_topic(record["topic"])
    if record.get("rules_fingerprint") == rules.fingerprint and record["problem"] is None:
        return record["producer"], record["epoch"], record["sequence"]
    headers = [(header["key"], header["value"]) for header in record.get("headers") or []]
    found = Record(record.get("value"), headers, record.get("offset") or 0)
    producer = on_driver.name(rules.producer, found)[0] if rules.producer else None
    epoch = on_driver.number(rules.epoch, found)[0] if rules.epoch else 0
    return producer, epoch, on_driver.number(rules.sequence, found)[0]


def explain(rules: Rules, record: Mapping[str, Any], reason: str | None) -> str | None:
    """Describe the field of a JSON value that has a wrong type, or a value that is not JSON; None if unknown.

    `reason` is why the record is invalid. It is None for an accepted record with an undecodable value.

    >>> from lakehouse.extract.sources import Source
    >>> from silver.rules import Payload, Rules
    >>> schema = "id STRING NOT NULL, amount DECIMAL(10,2), by STRUCT<days: ARRAY<DATE>>"
    >>> rules = Rules(Source("json", "$.seq"), payload=Payload("json", schema))
    >>> def found(value, reason="value_undecodable"): return explain(rules, {"topic": "t", "value": value}, reason)
    >>> found(b'{"id": "a", "amount": "1,5"}'), found(b'{"amount": 1.5}')
    ('amount: text that DECIMAL(10,2) does not hold', 'id: missing, where NOT NULL is wanted')
    >>> found(b'{"id": "a", "by": {"days": ["2026-03-01", 5]}}'), found(b'{"id": "a"}'), found(b'{}', "sequence_missing")
    ('by.days[1]: a whole number, where DATE is wanted', None, None)
    """
    rules, value = rules.of_topic(record["topic"]), record.get("value")
    if value is None:
        return None
    role, _, problem = (reason or UNDECODABLE).partition("_")
    if role in ROLES:
        source = rules.sources.by_role.get(role)
        return None if source is None else unread(source, problem, value)
    if rules.payload is None or rules.payload.format != "json":
        return None
    body = without_prefix(value) if rules.written else value
    if body is None:
        return None
    read = Record(body)
    return _no_object(read) or _misfit(read.json, payload_schema.of(rules.payload.schema), "")


def instead_of_object(record: Record) -> str | None:
    r"""Describe a value that is not a JSON object; None for an object.

    >>> instead_of_object(Record(b"\xef\xbb\xbf{}")), instead_of_object(Record(b'"{\\"seq\\": 1}"'))
    ('it begins with a byte order mark', 'text that holds JSON')
    """
    if record.json_fault or isinstance(record.json, dict):
        return record.json_fault
    is_json_in_text = isinstance(record.json, str) and isinstance(Record(record.json.encode(errors="replace")).json, dict)
    return f"{TEXT} that holds JSON" if is_json_in_text else _kind(record.json)


def unread(source: Source, problem: str | None, value: bytes | None) -> str | None:
    r"""Explain why a JSON path finds nothing in a value; None if the value does not explain it.

    >>> from lakehouse.extract.sources import Source
    >>> unread(Source("json", "$.seq"), "missing", b'[{"seq": 1}]')
    'the value: a list, where an object is wanted'
    """
    body = without_prefix(value or b"") if source.form == "prefixed_json" else value
    if source.form not in JSON_FORMS or problem not in _OF_VALUE or body is None:
        return None
    record = Record(body)
    is_in_object = source.argument.startswith(("$.", "$['"))
    return _no_object(record) if record.json_fault or is_in_object else None


def _no_object(record: Record) -> str | None:
    found = instead_of_object(record)
    if found is None:
        return None
    fault = f"not one document of strict JSON: {found}"
    return f"the value: {fault if record.json_fault else f'{found}, where {OBJECT} is wanted'}"


def _misfit(found: Any, kind: Type, path: str) -> str | None:
    """Return the first field with a wrong type, and the kind of its value; None if all fields fit."""
    if found is None:
        return None
    has, takes = _kind(found), {"array": (LIST,), "map": (OBJECT,), "struct": (OBJECT,)}.get(kind.kind) or _TAKES[kind.name]
    if has not in takes:
        return f"{path}: {has}, where {OBJECT if kind.kind == 'struct' else kind.sql()} is wanted"
    if kind.kind == "scalar":
        return None if _is_held(found, has, kind) else f"{path}: {has} that {kind.sql()} does not hold"
    missing = [field.name for field in kind.fields if field.is_required and found.get(field.name) is None]
    if missing:
        return f"{path}.{missing[0]}: missing, where NOT NULL is wanted".lstrip(".")
    parts = [(found.get(field.name), field.type, f"{path}.{field.name}".lstrip(".")) for field in kind.fields]
    if kind.of is not None:  # a map's keys are not shown
        named = enumerate(found) if isinstance(found, list) else (("*", each) for each in found.values())
        parts = [(each, kind.of, f"{path}[{at}]") for at, each in named]
    return next((why for part in parts if (why := _misfit(*part))), None)


def _kind(found: Any) -> str:
    if isinstance(found, Digits):
        return WHOLE if found.removeprefix("-").isdigit() else FRACTION
    kinds = ((bool, LOGICAL), (str, TEXT), (dict, OBJECT), (list, LIST))
    return next((name for type_, name in kinds if isinstance(found, type_)), "null")


def _is_held(found: Any, has: str, kind: Type) -> bool:
    try:
        if kind.name in _BITS:
            most = 1 << (_BITS[kind.name] - 1)
            return -most <= int(found) < most
        if kind.name in _MOST:
            return abs(float(found)) < _MOST[kind.name]
        if kind.digits is not None:
            number, (precision, scale) = Decimal(found if found.isascii() and "_" not in found else "-"), kind.digits
            return abs(number) < 10 ** (precision - scale) and number == round(number, scale)
        if kind.name == "DATE":
            return bool(re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", found) and date.fromisoformat(found))
    except (ArithmeticError, ValueError):
        return False
    return not (kind.name == "STRING" and has == WHOLE and found == "-0")
