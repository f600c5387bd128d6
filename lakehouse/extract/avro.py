"""Decodes Avro values as Columns: by one schema, or by the schema whose id precedes each value.

Spark's `from_avro` returns null for bytes that do not fit, if the JVM limits the lengths that they may declare
(`lakehouse.machine.java.AVRO_LIMITS`). It ignores bytes after a value. So a mark is appended to the bytes, and a record of
value and mark is read. Protobuf is converted to Avro first.
"""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakehouse.extract import protobuf
from lakehouse.extract.written import PREFIX_BYTES
from lakehouse.settings import avro_schema
from lakehouse.settings.avro_schema import AvroSchemaError
from lakehouse.settings.payload_schema import CORRUPT, Field, Type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column

    from lakehouse.extract.written import Written


_SYMBOLS = [f"s{nth}" for nth in range(64)]
_MARK = [secrets.randbelow(len(_SYMBOLS)) for _ in range(8)]
"""Numbers of symbols, each a byte in Avro. A reader accepts only these symbols, and no producer knows them."""


def has_prefix(value: Column) -> Column:
    """Whether a value has the wire format's prefix; false for null."""
    return F.coalesce((F.octet_length(value) >= PREFIX_BYTES) & (F.substring(value, 1, 1) == F.lit(b"\x00")), F.lit(False))


def schema_id(value: Column) -> Column:
    """Return the id in the prefix, 0 to 2^32-1."""
    return F.conv(F.hex(F.substring(value, 2, 4)), 16, 10).cast("bigint")


def without_prefix(value: Column) -> Column:
    """Return the bytes after the prefix; null if there is no prefix."""
    return F.when(has_prefix(value), F.substring(value, PREFIX_BYTES + 1, 2**31 - 1))


def parsed(value: Column, written: Written, wanted: Type) -> Column:
    """Decode values to a struct of the wanted fields and CORRUPT, which is false if a value was decoded, and otherwise null.

    `written` must have the schema of every id in the values: another id fails the query. A scalar named KEY is read as text
    from whole numbers and text.
    """
    struct = Type("struct", fields=(*_as_text(wanted).fields, Field(CORRUPT, Type("scalar", "BOOLEAN")))).sql()
    nothing = F.lit(None).cast(struct)
    if not written.has_prefix:
        is_avro = written.format == "avro"
        return _by(value, written.schema, wanted, struct) if is_avro else protobuf.parsed(value, written, wanted).cast(struct)
    body, number = without_prefix(value), schema_id(value)
    found = F.when(body.isNull(), nothing)
    if written.undecodable_ids:
        found = found.when(number.isin(*written.undecodable_ids), nothing)
    if written.format == "protobuf" and written.schemas:
        numbers = [each for each, _ in written.schemas]
        found = found.when(number.isin(*numbers), protobuf.parsed(value, written, wanted).cast(struct))
    elif written.format == "avro":
        # One branch for all ids of the same schema: subjects often share one.
        ids: dict[str, list[int]] = {}
        for each, schema in written.schemas:
            ids.setdefault(schema, []).append(each)
        for schema, numbers in ids.items():
            found = found.when(number.isin(*numbers), _by(body, schema, wanted, struct))
    unknown = F.raise_error(F.concat(F.lit("No schema was asked for the id "), number.cast("string"))).cast(struct)
    return found.otherwise(unknown)


def _by(value: Column, schema: str, wanted: Type, struct: str) -> Column:
    try:
        writer = avro_schema.writer(schema)
        reader = avro_schema.reader(writer, wanted)
    except AvroSchemaError:
        return F.lit(None).cast(struct)
    marked = F.concat(value, F.lit(bytes(2 * nth for nth in _MARK)))
    marked_reader = _with_mark(reader, [[_SYMBOLS[nth]] for nth in _MARK])
    options = F.create_map(F.lit("mode"), F.lit("PERMISSIVE"), F.lit("avroSchema"), F.lit(marked_reader))
    # By name: without the jar on the client, Spark Connect has no such function in pyspark's module.
    found = F.call_function("from_avro", marked, F.lit(_with_mark(writer.text, [_SYMBOLS] * len(_MARK))), options)
    return found["value"].cast(struct)


def _with_mark(schema: str, symbols: Sequence[Sequence[str]]) -> str:
    mark = [{"type": "enum", "name": f"tidemark_mark_{nth}", "symbols": each} for nth, each in enumerate(symbols)]
    fields = [
        {"name": "value", "type": json.loads(schema)},
        *({"name": f"mark_{nth}", "type": each} for nth, each in enumerate(mark)),
    ]
    return json.dumps({"type": "record", "name": "tidemark_marked", "fields": fields})


def _as_text(wanted: Type) -> Type:
    if wanted == avro_schema.KEY:
        return Type("scalar", "STRING")
    fields = tuple(Field(each.name, _as_text(each.type)) for each in wanted.fields)
    return Type(wanted.kind, wanted.name, wanted.digits, _as_text(wanted.of) if wanted.of else None, fields)
