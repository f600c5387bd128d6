"""Decodes Avro values as Columns: by one schema, or by the schema whose id precedes each value.

Spark's `from_avro` returns null for bytes that do not fit, if the JVM limits the lengths that they may declare
(`lakehouse.machine.java.AVRO_LIMITS`). It ignores bytes after a value. So a mark is appended to the bytes, and a record of
value and mark is read.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from lakehouse.errors import ToolError, headline
from lakehouse.extract import prefix
from lakehouse.extract.written import KEY
from lakehouse.machine import jars
from lakehouse.machine.java import AVRO_LIMITS, AVRO_OPTIONS
from lakehouse.settings.payload_schema import CORRUPT, Field, Type
from silver.extract.json_payload import Check
from tidemark.extras.formats import avro_schema
from tidemark.extras.formats.avro_schema import AvroSchemaError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakehouse.extract.written import Written
    from tidemark.extras.formats.avro_schema import Writer


_SYMBOLS = [f"s{nth}" for nth in range(64)]
_MARK = [secrets.randbelow(len(_SYMBOLS)) for _ in range(8)]
"""Numbers of symbols, each a byte in Avro. A reader accepts only these symbols, and no producer knows them."""


@lru_cache(maxsize=1)
def require_decoder(spark: SparkSession) -> None:
    """Check that the session decodes Avro, and that an executor has the limits; otherwise raise a `ToolError`."""
    asked = ", ".join(f"reflect('java.lang.System', 'getProperty', '{name}')" for name in AVRO_LIMITS)
    try:
        spark.sql("""SELECT from_avro(X'', '"null"', map())""").schema  # noqa: B018 -- reading `schema` runs the analysis
        [found] = spark.sql(f"SELECT {asked} FROM range(1)").collect()  # noqa: S608 -- the names above
    except PySparkException as error:
        raise _unsafe(headline(str(error))) from error
    if any(not (value or "").isdigit() or int(value) > most for value, most in zip(found, AVRO_LIMITS.values(), strict=True)):
        raise _unsafe(", ".join(f"{name}={value}" for name, value in zip(AVRO_LIMITS, found, strict=True)))


def _unsafe(observed: str) -> ToolError:
    return ToolError(
        "The session cannot decode Avro safely: a few bytes of a producer's could end its JVM.",
        where="the Spark session",
        observed=observed,
        expected=f"spark-avro, and the limits {AVRO_OPTIONS}",
        next_step=f"Start it with --packages {jars.coordinates('spark-avro_')}, and with these options in "
        "spark.driver.extraJavaOptions and spark.executor.extraJavaOptions; docs/formats.md.",
    )


def decode(value: Column, written: Written, wanted: Type) -> Column:
    """See `lakehouse.extract.written.Decoder`."""
    struct = decoded_type(wanted)
    if not written.has_prefix:
        return _by(value, written.schema, wanted, struct)
    body = prefix.without_prefix(value)
    cases = [(numbers, _by(body, schema, wanted, struct)) for schema, numbers in _ids(written).items()]
    return by_id(value, written, struct, cases)


def _ids(written: Written) -> dict[str, list[int]]:
    """Return the ids of each schema, for one branch each: subjects often share one."""
    ids: dict[str, list[int]] = {}
    for number, schema in written.schemas:
        ids.setdefault(schema, []).append(number)
    return ids


def content(value: Column, written: Written, left_out: str) -> Column:
    """See `lakehouse.extract.written.Decoder`."""
    body = prefix.without_prefix(value) if written.has_prefix else value
    found = []
    for schema, numbers in (_ids(written) if written.has_prefix else {written.schema: []}).items():
        try:
            fields, _ = avro_schema.fields(avro_schema.writer(schema))
        except AvroSchemaError:
            continue
        wanted = Type("struct", fields=tuple(each for each in fields.fields if not re.fullmatch(left_out, each.name)))
        text = F.to_json(_by(body, schema, wanted, decoded_type(wanted))).cast("binary")
        found.append(F.when(prefix.schema_id(value).isin(*numbers), text) if numbers else text)
    return F.coalesce(*found, value)


def misfits(_records: DataFrame, schemas: Sequence[tuple[int, str]], wanted: Type) -> list[tuple[int, str]]:
    """See `lakehouse.extract.written.Decoder`."""
    return [(number, why) for number, schema in schemas if (why := avro_schema.misfit(schema, wanted))]


def decoded_type(wanted: Type) -> str:
    """Return the type of a decoded value as SQL: the wanted fields and CORRUPT."""
    return Type("struct", fields=(*_as_text(wanted).fields, Field(CORRUPT, Type("scalar", "BOOLEAN")))).sql()


def by_id(value: Column, written: Written, struct: str, cases: Sequence[tuple[Sequence[int], Column]]) -> Column:
    """Return the case of a value's id: null without a prefix or for an undecodable id; an unknown id fails the query."""
    number, nothing = prefix.schema_id(value), F.lit(None).cast(struct)
    found = F.when(prefix.without_prefix(value).isNull(), nothing)
    if written.undecodable_ids:
        found = found.when(number.isin(*written.undecodable_ids), nothing)
    for numbers, decoded in cases:
        found = found.when(number.isin(*numbers), decoded)
    unknown = F.raise_error(F.concat(F.lit("No schema was asked for the id "), number.cast("string"))).cast(struct)
    return found.otherwise(unknown)


def _by(value: Column, schema: str, wanted: Type, struct: str) -> Column:
    nothing = F.lit(None).cast(struct)
    try:
        branches = avro_schema.branches(avro_schema.writer(schema))
    except AvroSchemaError:
        return nothing
    if not branches[0][0]:
        return _of_record(value, branches[0][1], wanted, struct)
    found = nothing
    for index, writer in branches:
        is_branch = F.substring(value, 1, len(index)) == F.lit(index)
        body = F.substring(value, len(index) + 1, 2**31 - 1)
        found = F.when(is_branch, _of_record(body, writer, wanted, struct)).otherwise(found)
    return found


def _of_record(value: Column, writer: Writer, wanted: Type, struct: str) -> Column:
    try:
        reader = avro_schema.reader(writer, wanted)
    except AvroSchemaError:
        return F.lit(None).cast(struct)
    marked = F.concat(value, F.lit(bytes(2 * nth for nth in _MARK)))
    marked_reader = _with_mark(reader, [[_SYMBOLS[nth]] for nth in _MARK])
    options = F.create_map(F.lit("mode"), F.lit("PERMISSIVE"), F.lit("avroSchema"), F.lit(marked_reader))
    # By name: without the jar on the client, Spark Connect has no such function in pyspark's module.
    found = F.call_function("from_avro", marked, F.lit(_with_mark(writer.text, [_SYMBOLS] * len(_MARK))), options)["value"]
    if not any(each in writer.text for each in _MAY_BE_LOST):
        return found.cast(struct)
    return F.when(~_LOST.any_in(found, wanted), found.try_cast(struct))


def _is_lost(found: Column, kind: Type) -> Column:
    """Whether a decimal has more digits than its field, or a text is no time with a date."""
    is_wrong = found.try_cast(kind.sql()).isNull()
    return found.isNotNull() & (is_wrong if kind.digits else is_wrong | found.try_cast("date").isNull())


_MAY_BE_LOST = ('"bytes", "logicalType": "decimal"', '"timestamp-text"')
"""Parts of a schema whose values a field may not hold. Spark may decode a value again to look for them."""
_LOST = Check(lambda kind: kind.name in ("DECIMAL", "TIMESTAMP"), _is_lost)


def _with_mark(schema: str, symbols: Sequence[Sequence[str]]) -> str:
    mark = [{"type": "enum", "name": f"tidemark_mark_{nth}", "symbols": each} for nth, each in enumerate(symbols)]
    fields = [
        {"name": "value", "type": json.loads(schema)},
        *({"name": f"mark_{nth}", "type": each} for nth, each in enumerate(mark)),
    ]
    return json.dumps({"type": "record", "name": "tidemark_marked", "fields": fields})


def _as_text(wanted: Type) -> Type:
    if wanted == KEY:
        return Type("scalar", "STRING")
    fields = tuple(Field(each.name, _as_text(each.type)) for each in wanted.fields)
    return Type(wanted.kind, wanted.name, wanted.digits, _as_text(wanted.of) if wanted.of else None, fields)
