"""Decodes Avro values without Spark. Logical types are left out: a time is the number beneath it, and none is out of range."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidemark.extras.formats.avro_schema import AvroSchemaError

if TYPE_CHECKING:
    from tidemark.extras.formats.avro_schema import Writer

_MOST_WITHOUT_BYTES = 10  # parts of a value: with millions of them, a few bytes would take minutes
_UNREADABLE = (ArithmeticError, EOFError, LookupError, MemoryError, RecursionError, TypeError, ValueError, struct.error)
"""What fastavro raises on bytes that do not fit their schema."""
_LOGICAL = {"logicalType", "precision", "scale"}


def decoder(writer: Writer) -> Callable[[bytes], Any]:
    """Return what decodes a value: None if it is not of the schema, or does not end where its bytes end.

    Raises:
        AvroSchemaError: fastavro refuses the schema, or a few bytes could stand for millions of parts.
    """
    from fastavro import schemaless_reader
    from fastavro.schema import SchemaParseException, parse_schema

    if _without_bytes(writer) > _MOST_WITHOUT_BYTES:
        raise AvroSchemaError(f"it has more than {_MOST_WITHOUT_BYTES} fields without bytes")
    plain = json.loads(writer.text, object_hook=lambda part: {name: part[name] for name in part.keys() - _LOGICAL})
    try:
        parsed = parse_schema(plain)
    except (SchemaParseException, ValueError) as error:
        raise AvroSchemaError(str(error)) from error

    def decoded(body: bytes) -> Any:
        stream = io.BytesIO(body)
        try:
            value = schemaless_reader(stream, parsed, None, handle_unicode_errors="replace")
        except _UNREADABLE:
            return None
        return None if stream.read(1) else value

    return decoded


def _without_bytes(writer: Writer) -> int:
    """Count the parts of a value that have no bytes."""
    known: dict[str, int] = {}

    def count(given: Any) -> int:
        if isinstance(given, str) and given in writer.named:
            if given not in known:
                known[given] = count(writer.named[given])
            return known[given]
        if isinstance(given, list):
            return max((count(each) for each in given if each != "null"), default=0)
        match given["type"] if isinstance(given, dict) else given:
            case "record" | "error":
                return sum(count(each["type"]) for each in given["fields"]) + (not given["fields"])
            case "array" | "map":
                return count(given.get("items", given.get("values")))
            case kind:
                return int(kind == "null" or (kind == "fixed" and given["size"] == 0))

    return count(writer.schema)
