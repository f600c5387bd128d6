"""Dates and times in JSON that Kafka Connect writes with `schemas.enable`: numbers, whose unit the value's own schema names.

Such a value is {"schema": {"fields": [{"field": "at", "name": "io.debezium.time.MicroTimestamp"}]}, "payload": {"at": 1}}.
Fields of structs under `payload` are read so, not those in arrays and maps. All other values stay as they are.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakehouse.extract import json_strictness
from lakehouse.settings.payload_schema import Field, Type, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Column

_DATES, _MILLIS = (
    [f"{package}.{name}" for package in ("io.debezium.time", "org.apache.kafka.connect.data")] for name in ("Date", "Timestamp")
)
_MICROS, _NANOS = "io.debezium.time.MicroTimestamp", "io.debezium.time.NanoTimestamp"
_BLOCK = "schema"
_Path = tuple[str, ...]


def moments(schema: Type) -> list[tuple[_Path, str]]:
    """Return the paths and types of dates and times under `payload`; none if the wanted fields have `schema` themselves."""
    payload = schema.at("payload")
    has_block = any(each.name.lower() == _BLOCK for each in schema.fields)
    return list(_under(payload, ("payload",))) if payload and not has_block else []


def _under(found: Type, above: _Path) -> Iterator[tuple[_Path, str]]:
    for each in found.fields:
        if each.type.name in ("DATE", "TIMESTAMP"):
            yield (*above, each.name), each.type.name
        yield from _under(each.type, (*above, each.name))


def with_block(schema: Type) -> Type:
    """Add the value's own schema to the fields to parse, if `with_times` needs it."""
    block = (Field(_BLOCK, Type("scalar", "VARIANT")),) if moments(schema) else ()
    return replace(schema, fields=(*schema.fields, *block))


def with_times(parsed: Column, schema: Type) -> Column:
    """Replace numbers in a parsed text by the text of their date or time, and drop the value's own schema."""
    found = moments(schema)
    return json_strictness.with_document(parsed, lambda each: _read(each, found)) if found else parsed


def _read(document: Column, found: Sequence[tuple[_Path, str]]) -> Column:
    kind = ""
    for _ in range(max(len(path) for path, _ in found) - 1):
        kind = f"ARRAY<STRUCT<field: STRING, name: STRING{kind and f', fields: {kind}'}>>"
    fields = F.try_variant_get(document[_BLOCK], "$.fields", kind)
    changed = document.dropFields(_BLOCK)
    for path, name in found:
        value = reduce(lambda struct, step: struct.getField(step), path, document)
        text = (_date if name == "DATE" else _timestamp)(value, _logical_name(fields, path[1:]))
        changed = changed.withField(".".join(map(quoted, path)), text)
    return changed


def _logical_name(fields: Column, path: _Path) -> Column:
    def field(among: Column, step: str) -> Column:
        return F.get(F.filter(among, lambda each: each["field"] == step), F.lit(0))

    *steps, last = path
    return field(reduce(lambda among, step: field(among, step)["fields"], steps, fields), last)["name"]


def _date(value: Column, name: Column) -> Column:
    day = F.date_from_unix_date(value.try_cast("int")).cast("string")
    return F.when(name.isin(_DATES) & value.rlike(r"\A-?[0-9]+\z"), F.coalesce(day, value)).otherwise(value)


def _timestamp(value: Column, name: Column) -> Column:
    """A number that is no whole count of microseconds becomes an empty text, which no TIMESTAMP takes."""
    number = F.when(F.schema_of_variant(value) == "BIGINT", F.try_variant_get(value, "$", "bigint"))
    micros = F.when(name.isin(_MILLIS), F.try_multiply(number, F.lit(1_000))).when(name == _MICROS, number)
    micros = micros.when((name == _NANOS) & (number % 1_000 == 0), F.call_function("div", number, F.lit(1_000)))
    text = F.coalesce(F.timestamp_micros(micros).cast("string"), F.lit("")).cast("variant")
    return F.when(name.isin(*_MILLIS, _MICROS, _NANOS) & number.isNotNull(), text).otherwise(value)
