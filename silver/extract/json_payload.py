r"""Decodes JSON into the types of a schema. Accepts only values that their type holds without loss.

Spark's `from_json` silently rounds decimals, reads any number as a date, and turns large numbers into infinity. It wraps a
TINYINT around at 128, and writes fractions as doubles for text. So some types are parsed as others (`_PARSED_AS`), whose
values are checked and then cast. A text is parsed again, with variants for strings, only where a STRING looks like a
fraction.

- A number has at most 1,000 characters, the exponent of a DECIMAL at most three digits: as DECIMAL, `1e32000000` takes 75 s.
- A TIMESTAMP or DATE is in the years 1 to 9999: Python and delta-rs cannot hold others. It keeps microseconds.
- A time without a date is invalid: Spark would take today's date.

With `schemas.enable` Kafka Connect writes dates and times as numbers, whose unit the value's own schema names. Such a value is
{"schema": {"fields": [{"field": "at", "name": "io.debezium.time.MicroTimestamp"}]}, "payload": {"at": 1}}. `with_times` reads
the fields of structs under `payload` so, not those in arrays and maps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.extract import json_strictness
from lakehouse.settings.payload_schema import Field, Type, quoted

_MOMENTS = ("TIMESTAMP", "TIMESTAMP_NTZ")
_PARSED_AS = {"DECIMAL": "VARIANT", **dict.fromkeys(_MOMENTS, "VARIANT"), "DATE": "STRING", "TINYINT": "SMALLINT"}
_MOST_CHARACTERS = 1_000

_STRINGS = r'"(?:[^"\\]++|\\.)*+"'  # possessive, because other quantifiers recurse: a long string overflows the stack
_POWER = r"\A[+-]?(?=[0-9.]*[0-9])[0-9]*\.?[0-9]*[eE][+-]?[0-9]{1,3}\z"
_PRECISE_POWER = r"\A[+-]?[0-9.]{1,16}[eE]|\A[+-]?[0-9.]{1,17}\z"
"""A number of at most 15 digits, which a double keeps; two decimal places may be `.0`."""
_MANY_DIGITS = r"[0-9.]{17}[0-9.]*+[eE]|[0-9.]{39}"
_TIME_ALONE = r"\A[\x00-\x20\x7f]*+(?:T[0-9]|[0-9]{1,2}:)"
_SECONDS = r"\A-?[0-9]{1,10}\z"
_DAY = r"\A(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}\z"
_MINUS_ZERO = r"(?<![eE])-0(?![0-9.eE])"
_LOOKS_REWRITTEN = r'(?s)\A-?[0-9]+\.|\A"?-?Infinity"?\z|\A[\[{].*(?:[0-9]\.[0-9]|Infinity)'
"""A STRING that Spark may have written from a fraction, or from an object or array with one."""

_DATES, _MILLIS = (
    [f"{package}.{name}" for package in ("io.debezium.time", "org.apache.kafka.connect.data")] for name in ("Date", "Timestamp")
)
_MICROS, _NANOS = "io.debezium.time.MicroTimestamp", "io.debezium.time.NanoTimestamp"
_BLOCK = "schema"
_BOUNDS = {
    "DATE": ("DATE'0001-01-01'", "DATE'9999-12-31'"),
    "TIMESTAMP": ("TIMESTAMP'0001-01-01 00:00:00Z'", "TIMESTAMP'9999-12-31 23:59:59.999999Z'"),
    "TIMESTAMP_NTZ": ("TIMESTAMP_NTZ'0001-01-01 00:00:00'", "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'"),
}
_Path = tuple[str, ...]


class Check(NamedTuple):
    """A check of values of some types, at any depth; null passes.

    `concerns` builds no Column, because each level of a type would double the number of Columns.
    """

    concerns: Callable[[Type], bool]
    is_wrong: Callable[[Column, Type], Column]

    def any_in(self, found: Column, kind: Type) -> Column:
        """Whether a value, or any value nested in it, is wrong; never null."""
        return self._in(found, kind) if self._concerns_any(kind) else F.lit(False)

    def _concerns_any(self, kind: Type) -> bool:
        return self.concerns(kind) or any(self._concerns_any(inner) for inner in kind.inner())

    def _in(self, found: Column, kind: Type) -> Column:
        asked = [self.is_wrong(found, kind)] if self.concerns(kind) else []
        fields = [field for field in kind.fields if self._concerns_any(field.type)]
        asked += [self._in(found.getField(field.name), field.type) for field in fields]
        if kind.of is not None and self._concerns_any(kind.of):
            of, elements = kind.of, F.map_values(found) if kind.kind == "map" else found
            asked.append(F.exists(elements, lambda element: self._in(element, of)))
        return reduce(or_, (F.coalesce(each, F.lit(False)) for each in asked))


def is_far_out(found: Column, kind: Type) -> Column:
    """Whether a value violates the schema, or is outside the range that all readers support."""
    if kind.kind == "struct":
        lacking = [found.getField(field.name).isNull() for field in kind.fields if field.is_required]
        return found.isNotNull() & reduce(or_, lacking)
    if kind.kind == "map":  # DuckDB cannot read a map with duplicate keys
        keys = F.map_keys(found)
        return (F.size(F.array_distinct(keys)) < F.size(keys)) | F.exists(keys, lambda key: ~F.is_valid_utf8(key))
    if kind.name == "STRING":
        return ~F.is_valid_utf8(found)
    first, last = (F.expr(bound) for bound in _BOUNDS[kind.name])
    return ~found.between(first, last)


def has_bounds(kind: Type) -> bool:
    """Whether `is_far_out` looks at values of a type, strings aside."""
    return kind.kind == "map" or kind.name in _BOUNDS or any(field.is_required for field in kind.fields)


def parse(text: Column, schema: Type) -> Column:
    """Parse a text, for `is_read` and `payload`; before them, for `with_times` if there is a field `payload`."""
    block = (Field(_BLOCK, Type("scalar", "VARIANT")),) if _moments(schema) else ()
    wanted = replace(schema, fields=(*schema.fields, *block))
    return json_strictness.parse_document(text, _mapped(wanted, _PARSED_AS).sql())


def is_read(parsed: Column, text: Column, schema: Type) -> Column:
    """Whether a text is one JSON document whose values fit their types without loss. Null means no."""
    found = json_strictness.document(parsed)
    is_of_schema = json_strictness.is_document(parsed, text) & found.isNotNull()
    return is_of_schema & ~_losses(text).any_in(found, schema) & ~_is_any_rewritten(found, text, schema)


def payload(parsed: Column, schema: Type) -> Column:
    """Return the fields of a readable text, in the types of the schema."""
    found = json_strictness.document(parsed)
    return found if _mapped(schema, _PARSED_AS) == schema else found.try_cast(schema.sql())


def _mapped(schema: Type, names: Mapping[str, str]) -> Type:
    """Replace some scalar types in a schema."""
    if schema.kind == "scalar":
        return Type("scalar", names[schema.name]) if schema.name in names else schema
    fields = tuple(replace(field, type=_mapped(field.type, names)) for field in schema.fields)
    return replace(schema, of=_mapped(schema.of, names) if schema.of else None, fields=fields)


def _losses(text: Column) -> Check:
    def is_lossy(found: Column, kind: Type) -> Column:
        match kind.name:
            case "DECIMAL":
                return _is_no_decimal(found, kind, text)
            case "TIMESTAMP" | "TIMESTAMP_NTZ":
                return _is_no_moment(found, kind)
            case "DATE":
                return found.isNotNull() & (~found.rlike(_DAY) | found.try_cast("date").isNull())
            case "TINYINT":
                return ~found.between(-128, 127)
            case "FLOAT" | "DOUBLE":
                return F.abs(found) == float("inf")
            case _:
                return is_far_out(found, kind)

    return Check(lambda kind: has_bounds(kind) or kind.name in ("DECIMAL", "TINYINT", "FLOAT", "DOUBLE"), is_lossy)


def _is_no_decimal(found: Column, kind: Type, text: Column) -> Column:
    """Whether a variant is not a number, or has more digits than the DECIMAL. Checks the text before it casts it."""
    type_, number = F.schema_of_variant(found), F.try_variant_get(found, "$", "string")
    _, scale = kind.digits or (0, 0)
    plain = rf"\A[+-]?(?=[0-9.]*[0-9])[0-9]*(?:\.[0-9]{{0,{scale}}}0*+)?\z"
    of_kind, is_short = number.try_cast(kind.sql()), F.length(number) <= _MOST_CHARACTERS
    is_plain = is_short & number.rlike(plain) & of_kind.isNotNull()
    # As doubles two numbers of at most 15 digits are equal only if they are the same number.
    is_same = of_kind.try_cast("double") == number.try_cast("double")
    is_power = is_short & number.rlike(_POWER) & number.rlike(_PRECISE_POWER) & is_same
    is_double = (
        (of_kind != 0) & number.rlike(_PRECISE_POWER) & is_same & ~F.regexp_replace(text, _STRINGS, '""').rlike(_MANY_DIGITS)
    )
    is_number = (
        F.when(type_ == "VOID", F.lit(True))
        .when(type_ == "DOUBLE", is_double)  # with an exponent, or of more than 38 digits
        .when(type_ == "STRING", is_plain | is_power)
        .otherwise(type_.rlike(r"\A(?:BIGINT|DECIMAL)") & is_plain)
    )
    return found.isNotNull() & ~F.coalesce(is_number, F.lit(False))


def _is_no_moment(found: Column, kind: Type) -> Column:
    type_, text = F.schema_of_variant(found), F.try_variant_get(found, "$", "string")
    is_moment = ~text.rlike(_TIME_ALONE) & ~is_far_out(text.try_cast(kind.name), kind)
    is_seconds = text.rlike(_SECONDS) if kind.name == "TIMESTAMP" else F.lit(False)
    held = F.when(type_ == "VOID", F.lit(True)).when(type_ == "STRING", is_moment).when(type_ == "BIGINT", is_seconds)
    return found.isNotNull() & ~F.coalesce(held, F.lit(False))


def _is_any_rewritten(found: Column, text: Column, schema: Type) -> Column:
    """Whether Spark changed a STRING's text: a fraction or -0, or an object or array with one."""
    may_have_minus_zero = F.contains(text, F.lit("-0"))

    def looks_rewritten(value: Column, _: Type) -> Column:
        # Most strings begin with a letter: a comparison is cheaper than a regular expression.
        is_nested = F.startswith(value, F.lit("[")) | (value >= "{")
        may_be = (value < ":") | F.startswith(value, F.lit("I")) | is_nested
        return may_be & (value.rlike(_LOOKS_REWRITTEN) | (((value == "0") | is_nested) & may_have_minus_zero))

    def is_rewritten(value: Column, _: Type) -> Column:
        type_ = F.schema_of_variant(value)
        has_minus_zero = F.regexp_replace(text, _STRINGS, '""').rlike(_MINUS_ZERO)
        return type_.rlike("FLOAT|DOUBLE|DECIMAL|VARIANT") | (F.contains(type_, F.lit("BIGINT")) & has_minus_zero)

    again = json_strictness.parse_document(text, _mapped(schema, {**_PARSED_AS, "STRING": "VARIANT"}).sql())
    is_any = _of_strings(is_rewritten).any_in(json_strictness.document(again), schema)
    is_kept = json_strictness.is_document(again, text) & ~is_any
    looks_so = _of_strings(looks_rewritten).any_in(found, schema)
    return F.when(looks_so, ~F.coalesce(is_kept, F.lit(False))).otherwise(F.lit(False))


def _of_strings(is_wrong: Callable[[Column, Type], Column]) -> Check:
    return Check(lambda kind: kind.name == "STRING", is_wrong)


def _moments(schema: Type) -> list[tuple[_Path, str]]:
    """Return the paths and types of dates and times under `payload`; none if the wanted fields have `schema` themselves."""
    payload = schema.at("payload")
    has_block = any(each.name.lower() == _BLOCK for each in schema.fields)
    return list(_under(payload, ("payload",))) if payload and not has_block else []


def _under(found: Type, above: _Path) -> Iterator[tuple[_Path, str]]:
    for each in found.fields:
        if each.type.name in ("DATE", "TIMESTAMP"):
            yield (*above, each.name), each.type.name
        yield from _under(each.type, (*above, each.name))


def with_times(parsed: Column, schema: Type) -> Column:
    """Replace numbers in a parsed text by the text of their date or time, and drop the value's own schema."""
    found = _moments(schema)
    return json_strictness.with_document(parsed, lambda each: _with_moments(each, found)) if found else parsed


def _with_moments(document: Column, found: Sequence[tuple[_Path, str]]) -> Column:
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
