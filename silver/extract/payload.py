"""Decodes values; the one place that determines whether a value is undecodable.

`payloads` adds two columns to records: `payload`, and `undecodable`, which is null if the value could be decoded or is null
(a tombstone, an erased record), else the reason:

- `value_too_long`: longer than `value.max_bytes`; it is not parsed.
- `value_not_utf8`: not valid UTF-8.
- `value_not_of_schema`: not JSON, or not of the schema: a wrong type, a missing NOT NULL field, a number or timestamp outside
  the bounds below, a duplicate key in a MAP. Of Avro: bytes that its schema does not fit, a text that is not UTF-8, or a schema
  that has not the fields' types. Behind a schema registry: a value without its prefix.

A caller that needs only the reason (to quarantine such records) selects that column, and Spark omits the payload.

Any input yields a payload or a reason, quickly, and the same one whenever it is decoded:

- A number has at most 1,000 characters, its exponent at most three digits: as DECIMAL, `1e32000000` takes 75 s. This is checked
  before anything is cast. Spark also reads a DECIMAL from a string, even with commas, and escapes may hide the digits.
- A TIMESTAMP or DATE is in the years 1 to 9999: Python and delta-rs cannot hold others. A time without a date is invalid: Spark
  would take today's date.
- Text that may exceed these bounds is first decoded as strings, which is exact but slower.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from lakehouse.extract import avro
from lakehouse.extract.columns import by_topic
from lakehouse.settings import payload_schema
from lakehouse.settings.payload_schema import CORRUPT, Field, Type

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

    from lakehouse.extract.written import Written
    from silver.rules import Payload, Rules

TOO_LONG = "value_too_long"
NOT_UTF8 = "value_not_utf8"
NOT_OF_SCHEMA = "value_not_of_schema"

_MOST_CHARACTERS = 1_000
_CORRUPT = {"columnNameOfCorruptRecord": CORRUPT}

# Text that may exceed the bounds, by type; and an escape, which may hide digits.
# Spark removes a DECIMAL's commas wherever they are; of a TIMESTAMP it trims the blanks and control characters, which JSON may
# also write as \t and the like, and takes a time with or without a colon after a T (T12).
# Possessive, as _STRINGS is.
_LOOKS_ODD = {
    "DECIMAL": r"[eE][,+-]*[\p{Nd},]{4}|[\p{Nd},.]{50}",
    "TIMESTAMP": r"""[0-9]{11}|["'](?:[\x00-\x20\x7f]++|\\[bfnrt])*+(?:T[0-9]|[0-9]{1,2}:)""",
}
_ESCAPE = r"\\u"
_STRINGS = r'"(?:[^"\\]++|\\.)*+"'  # possessive: anything else recurses, and a long string overflows the stack
_LONG_EXPONENT = r"[eE][+-]?[0-9]{4}"
_NUMBER = r"\A[+-]?[0-9]*\.?[0-9]*([eE][+-]?[0-9]{1,3})?\z"
_NO_MOMENT = r"\A-?[0-9]{11,}\z|\A[\x00-\x20\x7f]*(?:T[0-9]|[0-9]{1,2}:)"

_BOUNDS = {
    "DATE": ("DATE'0001-01-01'", "DATE'9999-12-31'"),
    "TIMESTAMP": ("TIMESTAMP'0001-01-01 00:00:00Z'", "TIMESTAMP'9999-12-31 23:59:59.999999Z'"),
    "TIMESTAMP_NTZ": ("TIMESTAMP_NTZ'0001-01-01 00:00:00'", "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'"),
}


def payloads(records: DataFrame, rules: Rules) -> DataFrame:
    """Add the decoded value, or the reason why it is undecodable, by the rules of each record's topic.

    Grain: a record, as given.

    Args:
        records: Rows with `value` (binary), `topic` if topics are read otherwise, and without the two columns.
        rules: The rules, by which some topic's values are decoded.

    Returns:
        The rows with `payload`, of the rules' type, and `undecodable`, as `decoded` has them. Fields of other topics are null,
        as is both of a topic whose values are not decoded.
    """
    (first, _), *others = kinds = rules.decodings
    if not others and first.payload:
        return decoded(records, first.payload, first.written)
    # As in `lakehouse.extract.columns.extract`: each decoding gets the values of its topics, and elsewhere null.
    number = by_topic([(topics, F.lit(nth)) for nth, (_, topics) in enumerate(kinds)])
    whole, given = rules.payload_type, F.col("_given")
    found = records.withColumns({"_given": F.col("value"), "_kind": number})
    read: dict[int, Column] = {}
    for nth, (each, _) in enumerate(kinds):
        if each.payload is None or whole is None:
            continue
        emptied = found.withColumn("value", F.when(F.col("_kind") == nth, given))
        found = decoded(emptied, each.payload, each.written).withColumnsRenamed(
            {name: f"_{nth}_{name}" for name in ("payload", "undecodable")}
        )
        read[nth] = _among(F.col(f"_{nth}_payload"), payload_schema.of(each.payload.schema), whole)
    undecodable = F.coalesce(*(F.col(f"_{nth}_undecodable") for nth in read), F.lit(None).cast("string"))
    told = found.withColumns({"value": given, "payload": F.coalesce(*read.values()), "undecodable": undecodable})
    return told.drop("_given", "_kind", *(f"_{nth}_{name}" for nth in read for name in ("payload", "undecodable")))


def _among(found: Column, kind: Type, whole: Type) -> Column:
    """A payload with the fields of all topics, those of others null."""
    if kind.kind == "scalar":
        return found
    known = {field.name for field in kind.fields}
    parts = [
        (found.getField(each.name) if each.name in known else F.lit(None).cast(each.type.sql())).alias(each.name)
        for each in whole.fields
    ]
    return F.when(found.isNotNull(), F.struct(*parts))


def decoded(records: DataFrame, payload: Payload, written: Written | None = None) -> DataFrame:
    """Add the decoded value, or the reason why it is undecodable.

    Grain: a record, as given.

    Args:
        records: Rows with `value` (binary) and without the two columns.
        payload: How values are decoded.
        written: How their bytes are written; None for text, and for JSON alone.

    Returns:
        The rows with `payload`, of the type that its schema says, null if the value is null or undecodable; and `undecodable`
        (string): value_too_long, value_not_utf8, value_not_of_schema, or null.
    """
    value = F.col("value")
    refused = F.when(F.octet_length(value) > payload.max_bytes, F.lit(TOO_LONG)) if payload.max_bytes else F.lit(None)
    sized = records.withColumn("_refused", refused.cast("string"))
    if payload.format == "avro" and written is not None:
        return _judged(_of_avro(sized, payload, written), F.when(value.isNotNull(), F.col("_refused")))
    body, unread = value, F.lit(NOT_UTF8)
    if written is not None and written.has_prefix:
        body, unread = avro.without_prefix(value), F.when(avro.has_prefix(value), unread).otherwise(F.lit(NOT_OF_SCHEMA))
    text = F.col("_text")
    looked_at = sized.withColumn(
        "_text", F.when(F.col("_refused").isNull() & F.is_valid_utf8(body.cast("string")), body.cast("string"))
    )
    undecodable = F.when(value.isNotNull() & text.isNull(), F.coalesce("_refused", unread))
    if payload.format == "text":
        return looked_at.withColumns({"payload": text, "undecodable": undecodable}).drop("_refused", "_text")
    schema = payload_schema.parse(payload.schema)
    # A projection for each step: the next step refers to its columns more than once, and Spark computes them only once.
    parsed = looked_at.withColumn("_parsed", F.when(~_passes_bounds(text, schema), _parse(text, schema)))
    violated = _any_of(F.col("_parsed"), schema, _FAR_OUT)
    is_read = F.col("_parsed").isNotNull() & F.col(f"_parsed.{CORRUPT}").isNull()
    judged = parsed.withColumn("_is_read", is_read if violated is None else is_read & ~F.coalesce(violated, F.lit(False)))
    return _judged(judged, undecodable)


def _of_avro(sized: DataFrame, payload: Payload, written: Written) -> DataFrame:
    """Add `_parsed` and `_is_read` of Avro values."""
    schema = payload_schema.parse(payload.schema)
    value = F.when(F.col("_refused").isNull(), F.col("value"))
    parsed = sized.withColumn("_parsed", avro.parsed(value, written, schema))
    violated = _any_of(F.col("_parsed"), schema, _FAR_OUT_OF_AVRO)
    is_read = F.col(f"_parsed.{CORRUPT}").isNotNull()
    return parsed.withColumn("_is_read", is_read if violated is None else is_read & ~violated)


def _judged(parsed: DataFrame, undecodable: Column) -> DataFrame:
    """Take what was read, and say of the rest that it is not of the schema, unless there is another reason."""
    read = F.coalesce("_is_read", F.lit(False))
    return parsed.withColumns(
        {
            "payload": F.when(read, F.col("_parsed").dropFields(CORRUPT)),
            "undecodable": F.coalesce(undecodable, F.when(F.col("value").isNotNull() & ~read, F.lit(NOT_OF_SCHEMA))),
        }
    ).drop("_refused", "_text", "_parsed", "_is_read")


def _parse(text: Column, schema: Type) -> Column:
    """Parse into a struct of the schema's fields and CORRUPT; null for empty text."""
    with_corrupt = Type("struct", fields=(*schema.fields, Field(CORRUPT, Type("scalar", "STRING"))))
    return F.from_json(text, with_corrupt.sql(), _CORRUPT)


def _passes_bounds(text: Column, schema: Type) -> Column:
    """Whether the text holds a number or timestamp outside the bounds, determined without casting it."""
    odd = [pattern for kind, pattern in _LOOKS_ODD.items() if kind in _scalars(schema)]
    if not odd:
        return F.lit(False)
    strings = _as_strings(schema)
    parsed = _parse(text, strings)
    is_long = [F.regexp_replace(text, _STRINGS, '""').rlike(_LONG_EXPONENT)] if "DECIMAL" in _scalars(schema) else []
    outside = _any_of(parsed, schema, _OUTSIDE)
    # A variant rejects duplicate keys: of two values, the one that is not checked here would be cast all the same.
    is_strict = F.try_parse_json(text).isNotNull() & parsed[CORRUPT].isNull()
    found = [*is_long, *([] if outside is None else [F.coalesce(outside, F.lit(False))])]
    return F.when(text.rlike("|".join([*odd, _ESCAPE])), ~F.coalesce(is_strict, F.lit(False)) | reduce(or_, found)).otherwise(
        F.lit(False)
    )


def _scalars(schema: Type) -> set[str]:
    return {schema.name, *(name for inner in schema.inner() for name in _scalars(inner))} - {""}


def _as_strings(schema: Type) -> Type:
    """The schema with STRING for the types that are checked before they are cast."""
    if schema.kind == "scalar":
        return Type("scalar", "STRING") if schema.name in _LOOKS_ODD else schema
    fields = tuple(Field(field.name, _as_strings(field.type)) for field in schema.fields)
    return Type(schema.kind, of=_as_strings(schema.of) if schema.of else None, fields=fields)


def _is_outside(text: Column, kind: Type) -> Column:
    """Whether the text of a number or timestamp is outside the bounds."""
    if kind.name == "DECIMAL":
        return ~F.replace(text, F.lit(","), F.lit("")).rlike(_NUMBER) | (F.length(text) > _MOST_CHARACTERS)
    return text.rlike(_NO_MOMENT)


def _is_far_out(found: Column, kind: Type) -> Column:
    """Whether a value violates the schema, or exceeds what all readers can hold."""
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


class _Check(NamedTuple):
    """What may be amiss with values of some types."""

    concerns: Callable[[Type], bool]
    is_amiss: Callable[[Column, Type], Column]

    def concerns_any(self, kind: Type) -> bool:
        """Whether a type or one within it can be amiss. Makes no Column: each level would double their number."""
        return self.concerns(kind) or any(self.concerns_any(inner) for inner in kind.inner())


_OUTSIDE = _Check(lambda kind: kind.name in _LOOKS_ODD, _is_outside)
_FAR_OUT = _Check(
    lambda kind: kind.kind == "map" or kind.name in _BOUNDS or any(field.is_required for field in kind.fields), _is_far_out
)
# Of JSON the whole text is checked before it is parsed.
_FAR_OUT_OF_AVRO = _Check(lambda kind: kind.name == "STRING" or _FAR_OUT.concerns(kind), _is_far_out)


def _any_of(found: Column, kind: Type, check: _Check) -> Column | None:
    """Whether a value, or any value nested in it, is amiss; None if the type has nothing to check."""
    return _some_of(found, kind, check) if check.concerns_any(kind) else None


def _some_of(found: Column, kind: Type, check: _Check) -> Column:
    asked = [check.is_amiss(found, kind)] if check.concerns(kind) else []
    asked += [
        _some_of(found.getField(field.name), field.type, check) for field in kind.fields if check.concerns_any(field.type)
    ]
    if kind.of is not None and check.concerns_any(kind.of):
        of, elements = kind.of, F.map_values(found) if kind.kind == "map" else found
        asked.append(F.exists(elements, lambda element: _some_of(element, of, check)))
    return reduce(or_, (F.coalesce(each, F.lit(False)) for each in asked))
