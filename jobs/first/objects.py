"""The values of a sample as objects of JSON, whatever their format, and the fields that hold all of them. Pure."""

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
from lakehouse.settings import avro_schema, payload_schema
from lakehouse.settings.avro_schema import AvroSchemaError
from lakehouse.settings.payload_schema import Field, Type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lakehouse.settings.avro_schema import Writer

MOST_BYTES = 1024 * 1024
"""The longest value that is looked at."""
_MOST_STEPS = 1_000_000_000
"""The steps of decoding all Avro values of a sample, half a minute: a few bytes can stand for millions of steps."""
_UNREADABLE = (ArithmeticError, EOFError, LookupError, MemoryError, RecursionError, TypeError, ValueError, struct.error)
"""What fastavro raises on bytes that do not fit their schema."""
_LOGICAL = ("logicalType", "precision", "scale")
_MOST_LEVELS = 20
_MOST_FIELDS = 1_000
_MOST_LISTED = 5
_LARGEST = 2**63 - 1
_ODD = "no name of a column, or one that differs from another in its case only"

TEXT, TRUTH, WHOLE, FRACTION = "text", "true and false", "whole numbers", "fractions"
_OBJECT, _LIST, _NULL = "objects", "lists", "null"
_LONG, _INFINITE, _REPEATED = "whole numbers beyond BIGINT", "numbers beyond DOUBLE", "a key that an object has twice"
SCALARS = (TEXT, TRUTH, WHOLE, FRACTION, _NULL, _LONG, _INFINITE)

Path = tuple[str | None, ...]
"""The keys that lead to a part of a document; None for an element of a list."""


@dataclass
class Budget:
    """The steps that are left for decoding a sample."""

    steps: int = _MOST_STEPS

    def take(self, steps: int) -> bool:
        """Take steps, and return whether as many were left."""
        is_left = steps <= self.steps
        self.steps -= steps if is_left else 0
        return is_left


class Decoder:
    """Decodes Avro values of one schema, to look at them: loads are decoded by Spark.

    Attributes:
        fields: The fields that a payload can have of such values.
        left_out: What cannot be a field, by its path, with the reason.
        steps_per_byte: The maximum number of steps that a byte can stand for.

    Raises:
        AvroSchemaError: The values are no records, or nothing can be decoded.
    """

    def __init__(self, writer: Writer) -> None:
        from fastavro.schema import SchemaParseException, UnknownType, parse_schema

        self.writer = writer
        self.fields, self.left_out = avro_schema.fields(writer)
        # Without logical types, a time is the number beneath it, and none is out of range.
        plain = json.loads(writer.text, object_hook=lambda part: {name: part[name] for name in part if name not in _LOGICAL})
        try:
            self._parsed = parse_schema(plain)
        except (SchemaParseException, UnknownType, ValueError) as error:
            raise AvroSchemaError(f"it cannot be read: {error}") from error
        self.steps_per_byte = 1 + _without_bytes(writer.schema, writer.named)

    def fits(self, body: bytes, budget: Budget) -> bool:
        """Whether a value is of the schema, or would take too long to look at."""
        return not self._is_short(body, budget) or self._decoded(body) is not None

    def document(self, body: bytes, budget: Budget) -> Object | None:
        """Decode a value into its records and scalars; None if it cannot be decoded, or would take too long."""
        found = _as_json(self._decoded(body), self.fields) if self._is_short(body, budget) else None
        return found if isinstance(found, Object) else None

    def _is_short(self, body: bytes, budget: Budget) -> bool:
        return len(body) <= MOST_BYTES and budget.take(len(body) * self.steps_per_byte)

    def _decoded(self, body: bytes) -> Any:
        """The value; None if it cannot be decoded, or does not end where its bytes end."""
        from fastavro import schemaless_reader

        stream = io.BytesIO(body)
        try:
            value = schemaless_reader(stream, self._parsed, None, handle_unicode_errors="replace")
        except _UNREADABLE:
            return None
        return None if stream.read(1) else value


def _as_json(value: Any, kind: Type) -> Any:
    """A decoded value as JSON has it; None for lists, maps and bytes."""
    if kind.kind == "struct" and isinstance(value, dict):
        parts = ((each.name, _as_json(value[each.name], each.type)) for each in kind.fields)
        return Object([(name, part) for name, part in parts if part is not None])
    if isinstance(value, bool | str):
        return value
    return Digits(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _without_bytes(given: Any, named: Mapping[str, Any]) -> int:
    """How many types without bytes of their own can come with one byte of a value, at most."""
    given = named.get(given, given) if isinstance(given, str) else given
    if isinstance(given, list):
        return max(_without_bytes(each, named) for each in given)
    match given["type"] if isinstance(given, dict) else given:
        case "record" | "error":
            return 1 + sum(_without_bytes(each["type"], named) for each in given["fields"])
        case "array" | "map":
            return _without_bytes(given.get("items", given.get("values")), named)
        case kind:
            return int(kind == "null" or (kind == "fixed" and given["size"] == 0))


class Payload(NamedTuple):
    """The fields that values have in common, and what is not among them, with the reason."""

    fields: Type
    left_out: Mapping[str, str]

    @classmethod
    def of(cls, fields: Type | None, left_out: Mapping[str, str]) -> Payload:
        """Leave out what no table can hold."""
        stored, odd = payload_schema.storable(fields) if fields else (None, [])
        return cls(stored or Type("struct"), {**dict.fromkeys(odd, _ODD), **left_out})

    @property
    def schema(self) -> str:
        """The fields as `value.schema` has them."""
        return payload_schema.ddl(self.fields)

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
    """Count the kinds of the parts of JSON objects by path, each after those above it; other values are skipped."""
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
        return _NULL if part is None else TRUTH
    return _OBJECT if isinstance(part, dict) else _LIST if isinstance(part, list) else TEXT


def payload(found: Mapping[Path, Mapping[str, int]]) -> Payload:
    """The fields into which all values decode without loss, by the kinds of their parts.

    Text with other scalars is STRING only where Spark keeps them as they are written, which it does not do with fractions.

    >>> from lakehouse.extract.on_driver import Record
    >>> texts = b'{"a": 1, "b": "x", "c": [{"d": 1.5}]}', b'{"a": null, "b": 7, "e": {}}'
    >>> found = payload(kinds(Record(each).json for each in texts))
    >>> found.schema, found.left_out
    ('a BIGINT, b STRING, c ARRAY<STRUCT<`d`: DOUBLE>>', {'e': 'objects without fields'})
    """
    left_out = {_named(path): f"beyond {_MOST_FIELDS:,} fields" for path in islice(found, _MOST_FIELDS + 1, None)}
    below: defaultdict[Path, list[Path]] = defaultdict(list)
    for path in islice(found, 1, _MOST_FIELDS + 1):  # the first is the whole value
        below[path[:-1]].append(path)

    def type_of(path: Path) -> Type | None:
        held = found[path].keys() - {_NULL}
        if held == {_OBJECT} and below[path]:
            typed = ((str(each[-1]), type_of(each)) for each in below[path])
            fields = tuple(Field(name, each) for name, each in typed if each is not None)
            return Type("struct", fields=fields) if fields else None
        if held == {_LIST} and below[path]:
            of = type_of(below[path][0])
            return Type("array", of=of) if of else None
        if scalar := _scalar(held):
            return Type("scalar", scalar)
        empty = {_OBJECT: "objects without fields", _LIST: "empty lists"}
        left_out[_named(path)] = empty.get("".join(held)) or " and ".join(sorted(held)) or "always null"
        return None

    return Payload.of(type_of(()) if found else None, left_out)


def _scalar(held: set[str]) -> str | None:
    """The type that holds scalars of these kinds without loss; None if there is none."""
    takes = {"BOOLEAN": {TRUTH}, "BIGINT": {WHOLE}, "DOUBLE": {WHOLE, FRACTION}, "STRING": {TEXT, TRUTH, WHOLE, _LONG}}
    return next((name for name, kinds_ in takes.items() if held and held <= kinds_), None)


def _named(path: Path) -> str:
    return ".".join("[]" if step is None else step for step in path)
