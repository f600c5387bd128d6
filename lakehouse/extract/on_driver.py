"""Reads sequence, producer and epoch of one record without Spark, by the rules of `columns`. Only `columns` decides loads."""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lakehouse.extract import debezium
from lakehouse.extract.written import without_prefix
from lakehouse.settings.extractor import IN_VALUE, WIDTHS, Encoding

if TYPE_CHECKING:
    from lakehouse.extract.sources import Source

MOST_BYTES = 1_024
"""The longest text of a producer's name or a number. Names of a megabyte in every row and list would crash a driver."""
_LARGEST = 2**63 - 1
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]|\['([^']*)'\]")


class Digits(str):
    """A number of a JSON text, as written."""

    __slots__ = ()


class Object(dict[str, Any]):
    """An object of a JSON text. `repeated` has its keys that occur more than once; the first value of each counts."""

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        super().__init__(reversed(pairs))
        counted = Counter(name for name, _ in pairs) if len(self) < len(pairs) else Counter[str]()
        self.repeated = frozenset(name for name, times in counted.items() if times > 1)


_MOST_DIGITS = 1_000
"""The longest number that Spark's parser reads."""
HALF_PAIR = r"\\u[dD][89a-fA-F]"
WHOLE_PAIR = r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
"""Escapes in a text without whole pairs that match `HALF_PAIR` are half of a surrogate pair."""


class _NoJsonError(ValueError):
    """Spark's parser refuses what Python's reads; the message says why."""


def _digits(text: str) -> Digits:
    if sum(map(str.isdigit, text)) > _MOST_DIGITS:
        raise _NoJsonError(f"it has a number of more than {_MOST_DIGITS:,} digits")
    return Digits(text)


def _constant(_text: str) -> Any:
    raise _NoJsonError("it has NaN or Infinity")


def _fault(error: Exception, value: bytes) -> str:
    if not value.strip():
        return "it is empty"
    if value.startswith(codecs.BOM_UTF8):
        return "it begins with a byte order mark"
    if isinstance(error, json.JSONDecodeError):
        return _IN_WORDS.get(error.msg, f"{error.msg[:1].lower()}{error.msg[1:]}").removesuffix(" at").rstrip(": ")
    return str(error) if isinstance(error, _NoJsonError) else "it is nested too deep"


_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_IN_WORDS = {
    "Extra data": "text follows the first document",
    "Expecting value": "something in it is no JSON value",
    "Unterminated string starting at": "a string in it does not end",
}
"""Messages of Python's parser, with our wording."""
_NUMBERS: dict[str, Any] = {"parse_int": _digits, "parse_float": _digits, "parse_constant": _constant}
_PARSER = json.JSONDecoder(object_pairs_hook=Object, **_NUMBERS)
_EVENT_PARSER = json.JSONDecoder(object_pairs_hook=lambda pairs: Object(pairs[::-1]), **_NUMBERS)


@dataclass(frozen=True)
class Record:
    """The parts of a record that extractors read. A tombstone has no value; `decoded` is a value of another format, decoded."""

    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    offset: int = 0
    decoded: Object | None = None

    @property
    def json(self) -> Any:
        """The value as JSON: numbers as `Digits`, objects as `Object`; None if it is not JSON."""
        return self._document[0]

    @property
    def json_problem(self) -> str | None:
        """Why the value is not JSON, see `lakehouse.extract.json_strictness`; None if it is."""
        return self._document[1]

    @property
    def json_fault(self) -> str | None:
        r"""Why the value is not JSON, as a sentence without text of the value; None if it is JSON.

        >>> Record(b"\xef\xbb\xbf{}").json_fault, Record(b'{"a": ' + b"9" * 1001 + b"}").json_fault, Record(b"{} {}").json_fault
        ('it begins with a byte order mark', 'it has a number of more than 1,000 digits', 'text follows the first document')
        >>> Record(b"{}").json_fault, Record(b"{'a': 1}").json_fault
        (None, 'expecting property name enclosed in double quotes')
        """
        return self._document[2]

    @cached_property
    def _document(self) -> tuple[Any, str | None, str | None]:
        value = self.value or b""
        try:
            text = value.decode()
            if re.search(HALF_PAIR, re.sub(WHOLE_PAIR, "", text)):
                return None, "not_json", "an escape in it is half of a surrogate pair"
            return _PARSER.decode(text), None, None
        except UnicodeDecodeError:
            return None, "not_utf8", "it is UTF-16" if value.startswith(_UTF16) else "it is not UTF-8"
        except (ValueError, RecursionError) as error:
            return None, "not_json", _fault(error, value)

    @cached_property
    def event(self) -> tuple[Any, str | None]:
        """The value as an object of JSON, UTF-8 or not, in which the last value of a repeated key counts; or the problem."""
        if self.decoded is not None:
            return self.decoded, None
        try:
            found = _EVENT_PARSER.decode((self.value or b"").decode(errors="replace"))
        except (ValueError, RecursionError):
            return None, "not_json"
        return (found, None) if found is None or isinstance(found, Object) else (None, "not_json")

    @cached_property
    def behind_prefix(self) -> Record:
        """The value after the prefix of a schema registry; a tombstone if there is no prefix."""
        return Record(without_prefix(self.value or b""))


def number(source: Source, record: Record) -> tuple[int | None, str | None]:
    """Return a sequence or an epoch, or the problem: one of `lakehouse.contracts.silver.PROBLEMS`.

    >>> from lakehouse.extract.sources import Source
    >>> number(Source("json", "$.m.seq"), Record(b'{"m": {"seq": 7}}'))
    (7, None)
    >>> number(Source("header", "seq"), Record(b"", [("seq", b"7"), ("seq", b"8")]))
    (None, 'disagrees')
    """
    found, problem = raw(source, record)
    return (None, problem) if found is None else to_number(found, source.encoding)


def name(source: Source, record: Record) -> tuple[str | None, str | None]:
    """Return a producer's name, or the problem."""
    found, problem = raw(source, record, is_name=source.encoding == "utf8")
    return (None, problem) if found is None else to_name(found, source.encoding)


def to_name(found: bytes, encoding: Encoding) -> tuple[str | None, str | None]:
    """Return a producer's name, 1 to 1,024 bytes of UTF-8, or the problem; a binary number becomes its digits."""
    if encoding != "utf8":
        number_, problem = to_number(found, encoding)
        return (None, problem) if number_ is None else (str(number_), None)
    if not found:
        return None, "empty"
    if len(found) > MOST_BYTES:
        return None, "too_long"
    try:
        return found.decode(), None
    except UnicodeDecodeError:
        return None, "not_utf8"


def to_number(raw: bytes, encoding: Encoding) -> tuple[int | None, str | None]:
    r"""Return a whole number from 0 to 2^63-1, or the problem.

    >>> to_number(b"007", "utf8"), to_number(b"\x00\x00\x00\x07", "int32"), to_number(b"-1", "utf8")
    ((7, None), (7, None), (None, 'not_a_whole_number'))
    """
    if encoding == "utf8":
        if len(raw) > MOST_BYTES:
            return None, "too_long"
        if not raw.isdigit():
            return None, "not_a_whole_number"
        found = int(raw)
    elif len(raw) != WIDTHS[encoding]:
        return None, "not_a_whole_number"
    else:
        found = int.from_bytes(raw, signed=True)
    return (found, None) if 0 <= found <= _LARGEST else (None, "out_of_range")


def raw(  # noqa: PLR0911 -- one for each form
    source: Source, record: Record, *, is_name: bool = False
) -> tuple[bytes | None, str | None]:
    """Return the bytes that a source names, or the problem. Only Spark runs functions."""
    value = record.value or b""
    if record.value is None and source.form in IN_VALUE:
        return None, "null"
    match source.form:
        case "header":
            return _header([found for key, found in record.headers if key == source.argument])
        case "value":
            return value, None
        case "offset":
            return b"%d" % record.offset, None
        case "custom" | "field":  # no field has a function's name
            return _at_path(record.decoded, f".{source.argument}", is_name=is_name)
        case "debezium" | "debezium_epoch":
            return _of_event(source, record)
        case "json" | "prefixed_json":
            found = record if source.form == "json" else record.behind_prefix
            problem = "missing" if found.value is None else found.json_problem
            return (None, problem) if problem else _at_path(found.json, source.argument, is_name=is_name)
        case "bytes":
            start, end = (int(bound) for bound in source.argument.split(":"))
            return (None, "missing") if len(value) < end else (value[start:end], None)


def _of_event(source: Source, record: Record) -> tuple[bytes | None, str | None]:
    """Return the epoch or the sequence of Debezium's position as digits, or the problem."""
    has_prefix = record.decoded is None and (record.value or b"").startswith(b"\0")
    document, problem = (record.behind_prefix if has_prefix else record).event
    if problem:
        return None, problem
    if _event_text(document, "schema.type") == "struct":
        document = document.get("payload")
    fields = {
        name: next((part for place in places if (part := read(document, place)) is not None), None)
        for name, places in debezium.paths(source.argument).items()
        for read in (_event_number if name in debezium.NUMBERS else _event_text,)
    }
    position = debezium.position(source.argument, fields, record.offset)
    return (None, position) if isinstance(position, str) else (b"%d" % position[source.form == "debezium"], None)


def _in_event(found: Any, place: str) -> Any:
    for name in place.split("."):
        found = found.get(name) if isinstance(found, Object) else None
    return found


def _event_text(document: Any, place: str) -> str | None:
    found = _in_event(document, place)
    return None if found is None else "0" if found == "-0" and isinstance(found, Digits) else text_of(found).decode()


def _event_number(document: Any, place: str) -> int | None:
    found = _in_event(document, place)
    is_whole = isinstance(found, Digits) and re.fullmatch("-?[0-9]{1,19}", found)
    return int(found) if is_whole and -_LARGEST <= int(found) <= _LARGEST else None


def _header(values: Sequence[bytes | None]) -> tuple[bytes | None, str | None]:
    if not values:
        return None, "missing"
    if any(other != values[0] for other in values):
        return None, "disagrees"
    return (None, "null") if values[0] is None else (values[0], None)


def _at_path(found: Any, path: str, *, is_name: bool) -> tuple[bytes | None, str | None]:
    is_repeated = False
    for step, index, quoted in _STEP.findall(path):
        if index:
            found = found[int(index)] if isinstance(found, list) and int(index) < len(found) else None
        else:
            is_repeated = is_repeated or (isinstance(found, Object) and (step or quoted) in found.repeated)
            found = found.get(step or quoted) if isinstance(found, Object) else None
    if found is None:
        return None, "missing"
    problem = "repeated" if is_repeated else _not_name(found) if is_name else None
    return (None, problem) if problem else (text_of(found), None)


def _not_name(found: Any) -> str | None:
    """Return why a part of a JSON text is not a name: Spark keeps the digits of whole numbers only."""
    if found == "-0" and isinstance(found, Digits):
        return "not_a_whole_number"
    is_fraction = isinstance(found, Digits) and not found.removeprefix("-").isdigit()
    return "not_text" if is_fraction or isinstance(found, dict | list) else None


def text_of(found: Any) -> bytes:
    """Return a part of a JSON text as bytes: strings without their quotes, like Spark's `get_json_object`."""
    text = found if isinstance(found, str) else json.dumps(found)
    return text.encode(errors="replace")
