"""Decodes values. Only this module determines whether a value is undecodable.

`decoded` adds two columns to records: `payload`, and `undecodable`, null for a decoded or null value, otherwise the reason:

- `value_too_long`: longer than `value.max_bytes`; it is not parsed.
- `value_not_utf8`: not valid UTF-8.
- `value_not_of_schema`: not JSON, a wrong type, a missing NOT NULL field, a value that its type does not hold, a duplicate key
  in a MAP, a schema without the fields' types. With a schema registry: a value without its prefix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.extract import per_topic, prefix
from lakehouse.settings import formats, payload_schema
from lakehouse.settings.payload_schema import CORRUPT, Type
from silver.extract import json_payload
from silver.extract.json_payload import Check, has_bounds, is_far_out

if TYPE_CHECKING:
    from lakehouse.extract.written import Written
    from lakehouse.run.context import Run
    from silver.rules import Payload, Rules

TOO_LONG = "value_too_long"
NOT_UTF8 = "value_not_utf8"
NOT_OF_SCHEMA = "value_not_of_schema"
_FAR_OUT = Check(lambda kind: kind.name == "STRING" or has_bounds(kind), is_far_out)


class _Kind(NamedTuple):
    """A way to decode values. `parsed` names the column with the parsed struct: the schema's fields and CORRUPT."""

    number: int
    payload: Payload
    schema: Type
    has_prefix: bool
    typed: Written | None
    parsed: str

    @classmethod
    def of(cls, number: int, payload: Payload, written: Written | None) -> _Kind:
        has_prefix, typed = written is not None and written.has_prefix, written if written and written.has_types else None
        return cls(number, payload, payload_schema.of(payload.schema), has_prefix, typed, f"_parsed_{number}")


def decoded(records: DataFrame, rules: Rules) -> DataFrame:
    """Add `payload`, of the rules' type, and `undecodable` (string), by the rules of each record's topic.

    The payload has the fields of all topics; fields of other topics are null. It is null only for a null or undecodable value.
    """
    decodings, whole = rules.decodings, rules.payload_type or payload_schema.of(None)
    ways = [_Kind.of(nth, each.payload, each.written) for nth, (each, _) in enumerate(decodings) if each.payload]
    structs = [each for each in ways if each.payload.format != "text"]

    def chosen(make: Callable[[_Kind], Column], among: Sequence[_Kind] = ways) -> Column:
        return per_topic.of_kind([([each.number], make(each)) for each in among], len(decodings)) if among else F.lit(None)

    given = per_topic.numbered(records, [topics for _, topics in decodings])
    # One projection per step: the next step uses its columns more than once, and Spark then computes them only once.
    texts = [each for each in ways if not each.typed]
    looked_at = given.withColumn("_text", chosen(_text, texts).cast("string"))
    parsed = looked_at.withColumns({each.parsed: chosen(_parsed, [each]) for each in structs})
    if of_connect := [each for each in structs if not each.typed and each.schema.at("payload")]:
        parsed = parsed.withColumns(
            {each.parsed: json_payload.with_times(F.col(each.parsed), each.schema) for each in of_connect}
        )
    judged = parsed.withColumn("_is_read", F.coalesce(chosen(_is_read, structs).cast("boolean"), F.lit(False)))
    undecoded = [nth for nth, (each, _) in enumerate(decodings) if each.payload is None]
    fields = [F.lit(None).cast(field.type.sql()).alias(field.name) for field in whole.fields]
    empty = [(undecoded, F.when(F.col("value").isNotNull(), F.struct(*fields)))] if undecoded and fields else []
    payloads = [*(([each.number], _among(each, whole)) for each in ways), *empty]
    found = {"payload": per_topic.of_kind(payloads, len(decodings)), "undecodable": chosen(_undecodable).cast("string")}
    return judged.withColumns(found).drop(per_topic.KIND, "_text", "_is_read", *(each.parsed for each in structs))


def require_decoders(spark: SparkSession, rules: Rules) -> None:
    """Raise a `ToolError` if the session or this Python cannot decode the values of the rules."""
    for name in {each.written.format for each, _ in rules.per_topic if each.written is not None and each.written.has_types}:
        formats.load(name).require_decoder(spark)


def with_schemas(spark: SparkSession, run: Run, records: DataFrame, rules: Rules) -> Rules:
    """Return the rules with the schema of every id that the records carry. Call it before values or their fields are read.

    Reports `silver.schema_misfit` for a schema whose values cannot be decoded into the payload's fields. RegistryError if the
    registry cannot be reached, does not know an id, or there are more than 256 ids that are not in `undecodable_ids`.
    """
    require_decoders(spark, rules)
    if not any(each.needs_schemas for each, _ in rules.per_topic):
        return rules
    prepared: Rules = formats.load("registry").prepare(run, records, rules)
    return prepared


def _is_too_long(each: _Kind) -> Column:
    most = each.payload.max_bytes
    return F.octet_length("value") > most if most else F.lit(False)


def _text(each: _Kind) -> Column:
    """Return the value as text; null if it is too long, null, or lacks its prefix."""
    body = (prefix.without_prefix(F.col("value")) if each.has_prefix else F.col("value")).cast("string")
    return F.when(~_is_too_long(each) & F.is_valid_utf8(body), body)


def _parsed(each: _Kind) -> Column:
    if each.typed:
        return each.typed.decoder.decode(F.when(~_is_too_long(each), F.col("value")), each.typed, each.schema)
    return json_payload.parse(F.col("_text"), each.schema)


def _is_read(each: _Kind) -> Column:
    found = F.col(each.parsed)
    if each.typed:
        return found[CORRUPT].isNotNull() & ~_FAR_OUT.any_in(found, each.schema)
    return json_payload.is_read(found, F.col("_text"), each.schema)


def _undecodable(each: _Kind) -> Column:
    """Return why a value was not decoded; null if it was."""
    value, why = F.col("value"), F.lit(NOT_UTF8)
    if each.has_prefix:
        why = F.when(prefix.has_prefix(value), why).otherwise(F.lit(NOT_OF_SCHEMA))
    no_text = F.when(F.col("_text").isNull(), why)
    unread = F.when(~F.col("_is_read"), F.lit(NOT_OF_SCHEMA))
    found = no_text if each.payload.format == "text" else unread if each.typed else F.coalesce(no_text, unread)
    return F.when(value.isNotNull(), F.when(_is_too_long(each), F.lit(TOO_LONG)).otherwise(found))


def _among(each: _Kind, whole: Type) -> Column:
    """Return the payload with the fields of all topics; fields of other topics are null."""
    if each.payload.format == "text":
        return F.col("_text")
    found = F.col(each.parsed).dropFields(CORRUPT) if each.typed else json_payload.payload(F.col(each.parsed), each.schema)
    if [field.name for field in each.schema.fields] == [field.name for field in whole.fields]:
        return F.when(F.col("_is_read"), found)
    known = {field.name for field in each.schema.fields}
    parts = [
        (found.getField(field.name) if field.name in known else F.lit(None).cast(field.type.sql())).alias(field.name)
        for field in whole.fields
    ]
    return F.when(F.col("_is_read"), F.struct(*parts))
