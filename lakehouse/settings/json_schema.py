"""JSON Schema: the fields that a payload can have by it. Pure.

A schema says far more than types, and may say them in many ways. What is not plain (several types, conditions, schemas of
others) becomes STRING: it holds any JSON, as text.
"""

from __future__ import annotations

import json
import re
from typing import Any

from lakehouse.settings import payload_schema
from lakehouse.settings.payload_schema import Field, Type

_MOST_LEVELS, _MOST_FIELDS = 20, 1_000
_TEXT = Type("scalar", "STRING")
_SCALARS = {"integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN"}
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FORMATS = {"date": "DATE", "date-time": "TIMESTAMP"}


class JsonSchemaError(ValueError):
    """The text is no JSON Schema of objects with named properties. Says what it is."""


def fields(text: str) -> Type:
    """The fields of the objects that a schema describes, in its order.

    Args:
        text: The schema.

    Raises:
        JsonSchemaError: It is none of objects with properties, or has more than 1,000 of them.

    >>> fields('{"type": "object", "properties": {"id": {"type": "string"}, "n": {"type": ["null", "integer"]}}}').sql()
    'STRUCT<`id`: STRING, `n`: BIGINT>'
    """
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise JsonSchemaError("it is no JSON") from error
    reading = _Reading(given)
    found = reading.of(given, 0)
    if found.kind != "struct":
        raise JsonSchemaError("it names no properties of an object")
    return found


def ddl(found: Type) -> str:
    """Fields as `value.schema` has them.

    >>> ddl(payload_schema.parse("id STRING, `odd-one` ARRAY<INT>"))
    'id STRING, `odd-one` ARRAY<INT>'
    """
    return ", ".join(f"{_name(each.name)} {each.type.sql()}" for each in found.fields)


def _name(name: str) -> str:
    return name if _WORD.fullmatch(name) else payload_schema.quoted(name)


class _Reading:
    """One schema while it is read."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._fields = 0

    def of(self, given: Any, level: int) -> Type:
        """The type of the values that a part of the schema describes."""
        given = self._without_null(self._followed(given))
        if level > _MOST_LEVELS or not isinstance(given, dict):
            return _TEXT
        kind = given.get("type", "object" if "properties" in given else None)
        if isinstance(kind, list):
            kinds = [each for each in kind if each != "null"]
            kind = kinds[0] if len(kinds) == 1 else None
        match kind:
            case "object":
                return self._object(given, level)
            case "array":
                return Type("array", of=self.of(given.get("items"), level + 1))
            case "string":
                return Type("scalar", _FORMATS.get(str(given.get("format")), "STRING"))
            case str() if kind in _SCALARS:
                return Type("scalar", _SCALARS[kind])
            case _:
                return _TEXT

    def _object(self, given: dict[str, Any], level: int) -> Type:
        properties = given.get("properties")
        if not isinstance(properties, dict) or not properties:
            others = given.get("additionalProperties")
            return Type("map", of=self.of(others, level + 1)) if isinstance(others, dict) else _TEXT
        found = []
        for name, each in properties.items():
            self._fields += 1
            if self._fields > _MOST_FIELDS:
                raise JsonSchemaError(f"it names more than {_MOST_FIELDS:,} properties")
            found.append(Field(name, self.of(each, level + 1)))
        return Type("struct", fields=tuple(found))

    def _followed(self, given: Any) -> Any:
        """What a reference within the schema leads to."""
        for _ in range(_MOST_LEVELS):
            reference = given.get("$ref") if isinstance(given, dict) else None
            if reference is None:
                return given
            given = self._at(reference)
        return None

    def _at(self, reference: Any) -> Any:
        found = self._root if isinstance(reference, str) and reference.startswith("#/") else None
        for step in str(reference).removeprefix("#/").split("/"):
            found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        return found

    @staticmethod
    def _without_null(given: Any) -> Any:
        """The one alternative to null, where there is one."""
        if not isinstance(given, dict):
            return given
        for word in ("oneOf", "anyOf"):
            others = given.get(word)
            if isinstance(others, list):
                others = [each for each in others if each != {"type": "null"}]
                return others[0] if len(others) == 1 and "type" not in given and "properties" not in given else {}
        return given
