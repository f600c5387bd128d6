"""Decodes values; the one place that determines whether a value is undecodable.

`decoded` adds two columns to records: `payload`, and `undecodable`, which is null if the value could be decoded or is null
(a tombstone, an erased record), else the reason:

- `value_too_long`: longer than `value.max_bytes`; it is not parsed.
- `value_not_utf8`: not valid UTF-8.
- `value_not_of_schema`: not JSON, or not of the schema: a wrong type, a missing NOT NULL field, a number or timestamp outside
  the bounds below, a duplicate key in a MAP. Of Avro and Protobuf: bytes that the schema does not fit, a text that is not
  UTF-8, or a schema that has not the fields' types. Behind a schema registry: a value without its prefix.

A caller that needs only the reason (to quarantine such records) selects that column, and Spark omits the payload.

Any input yields a payload or a reason, quickly, and the same one whenever it is decoded:

- A number has at most 1,000 characters, its exponent at most three digits: as DECIMAL, `1e32000000` takes 75 s. This is checked
  before anything is cast. Spark also reads a DECIMAL from a string, even with commas, and escapes may hide the digits.
- A TIMESTAMP or DATE is in the years 1 to 9999: Python and delta-rs cannot hold others. A time without a date is invalid: Spark
  would take today's date.
- Text that may exceed these bounds is first decoded as strings, which is exact but slower.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from lakehouse.extract import avro, kinds
from lakehouse.settings import payload_schema
from lakehouse.settings.payload_schema import CORRUPT, Field, Type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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


@dataclass(frozen=True)
class _Kind:
    """How the values of one kind of topics are decoded.

    Attributes:
        number: The kind's number.
        payload: Into what.
        written: How their bytes are written.
    """

    number: int
    payload: Payload
    written: Written | None

    @property
    def has_types(self) -> bool:
        """Whether values are written with a schema, and so are no text."""
        return self.payload.format in ("avro", "protobuf") and self.written is not None

    @property
    def schema(self) -> Type:
        return payload_schema.of(self.payload.schema)

    @property
    def parsed(self) -> str:
        """The column of what was parsed: a struct of the schema's fields and CORRUPT."""
        return f"_parsed_{self.number}"


def decoded(records: DataFrame, rules: Rules) -> DataFrame:
    """Add the decoded value, or the reason why it is undecodable, by the rules of each record's topic.

    Grain: a record, as given.

    Args:
        records: Rows with `value` (binary), `topic` if topics are read otherwise, and without the two columns.
        rules: The rules, by which the values of some topic are decoded.

    Returns:
        The rows with `payload`, of the rules' type, null if the value is null or undecodable; and `undecodable` (string):
        value_too_long, value_not_utf8, value_not_of_schema, or null. Fields of other topics are null, and all fields in topics
        whose values are not decoded: the payload itself is null only of an undecodable value, and of none.
    """
    decodings, whole = rules.decodings, rules.payload_type or payload_schema.of(None)
    ways = [_Kind(nth, each.payload, each.written) for nth, (each, _) in enumerate(decodings) if each.payload]
    structs = [each for each in ways if each.payload.format != "text"]

    def chosen(make: Callable[[_Kind], Column], among: Sequence[_Kind] = ways) -> Column:
        return kinds.of_kind([([each.number], make(each)) for each in among], len(decodings)) if among else F.lit(None)

    given = kinds.numbered(records, [topics for _, topics in decodings])
    # A projection for each step: the next step refers to its columns more than once, and Spark computes them only once.
    sized = given.withColumn("_refused", chosen(_refused).cast("string"))
    texts = [each for each in ways if not each.has_types]
    looked_at = sized.withColumn("_text", chosen(_text, texts).cast("string"))
    parsed = looked_at.withColumns({each.parsed: chosen(_parsed, [each]) for each in structs})
    judged = parsed.withColumn("_is_read", F.coalesce(chosen(_is_read, structs).cast("boolean"), F.lit(False)))
    value = F.col("value")
    of_schema = F.when(value.isNotNull() & ~F.col("_is_read"), F.lit(NOT_OF_SCHEMA))
    undecodable = {
        each: _unread(each) if each.payload.format == "text" else F.coalesce(_unread(each), of_schema) for each in ways
    }
    undecoded = [nth for nth, (each, _) in enumerate(decodings) if each.payload is None]
    fields = [F.lit(None).cast(field.type.sql()).alias(field.name) for field in whole.fields]
    empty = [(undecoded, F.when(value.isNotNull(), F.struct(*fields)))] if undecoded and fields else []
    payloads = [*(([each.number], _among(each, whole)) for each in ways), *empty]
    told = judged.withColumns(
        {
            "payload": kinds.of_kind(payloads, len(decodings)),
            "undecodable": chosen(lambda each: undecodable[each]).cast("string"),
        }
    )
    return told.drop(kinds.KIND, "_refused", "_text", "_is_read", *(each.parsed for each in structs))


def _refused(each: _Kind) -> Column:
    most = each.payload.max_bytes
    return F.when(F.octet_length(F.col("value")) > most, F.lit(TOO_LONG)) if most else F.lit(None)


def _text(each: _Kind) -> Column:
    """The value as text; null if it is refused or none, or lacks its prefix."""
    is_behind = each.written is not None and each.written.has_prefix
    body = (avro.without_prefix(F.col("value")) if is_behind else F.col("value")).cast("string")
    return F.when(F.col("_refused").isNull() & F.is_valid_utf8(body), body)


def _parsed(each: _Kind) -> Column:
    if each.has_types and each.written is not None:
        return avro.parsed(F.when(F.col("_refused").isNull(), F.col("value")), each.written, each.schema)
    return F.when(~_passes_bounds(F.col("_text"), each.schema), _parse(F.col("_text"), each.schema))


def _is_read(each: _Kind) -> Column:
    """Whether what was parsed is the value; null counts as no."""
    corrupt, found = F.col(f"{each.parsed}.{CORRUPT}"), F.col(each.parsed)
    if each.has_types:
        violated = _any_of(found, each.schema, _FAR_OUT_OF_TYPES)
        return corrupt.isNotNull() if violated is None else corrupt.isNotNull() & ~violated
    violated, is_whole = _any_of(found, each.schema, _FAR_OUT), found.isNotNull() & corrupt.isNull()
    return is_whole if violated is None else is_whole & ~F.coalesce(violated, F.lit(False))


def _unread(each: _Kind) -> Column:
    """Why a value was not even parsed; null if it was."""
    value = F.col("value")
    if each.has_types:
        return F.when(value.isNotNull(), F.col("_refused"))
    why = F.lit(NOT_UTF8)
    if each.written is not None and each.written.has_prefix:
        why = F.when(avro.has_prefix(value), why).otherwise(F.lit(NOT_OF_SCHEMA))
    return F.when(value.isNotNull() & F.col("_text").isNull(), F.coalesce("_refused", why))


def _among(each: _Kind, whole: Type) -> Column:
    """The payload with the fields of all topics, those of others null."""
    if each.payload.format == "text":
        return F.col("_text")
    found = F.col(each.parsed)
    if [field.name for field in each.schema.fields] == [field.name for field in whole.fields]:
        return F.when(F.col("_is_read"), found.dropFields(CORRUPT))
    known = {field.name for field in each.schema.fields}
    parts = [
        (found.getField(field.name) if field.name in known else F.lit(None).cast(field.type.sql())).alias(field.name)
        for field in whole.fields
    ]
    return F.when(F.col("_is_read"), F.struct(*parts))


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
_FAR_OUT_OF_TYPES = _Check(lambda kind: kind.name == "STRING" or _FAR_OUT.concerns(kind), _is_far_out)


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
