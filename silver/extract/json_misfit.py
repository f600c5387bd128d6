"""Names the field of a JSON value that its type does not take, for people: Spark decides whether a value is undecodable."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from lakehouse.extract.on_driver import Digits, Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse.settings.payload_schema import Type

TEXT, WHOLE, FRACTION, LOGICAL, OBJECT, LIST = ("text", "a whole number", "a fraction", "true or false", "an object", "a list")
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


def misfit(value: bytes, schema: Type) -> str | None:
    """The first field that is not of its type, and what kind of value it has; None if none is seen.

    >>> from lakehouse.settings import payload_schema
    >>> schema = payload_schema.of("id STRING NOT NULL, amount DECIMAL(10,2), by STRUCT<days: ARRAY<DATE>>")
    >>> misfit(b'{"id": "a", "amount": "1,5"}', schema), misfit(b'{"amount": 1.5}', schema)
    ('amount: text that DECIMAL(10,2) does not hold', 'id: missing, where NOT NULL is wanted')
    >>> misfit(b'{"id": "a", "by": {"days": ["2026-03-01", 5]}}', schema)
    'by.days[1]: a whole number, where DATE is wanted'
    >>> misfit(b"[1]", schema), misfit(b'{"id": "a"} x', schema), misfit(b'{"id": "a"}', schema)
    ('the value: a list, where an object is wanted', 'the value: not one document of strict JSON', None)
    """
    record = Record(value)
    if record.json_problem:
        return f"the value: {'not UTF-8' if record.json_problem == 'not_utf8' else 'not one document of strict JSON'}"
    return _in(record.json, schema, "")


def _in(found: Any, kind: Type, path: str) -> str | None:
    if found is None and path:
        return None
    has, takes = _kind(found), {"array": (LIST,), "map": (OBJECT,), "struct": (OBJECT,)}.get(kind.kind) or _TAKES[kind.name]
    if has not in takes:
        return f"{path or 'the value'}: {has}, where {OBJECT if kind.kind == 'struct' else kind.sql()} is wanted"
    if kind.kind == "scalar":
        return None if _is_held(found, has, kind) else f"{path}: {has} that {kind.sql()} does not hold"
    missing = [field.name for field in kind.fields if field.is_required and found.get(field.name) is None]
    if missing:
        return f"{path}.{missing[0]}: missing, where NOT NULL is wanted".lstrip(".")
    return next((why for each in _parts(found, kind, path) if (why := _in(*each))), None)


def _parts(found: Any, kind: Type, path: str) -> Iterator[tuple[Any, Type, str]]:
    """What is in an array, map or struct, each with its type and its path; keys of a map are the producer's, and not shown."""
    if kind.of is not None:
        for at, each in enumerate(found) if isinstance(found, list) else (("*", each) for each in found.values()):
            yield each, kind.of, f"{path}[{at}]"
    for field in kind.fields:
        yield found.get(field.name), field.type, f"{path}.{field.name}".lstrip(".")


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
