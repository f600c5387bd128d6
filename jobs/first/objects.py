"""The values of a sample as objects of JSON, whatever their format; and the fields of a payload that holds all of them. Pure.

Avro is decoded on the driver for looking at it, never for deciding, which Spark does. A few bytes can stand for millions of
steps, so all values of a sample share a number of them.
"""

from __future__ import annotations

import io
import json
import math
import struct
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from lakehouse.escape import printable, shortened
from lakehouse.extract.on_driver import Digits, Object
from lakehouse.settings import payload_schema
from lakehouse.settings.avro_schema import AvroSchemaError
from lakehouse.settings.payload_schema import Field, Type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lakehouse.settings.avro_schema import Writer

MOST_BYTES = 1024 * 1024
"""The longest value that is looked at."""
_MOST_STEPS = 1_000_000_000
"""In all values of a sample: half a minute, where a producer means harm."""
_UNREADABLE = (ArithmeticError, EOFError, LookupError, MemoryError, RecursionError, TypeError, ValueError, struct.error)
"""What fastavro raises on bytes that do not fit their schema."""
_LOGICAL = ("logicalType", "precision", "scale")
_RECORDS = ("record", "error")
_INTEGERS, _FLOATS = ("int", "long"), ("float", "double")

_MOST_LEVELS = 20
MOST_FIELDS = 1_000
_MOST_LISTED = 5
_LARGEST = 2**63 - 1
ODD = "no name of a column, or one that differs from another in its case only"

TEXT, TRUTH, WHOLE, FRACTION = "text", "true and false", "whole numbers", "fractions"
OBJECT, LIST, NULL = "objects", "lists", "null"
_LONG, _INFINITE, _REPEATED = "whole numbers beyond BIGINT", "numbers beyond DOUBLE", "a key that an object has twice"
SCALARS = (TEXT, TRUTH, WHOLE, FRACTION, NULL, _LONG, _INFINITE)

Path = tuple[str | None, ...]
"""The keys that lead to a part of a document; None for an element of a list."""


@dataclass
class Steps:
    """The steps that are left for a sample."""

    left: int = _MOST_STEPS

    def take(self, count: int) -> bool:
        """Take some, if there are as many."""
        is_left = count <= self.left
        self.left -= count if is_left else 0
        return is_left


@dataclass(frozen=True)
class Decoder:
    """Decodes values of one schema.

    Attributes:
        writer: The schema.
        parsed: The same as fastavro has it, without logical types: a time is the number beneath it, and none is too large.
        steps_per_byte: The maximum number of steps that a byte can stand for.
    """

    writer: Writer
    parsed: Any
    steps_per_byte: int

    @classmethod
    def of(cls, writer: Writer) -> Decoder:
        """Make the decoder of a schema.

        Raises:
            AvroSchemaError: Nothing of its values can be looked at.
        """
        from fastavro.schema import SchemaParseException, UnknownType, parse_schema

        if _type(writer.schema) not in _RECORDS or not _has_fields(writer.schema, writer.named):
            raise AvroSchemaError("it has no fields at the top or in records")
        plain = json.loads(writer.text, object_hook=lambda part: {name: part[name] for name in part if name not in _LOGICAL})
        try:
            parsed = parse_schema(plain)
        except (SchemaParseException, UnknownType, ValueError) as error:
            raise AvroSchemaError(f"it cannot be read: {error}") from error
        return cls(writer, parsed, 1 + _without_bytes(writer.schema, writer.named))

    def fits(self, body: bytes, steps: Steps) -> bool:
        """Whether a value is of the schema, or would take too long to look at."""
        return not self._is_short(body, steps) or self._value(body) is not None

    def document(self, body: bytes, steps: Steps) -> Object | None:
        """A value as an object of JSON, without lists, maps, bytes and unions of several types.

        None if it cannot be decoded, or would take too long.
        """
        value = self._value(body) if self._is_short(body, steps) else None
        return None if value is None else _object(value, self.writer.schema, self.writer.named)

    def _is_short(self, body: bytes, steps: Steps) -> bool:
        return len(body) <= MOST_BYTES and steps.take(len(body) * self.steps_per_byte)

    def _value(self, body: bytes) -> Any:
        """A decoded value; None if it cannot be decoded, or does not end where its bytes end."""
        from fastavro import schemaless_reader

        stream = io.BytesIO(body)
        try:
            value = schemaless_reader(stream, self.parsed, None, handle_unicode_errors="replace")
        except _UNREADABLE:
            return None
        return None if stream.read(1) else value


def _object(value: Mapping[str, Any], given: Any, named: Mapping[str, Any]) -> Object:
    parts = ((each["name"], _part(value[each["name"]], each["type"], named)) for each in given["fields"])
    return Object([(name, part) for name, part in parts if part is not None])


def _part(value: Any, given: Any, named: Mapping[str, Any]) -> Any:
    only = _only(given, named)
    match _type(only):
        case "record" | "error" if value is not None:
            return _object(value, only, named)
        case kind if kind in _INTEGERS or (kind in _FLOATS and value is not None and math.isfinite(value)):
            return None if value is None else Digits(value)
        case "boolean" | "string" | "enum":
            return value
        case _:
            return None


def _has_fields(given: Any, named: Mapping[str, Any]) -> bool:
    """Whether a type has something that becomes a part of an object."""
    only = _only(given, named)
    if _type(only) in _RECORDS:
        return any(_has_fields(each["type"], named) for each in only["fields"])
    return _type(only) in (*_INTEGERS, *_FLOATS, "boolean", "string", "enum")


def _resolved(given: Any, named: Mapping[str, Any]) -> Any:
    return named.get(given, given) if isinstance(given, str) else given


def _type(given: Any) -> Any:
    return given["type"] if isinstance(given, dict) else given


def _only(given: Any, named: Mapping[str, Any]) -> Any:
    """The type itself, or the only one of a union besides null. int and long count as one type. None if there are several."""
    if not isinstance(given, list):
        return _resolved(given, named)
    others = [each for each in given if each != "null"]
    if others == ["int", "long"]:
        return "long"
    return _resolved(others[0], named) if len(others) == 1 else None


def _without_bytes(given: Any, named: Mapping[str, Any]) -> int:
    """How many types without bytes of their own can come with one byte of a value, at most."""
    given = _resolved(given, named)
    if isinstance(given, list):
        return max(_without_bytes(each, named) for each in given)
    match _type(given):
        case "record" | "error":
            return 1 + sum(_without_bytes(each["type"], named) for each in given["fields"])
        case "array" | "map":
            return _without_bytes(given.get("items", given.get("values")), named)
        case kind:
            return int(kind == "null" or (kind == "fixed" and given["size"] == 0))


class Payload(NamedTuple):
    """The fields that values have in common.

    Attributes:
        schema: The fields as `value.schema` has them.
        left_out: What is not among them, with the reason.
    """

    schema: str
    left_out: Mapping[str, str]

    def listed(self) -> str:
        """What is left out, in words."""
        shown = [f"{printable(shortened(path, 120))} ({why})" for path, why in list(self.left_out.items())[:_MOST_LISTED]]
        more = len(self.left_out) - len(shown)
        return ", ".join(shown) + (f" and {more:,} more" if more else "")


def parts(found: Any, above: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the parts of a JSON object or list, down to 20 levels, each after the one that holds it.

    >>> list(parts({"a": {"b": [7]}}))
    [(('a',), {'b': [7]}), (('a', 'b'), [7]), (('a', 'b', None), 7)]
    """
    # An `Object` has its fields from last to first.
    steps = reversed(found.items()) if isinstance(found, dict) else ((None, part) for part in found)
    for step, part in steps:
        path = (*above, step)
        yield path, part
        if isinstance(part, dict | list) and len(path) < _MOST_LEVELS:
            yield from parts(part, path)


def kinds(values: Iterable[Any]) -> dict[Path, Counter[str]]:
    """Count what the parts of JSON objects are; other values are skipped.

    Returns:
        For each path, how many values are of each kind. A path comes after those above it.
    """
    found: defaultdict[Path, Counter[str]] = defaultdict(Counter)
    for value in values:
        if isinstance(value, Object):
            for path, part in chain([((), value)], parts(value)):
                found[path][_kind(part)] += 1
                for name in part.repeated if isinstance(part, Object) else ():
                    found[(*path, name)][_REPEATED] += 1
    return dict(found)


def _kind(part: Any) -> str:
    if isinstance(part, Digits):
        if part.removeprefix("-").isdigit() and part != "-0":
            return WHOLE if -_LARGEST <= int(part) <= _LARGEST else _LONG
        return FRACTION if math.isfinite(float(part)) else _INFINITE
    if part is None or isinstance(part, bool):
        return NULL if part is None else TRUTH
    return OBJECT if isinstance(part, dict) else LIST if isinstance(part, list) else TEXT


def payload(found: Mapping[Path, Mapping[str, int]]) -> Payload:
    """The fields into which all values decode without loss, by what the paths hold.

    Text with other scalars is STRING only where Spark keeps them as they are written, which it does not do with fractions.

    >>> from lakehouse.extract.on_driver import Record
    >>> texts = b'{"a": 1, "b": "x", "c": [{"d": 1.5}]}', b'{"a": null, "b": 7, "e": {}}'
    >>> payload(kinds(Record(each).json for each in texts))
    Payload(schema='a BIGINT, b STRING, c ARRAY<STRUCT<`d`: DOUBLE>>', left_out={'e': 'objects without fields'})
    """
    left_out = {_named(path): f"beyond {MOST_FIELDS:,} fields" for path in islice(found, MOST_FIELDS + 1, None)}
    below: defaultdict[Path, list[Path]] = defaultdict(list)
    for path in islice(found, 1, MOST_FIELDS + 1):  # the first is the whole value
        below[path[:-1]].append(path)

    def type_of(path: Path) -> Type | None:
        held, why = found[path].keys() - {NULL}, ""
        if held == {OBJECT}:
            typed = ((str(each[-1]), type_of(each)) for each in below[path])
            if fields := tuple(Field(name, each) for name, each in typed if each is not None):
                return Type("struct", fields=fields)
            why = "" if below[path] else "objects without fields"
        elif held == {LIST}:
            if of := type_of(below[path][0]) if below[path] else None:
                return Type("array", of=of)
            why = "" if below[path] else "empty lists"
        elif scalar := _scalar(held):
            return Type("scalar", scalar)
        else:
            why = " and ".join(sorted(held)) or "always null"
        if why:
            left_out[_named(path)] = why
        return None

    top = type_of(()) if found else None
    stored, odd = payload_schema.storable(top) if top else (None, [])
    return Payload(payload_schema.ddl(stored) if stored else "", {**dict.fromkeys(odd, ODD), **left_out})


def _scalar(held: set[str]) -> str | None:
    """The type that holds scalars of these kinds without loss; None if there is none."""
    if held == {TRUTH}:
        return "BOOLEAN"
    if held == {WHOLE}:
        return "BIGINT"
    if held and held <= {WHOLE, FRACTION}:
        return "DOUBLE"
    return "STRING" if held and held <= {TEXT, TRUTH, WHOLE, _LONG} else None


def _named(path: Path) -> str:
    return ".".join("[]" if step is None else step for step in path)
