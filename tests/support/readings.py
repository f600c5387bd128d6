"""What an extractor reads from a record, told literally and without Spark: the reference that fuzzing compares with."""

import json
import re
from collections.abc import Sequence
from typing import Any

from lakehouse.extract.sources import Source
from silver.rules import Payload

Headers = Sequence[tuple[str, bytes | None]] | None

_MOST_BYTES = 1_024
_LARGEST = 2**63 - 1
_WIDTHS = {"int32": 4, "int64": 8}
_MOST_DIGITS = 1_000


def number(source: Source, value: bytes | None, headers: Headers, offset: int = -1) -> int | None:
    """The whole number that a form reads; None where there is none."""
    found = _found(source, value, headers, offset)
    if found is None:
        return None
    if source.encoding != "utf8":
        whole = int.from_bytes(found, signed=True) if len(found) == _WIDTHS[source.encoding] else -1
        return whole if whole >= 0 else None
    if len(found) > _MOST_BYTES or not re.fullmatch(rb"[0-9]+", found):
        return None
    return int(found) if int(found) <= _LARGEST else None


def name(source: Source, value: bytes | None, headers: Headers, offset: int = -1) -> str | None:
    """The producer that a form reads; None where there is none."""
    if source.encoding != "utf8":
        whole = number(source, value, headers, offset)
        return None if whole is None else str(whole)
    found = _found(source, value, headers, offset)
    try:
        return found.decode() if found and len(found) <= _MOST_BYTES else None
    except UnicodeDecodeError:
        return None


def problem(source: Source, value: bytes | None, headers: Headers, *, is_name: bool) -> str:
    """Why nothing could be read; empty where JSON is not what it should be, which may be told in more ways than one."""
    found = _found(source, value, headers, -1)
    named = [each for key, each in headers or () if key == source.argument]
    if source.form == "header":
        lacks = "missing" if not named else "disagrees" if len(set(named)) > 1 else "null"
    else:
        lacks = "null" if value is None else "" if source.form == "json" else "missing"
    if found is None or source.form == "json":
        return lacks
    if source.encoding != "utf8":
        return "out_of_range" if len(found) == _WIDTHS[source.encoding] else "not_a_whole_number"
    if is_name:
        return "empty" if not found else "too_long" if len(found) > _MOST_BYTES else "not_utf8"
    if len(found) > _MOST_BYTES:
        return "too_long"
    return "out_of_range" if re.fullmatch(rb"[0-9]+", found) else "not_a_whole_number"


def decodes(payload: Payload, value: bytes | None) -> bool | None:
    """Whether a value can be decoded; None where only Spark's own reader of JSON knows."""
    if value is None:
        return True
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    if payload.max_bytes is not None and len(value) > payload.max_bytes:
        return False
    return True if payload.format == "text" else None


def _found(source: Source, value: bytes | None, headers: Headers, offset: int) -> bytes | None:
    match source.form:
        case "header":
            named = [each for key, each in headers or () if key == source.argument]
            return named[0] if named and all(each == named[0] for each in named) else None
        case "value":
            return value
        case "offset":
            return str(offset).encode()
        case "bytes":
            start, end = (int(bound) for bound in source.argument.split(":"))
            return value[start:end] if value is not None and len(value) >= end else None
        case "json":
            return None if value is None else _at_key(value, source.argument.removeprefix("$."))
        case _:
            raise AssertionError(source.form)


def _at_key(value: bytes, key: str) -> bytes | None:
    """What stands under a key of the outermost object; None where the text is not strictly one JSON object with it once."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        counted = [name for name, _ in pairs]
        return dict(pairs) | {"\0repeated": {name for name in counted if counted.count(name) > 1}}

    def told(text: str) -> str:
        if sum(character.isdigit() for character in text) > _MOST_DIGITS:
            raise ValueError(text)
        return text

    def unknown(text: str) -> str:
        raise ValueError(text)

    decoder = json.JSONDecoder(
        object_pairs_hook=once, parse_int=told, parse_float=lambda text: told(text) and "no", parse_constant=unknown
    )
    try:
        text = value.decode().strip(" \t\r\n")
        found, end = decoder.raw_decode(text)
        if end != len(text) or not isinstance(found, dict) or key in found["\0repeated"] or found.get(key) is None:
            return None
        if any("\ud800" <= character <= "\udfff" for character in json.dumps(found, ensure_ascii=False, default=list)):
            return None
        return found[key].encode() if isinstance(found[key], str) else b"no"
    except (ValueError, RecursionError):
        return None
