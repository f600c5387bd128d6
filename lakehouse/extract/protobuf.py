"""Decodes Protobuf values as Columns: of one message, or of the schema and message that each value names.

Our function `ProtobufToAvro.java` converts a value to Avro of the wanted fields; other bytes give null, never an error.
`lakehouse.spark.value_formats` registers it in a session.
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
    """Decode values as `avro.parsed` does, except that the fields do not have the wanted types yet."""
    if written.has_prefix:
        plan = protobuf_schema.plan([Schema(text, number) for number, text in written.schemas], wanted)
    else:
        plan = protobuf_schema.plan([Schema(written.schema)], wanted, message=written.message)
    options = F.create_map(F.lit("mode"), F.lit("PERMISSIVE"))
    return F.call_function(
        "from_avro", F.call_function(TO_AVRO, value, F.lit(plan)), F.lit(protobuf_schema.target(wanted)), options
    )


def message_path(value: Column) -> Column:
    """Return the message indexes of a value, like 0 or 2.0; null if it has none."""
    return F.call_function(MESSAGE_PATH, value)
