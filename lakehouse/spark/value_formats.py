"""Checks that a session can decode the values of a format, before it is used."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql.types import BinaryType, StringType

from lakehouse.errors import ToolError, headline
from lakehouse.extract.protobuf import MESSAGE_PATH, TO_AVRO
from lakehouse.machine import jars
from lakehouse.machine.java import AVRO_LIMITS, AVRO_OPTIONS
from lakehouse.machine.storage_jar import PROTOBUF_MESSAGE_PATH, PROTOBUF_TO_AVRO
from lakehouse.settings import payload_schema, protobuf_schema

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import SparkSession


def require(spark: SparkSession, formats: Collection[str]) -> None:
    """Check that a session can decode these formats, and register our functions; raise a `ToolError` with what to add."""
    if "avro" in formats or "protobuf" in formats:
        _require_avro(spark)
    if "protobuf" in formats:
        _require_protobuf(spark)


@lru_cache(maxsize=1)
def _require_avro(spark: SparkSession) -> None:
    """Check that the session decodes Avro, and that an executor has the limits."""
    asked = ", ".join(f"reflect('java.lang.System', 'getProperty', '{name}')" for name in AVRO_LIMITS)
    try:
        spark.sql("""SELECT from_avro(X'', '"null"', map())""").schema  # noqa: B018 -- reading `schema` runs the analysis
        [found] = spark.sql(f"SELECT {asked} FROM range(1)").collect()  # noqa: S608 -- the names above
    except PySparkException as error:
        raise _unsafe_avro(headline(str(error))) from error
    if any(not (value or "").isdigit() or int(value) > most for value, most in zip(found, AVRO_LIMITS.values(), strict=True)):
        raise _unsafe_avro(", ".join(f"{name}={value}" for name, value in zip(AVRO_LIMITS, found, strict=True)))


def _unsafe_avro(observed: str) -> ToolError:
    return ToolError(
        "The session cannot decode Avro safely: a few bytes of a producer's could end its JVM.",
        where="the Spark session",
        observed=observed,
        expected=f"spark-avro, and the limits {AVRO_OPTIONS}",
        next_step=f"Start it with --packages {jars.coordinates('spark-avro_')}, and with these options in "
        "spark.driver.extraJavaOptions and spark.executor.extraJavaOptions; docs/formats.md.",
    )


@lru_cache(maxsize=1)
def _require_protobuf(spark: SparkSession) -> None:
    plan = protobuf_schema.plan([protobuf_schema.Schema("")], payload_schema.parse("a INT"), message="none")
    try:
        spark.udf.registerJavaFunction(TO_AVRO, PROTOBUF_TO_AVRO, BinaryType())
        spark.udf.registerJavaFunction(MESSAGE_PATH, PROTOBUF_MESSAGE_PATH, StringType())
        # From a range, so that an executor runs it, and not the driver alone.
        asked = f"{MESSAGE_PATH}(unhex('0000000000' || hex(id)))", f"{TO_AVRO}(unhex(hex(id)), X'{plan.hex()}')"
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
