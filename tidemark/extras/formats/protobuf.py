"""Decodes Protobuf values as Columns: of one message, or of the schema and message that each value names.

Our function `ProtobufToAvro.java` converts a value to Avro of the wanted fields; other bytes give null, never an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType

from lakehouse.errors import ToolError, headline
from lakehouse.extract import prefix
from lakehouse.machine import jars
from lakehouse.machine.storage_jar import PROTOBUF_MESSAGE_PATH, PROTOBUF_TO_AVRO
from lakehouse.settings import payload_schema
from tidemark.extras.formats import avro, protobuf_schema
from tidemark.extras.formats.protobuf_schema import ProtobufSchemaError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakehouse.extract.written import Written
    from lakehouse.settings.payload_schema import Type

_TO_AVRO = "tidemark_protobuf_to_avro"
_MESSAGE_PATH = "tidemark_protobuf_message_path"
_NO_ID = -1


@lru_cache(maxsize=1)
def require_decoder(spark: SparkSession) -> None:
    """Check that the session decodes Protobuf, and register our functions; otherwise raise a `ToolError`."""
    avro.require_decoder(spark)
    plan = protobuf_schema.plan([(_NO_ID, "")], payload_schema.parse("a INT"), message="none")
    try:
        spark.udf.registerJavaFunction(_TO_AVRO, PROTOBUF_TO_AVRO, BinaryType())
        spark.udf.registerJavaFunction(_MESSAGE_PATH, PROTOBUF_MESSAGE_PATH, StringType())
        # From a range, so that an executor runs it, and not the driver alone.
        asked = f"{_MESSAGE_PATH}(unhex('0000000000' || hex(id)))", f"{_TO_AVRO}(unhex(hex(id)), X'{plan.hex()}')"
        spark.range(1).selectExpr(*asked).collect()
    except (PySparkException, TypeError) as error:
        raise ToolError(
            "The session cannot decode Protobuf: it lacks our own jar, or protobuf-java.",
            where="the Spark session",
            observed=headline(str(error)),
            expected=f"{PROTOBUF_TO_AVRO}, and {jars.coordinates('protobuf-java')}",
            next_step=f"Start it with --packages {jars.coordinates('protobuf-java')}, and with tidemark-*.jar of the folder "
            "that `tidemark jars fetch` prints in --jars; docs/formats.md.",
        ) from error


def decode(value: Column, written: Written, wanted: Type) -> Column:
    """See `lakehouse.extract.written.Decoder`."""
    struct = avro.decoded_type(wanted)
    if not written.has_prefix:
        plan = protobuf_schema.plan([(_NO_ID, written.schema)], wanted, message=written.message)
        return _by(value, plan, wanted, struct)
    numbers = [number for number, _ in written.schemas]
    plan = protobuf_schema.plan(written.schemas, wanted)
    return avro.by_id(value, written, struct, [(numbers, _by(value, plan, wanted, struct))] if numbers else [])


def _by(value: Column, plan: bytes, wanted: Type, struct: str) -> Column:
    options = F.create_map(F.lit("mode"), F.lit("PERMISSIVE"))
    converted = F.call_function(_TO_AVRO, value, F.lit(plan))
    return F.call_function("from_avro", converted, F.lit(protobuf_schema.target(wanted)), options).cast(struct)


def content(value: Column, _written: Written, _left_out: str) -> Column:
    """See `lakehouse.extract.written.Decoder`. The config refuses change events in Protobuf."""
    return value


def misfits(records: DataFrame, schemas: Sequence[tuple[int, str]], wanted: Type) -> list[tuple[int, str]]:
    """See `lakehouse.extract.written.Decoder`. Checks only types of messages that occur in the values."""
    found: list[tuple[int, str]] = []
    others: dict[tuple[int, str], str] = {}
    for number, schema in schemas:
        try:
            others |= {(number, path): why for path, why in protobuf_schema.misfits(schema, wanted).items()}
        except ProtobufSchemaError as error:
            found.append((number, str(error)))
    if others:
        value = F.col("value")
        indexes = F.call_function(_MESSAGE_PATH, value)  # like 0 or 2.0; null if a value has none
        named = records.where(prefix.has_prefix(value)).select(prefix.schema_id(value).alias("id"), indexes.alias("path"))
        # Filter by the known pairs first, so that a producer's bytes cannot add groups.
        known = named.where(F.concat_ws(":", "id", "path").isin(*(f"{number}:{path}" for number, path in others)))
        found += [(row["id"], others[row["id"], row["path"]]) for row in known.distinct().collect()]
    return sorted(found)
