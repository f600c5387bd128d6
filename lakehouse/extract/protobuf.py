"""Protobuf values as Columns: of one message, or of the schema and the message that are named before each value.

A function of our own, `ProtobufToAvro.java`, turns a value into Avro of the wanted fields, for Spark's `from_avro`. Bytes that
are no such message give null, and never an error. A session knows it once `lakehouse.spark.value_formats` was asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakehouse.settings import protobuf_schema
from lakehouse.settings.protobuf_schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lakehouse.extract.written import Written
    from lakehouse.settings.payload_schema import Type

TO_AVRO = "tidemark_protobuf_to_avro"
MESSAGE_PATH = "tidemark_protobuf_message_path"


def parsed(value: Column, written: Written, wanted: Type) -> Column:
    """Decode a value.

    Args:
        value: The bytes.
        written: How they were written. Must know the schema of every id that a value carries: another one fails the query.
        wanted: The fields.

    Returns:
        A struct of the fields and CORRUPT, which is false if the value was decoded and otherwise null; not of the wanted types
        yet.
    """
    if written.has_prefix:
        plan = protobuf_schema.plan([Schema(text, number) for number, text in written.schemas], wanted)
    else:
        plan = protobuf_schema.plan([Schema(written.schema)], wanted, message=written.message)
    options = F.create_map(F.lit("mode"), F.lit("PERMISSIVE"))
    return F.call_function(
        "from_avro", F.call_function(TO_AVRO, value, F.lit(plan)), F.lit(protobuf_schema.target(wanted)), options
    )


def message_path(value: Column) -> Column:
    """The indexes by which a value names its message, like 0 or 2.0; null where there are none."""
    return F.call_function(MESSAGE_PATH, value)
