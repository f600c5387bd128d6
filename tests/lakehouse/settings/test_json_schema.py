"""What fields a JSON Schema names, and what becomes text because it is not plain."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakehouse.settings import json_schema, payload_schema
from lakehouse.settings.json_schema import JsonSchemaError, fields


def of(kind: Any, **more: Any) -> str:
    return fields(json.dumps({"type": "object", "properties": {"a": kind}, **more})).fields[0].type.sql()


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ({"type": "string"}, "STRING"),
        ({"type": "string", "format": "date-time"}, "TIMESTAMP"),
        ({"type": "string", "format": "date"}, "DATE"),
        ({"type": "string", "format": "uuid"}, "STRING"),
        ({"type": "integer"}, "BIGINT"),
        ({"type": ["number", "null"]}, "DOUBLE"),
        ({"type": "boolean"}, "BOOLEAN"),
        ({"type": "array", "items": {"type": "integer"}}, "ARRAY<BIGINT>"),
        ({"type": "array"}, "ARRAY<STRING>"),
        ({"type": "object", "properties": {"b": {"type": "integer"}}}, "STRUCT<`b`: BIGINT>"),
        ({"properties": {"b": {"type": "integer"}}}, "STRUCT<`b`: BIGINT>"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "MAP<STRING, DOUBLE>"),
        ({"type": "object"}, "STRING"),
        ({"oneOf": [{"type": "null"}, {"type": "integer"}]}, "BIGINT"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "STRING"),
        ({"type": ["string", "integer"]}, "STRING"),
        ({"enum": ["a", 1]}, "STRING"),
        (True, "STRING"),
        ({"$ref": "https://elsewhere.example/schema"}, "STRING"),
        ({"$ref": "#/definitions/none"}, "STRING"),
        ({"$ref": 7}, "STRING"),
    ],
)
def test_a_property_becomes_a_field_of_the_type_that_holds_it(kind: Any, told: str) -> None:
    assert of(kind) == told


def test_references_within_the_schema_are_followed_and_end_where_they_go_in_circles() -> None:
    definitions = {"n~/": {"type": "integer"}, "b": {"$ref": "#/definitions/n~0~1"}, "c": {"$ref": "#/definitions/c"}}
    assert of({"$ref": "#/definitions/b"}, definitions=definitions) == "BIGINT"
    assert of({"$ref": "#/definitions/c"}, definitions=definitions) == "STRING"
    tree = {"type": "object", "properties": {"below": {"$ref": "#"}, "next": {"$ref": "#/properties/a"}}}
    assert of(tree).startswith("STRUCT<`below`: STRING, `next`: STRUCT<")


@pytest.mark.parametrize("text", ["{", "7", "[]", "true", '{"type": "string"}', '{"type": "object"}', "[" * 100_000])
def test_what_names_no_properties_is_told(text: str) -> None:
    with pytest.raises(JsonSchemaError):
        fields(text)


def test_a_schema_that_stands_for_very_many_properties_is_refused_quickly() -> None:
    levels = {f"l{n}": {"properties": {f"p{m}": {"$ref": f"#/$defs/l{n + 1}"} for m in range(10)}} for n in range(30)}
    with pytest.raises(JsonSchemaError, match="more than 1,000"):
        fields(json.dumps({"$defs": levels, "$ref": "#/$defs/l0"}))


def test_the_fields_are_written_as_the_config_has_them() -> None:
    found = fields(json.dumps({"properties": {"id": {"type": "string"}, "odd-one": {"properties": {"x": {}}}, "a`b": {}}}))
    text = json_schema.ddl(found)
    assert text == "id STRING, `odd-one` STRUCT<`x`: STRING>, `a``b` STRING"
    assert payload_schema.parse(text) == found
