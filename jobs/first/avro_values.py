"""Decodes the Avro values of a sample on the driver, for looking at them: never for deciding, which Spark does.

Only fields that are scalars, at the top or in records, are kept of a value; the rest is stepped over. A few bytes can stand for
millions of steps, so all values of a sample share a number of them.
"""

from __future__ import annotations

import io
import json
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakehouse.extract.on_driver import OfOtherType
from lakehouse.settings import avro_schema
from lakehouse.settings.avro_schema import AvroSchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakehouse.settings.avro_schema import Writer

_MOST_LEVELS = 4
_MOST_PATHS = 1_000
MOST_BYTES = 1024 * 1024
"""The longest value that is looked at."""
_MOST_STEPS = 1_000_000_000
"""In all values of a sample: half a minute, where a producer means harm."""
_LONGEST_SHOWN = 100
_UNREADABLE = (ArithmeticError, EOFError, LookupError, MemoryError, RecursionError, TypeError, ValueError, struct.error)
"""What fastavro raises on bytes that do not fit their schema."""
_NAMED = ("record", "error", "enum", "fixed")


@dataclass
class Steps:
    """What is left of the steps of a sample."""

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
        written: The schema, as fastavro has it.
        read: The schema of what is kept.
        paths: The paths to its scalars, each with its type in words if no sequence, producer or epoch is read from it.
        steps_per_byte: How many steps a byte can stand for, at most.
    """

    written: Any
    read: Any
    paths: Mapping[tuple[str, ...], str | None]
    steps_per_byte: int

    @classmethod
    def of(cls, writer: Writer) -> Decoder:
        """Make the decoder of a schema.

        Raises:
            AvroSchemaError: Nothing of its values can be looked at.
        """
        from fastavro.schema import SchemaParseException, UnknownType, parse_schema

        kept = _Kept(writer.named).of(writer.schema)
        if not isinstance(kept, dict):
            raise AvroSchemaError("it has no fields at the top or in records")
        paths: dict[tuple[str, ...], str | None] = {}
        for path, given in _scalars(writer.schema, writer.named):
            if len(paths) >= _MOST_PATHS:
                break
            paths[path] = avro_schema.not_a_key(given, writer.named)
        try:
            # Without logical types: a sequence is read as the number beneath a time, and no value is too large for one.
            written, read = parse_schema(_plain(writer.schema)), parse_schema(kept)
        except (SchemaParseException, UnknownType, ValueError) as error:
            raise AvroSchemaError(f"it cannot be read: {error}") from error
        return cls(written, read, paths, 1 + _without_bytes(writer.schema, writer.named))

    def fits(self, body: bytes, steps: Steps) -> bool:
        """Whether a value is of the schema, or would take too long to look at."""
        return not self._is_short(body, steps) or self._value(body) is not None

    def fields(self, body: bytes, steps: Steps) -> dict[str, bytes | OfOtherType] | None:
        """The scalars of a value that are not null, by their paths; None if it cannot be decoded, or would take too long."""
        value = self._value(body) if self._is_short(body, steps) else None
        if value is None:
            return None
        found = {}
        for path, other in self.paths.items():
            part: Any = value
            for step in path:
                part = part.get(step) if isinstance(part, dict) else None
            if part is not None:
                found[".".join(path)] = _text(part).encode(errors="replace") if other is None else _other(other, part)
        return found

    def _is_short(self, body: bytes, steps: Steps) -> bool:
        return len(body) <= MOST_BYTES and steps.take(len(body) * self.steps_per_byte)

    def _value(self, body: bytes) -> Any:
        """What is kept of a value; None if it cannot be decoded, or does not end where its bytes end."""
        from fastavro import schemaless_reader

        stream = io.BytesIO(body)
        try:
            value = schemaless_reader(stream, self.written, self.read, handle_unicode_errors="replace")
        except _UNREADABLE:
            return None
        return None if stream.read(1) else value


def _text(part: Any) -> str:
    return part if isinstance(part, str) else json.dumps(part)


def _other(kind: str, part: Any) -> OfOtherType:
    text = f"0x{part[:_LONGEST_SHOWN].hex()}" if isinstance(part, bytes) else _text(part)
    return OfOtherType(kind, text[:_LONGEST_SHOWN])


def _scalars(given: Any, named: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The paths to the scalars of a record, as deep as is looked, with their types."""
    for each in _resolved(given, named)["fields"]:
        kind, path = _resolved(each["type"], named), (*above, each["name"])
        only = _only(kind, named)
        if _kind(only) in ("record", "error"):
            if len(path) < _MOST_LEVELS:
                yield from _scalars(only, named, path)
        elif only is not None and _kind(only) not in ("array", "map", "null"):
            yield path, kind


def _resolved(given: Any, named: Mapping[str, Any]) -> Any:
    return named.get(given, given) if isinstance(given, str) else given


def _kind(given: Any) -> Any:
    return given["type"] if isinstance(given, dict) else given


def _only(given: Any, named: Mapping[str, Any]) -> Any:
    """The type itself, or the one beside null in a union; int and long are as one; None where there are several."""
    if not isinstance(given, list):
        return given
    others = [each for each in given if each != "null"]
    if others == ["int", "long"]:
        return "long"
    return _resolved(others[0], named) if len(others) == 1 else None


@dataclass
class _Kept:
    """What is kept of a schema while it is made."""

    named: Mapping[str, Any]
    defined: set[str] = field(default_factory=set)

    def of(self, given: Any) -> Any:
        """The scalars and records of a type; None where there are none."""
        given = _resolved(given, self.named)
        if isinstance(given, list):
            if _only(given, self.named) is None:
                return None
            parts = [(each if each == "null" else self.of(each)) for each in given]
            return None if None in parts else parts
        kind = _kind(given)
        if kind in ("array", "map", "null"):
            return None
        if kind not in _NAMED:
            return kind  # without its logical type
        if given["name"] in self.defined:
            return given["name"]
        found = self._named(given)
        if found is not None:
            self.defined.add(given["name"])
        return found

    def _named(self, given: dict[str, Any]) -> dict[str, Any] | None:
        if "fields" not in given:
            return {name: part for name, part in given.items() if name in ("type", "name", "symbols", "size")}
        fields = [
            {"name": each["name"], "type": part} for each in given["fields"] if (part := self.of(each["type"])) is not None
        ]
        return {**given, "fields": fields} if fields else None


def _plain(given: Any) -> Any:
    """A schema without its logical types."""
    if isinstance(given, list):
        return [_plain(each) for each in given]
    if not isinstance(given, dict):
        return given
    found = {name: _plain(part) if name in ("items", "values") else part for name, part in given.items()}
    if "fields" in found:
        found["fields"] = [{**each, "type": _plain(each["type"])} for each in given["fields"]]
    return {name: part for name, part in found.items() if name not in ("logicalType", "precision", "scale")}


def _without_bytes(given: Any, named: Mapping[str, Any]) -> int:
    """How many types without bytes of their own can come with one byte of a value, at most."""
    given = _resolved(given, named)
    if isinstance(given, list):
        return max(_without_bytes(each, named) for each in given)
    match _kind(given):
        case "record" | "error":
            return 1 + sum(_without_bytes(each["type"], named) for each in given["fields"])
        case "array" | "map":
            return _without_bytes(given.get("items", given.get("values")), named)
        case kind:
            return int(kind == "null" or (kind == "fixed" and given["size"] == 0))
