"""Limits on what a few bytes of Avro may claim: without them, ten bytes that name a list of two billion items end the JVM."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from lakehouse.errors import ToolError, headline
from lakehouse.machine import jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIMITS = {
    "org.apache.avro.limits.bytes.maxLength": 16_777_216,
    "org.apache.avro.limits.string.maxLength": 16_777_216,
    "org.apache.avro.limits.collectionItems.maxLength": 1_000_000,
}
"""Properties of the JVM, read once when it first decodes: the most bytes of a text, and the most items of a list or map."""

JAVA_OPTIONS = " ".join(f"-D{name}={most}" for name, most in LIMITS.items())


@lru_cache(maxsize=1)
def require(spark: SparkSession) -> None:
    """Check once per session that it decodes Avro, and that an executor has the limits; raise a `ToolError` otherwise."""
    asked = ", ".join(f"reflect('java.lang.System', 'getProperty', '{name}')" for name in LIMITS)
    try:
        spark.sql("""SELECT from_avro(X'', '"null"', map())""").schema  # noqa: B018 -- reading `schema` runs the analysis
        [found] = spark.sql(f"SELECT {asked} FROM range(1)").collect()  # noqa: S608 -- the names above
    except PySparkException as error:
        raise _cannot(headline(str(error))) from error
    if any(not (value or "").isdigit() or int(value) > most for value, most in zip(found, LIMITS.values(), strict=True)):
        raise _cannot(", ".join(f"{name}={value}" for name, value in zip(LIMITS, found, strict=True)))


def _cannot(observed: str) -> ToolError:
    package = jars.coordinates("spark-avro_")
    return ToolError(
        "The session cannot decode Avro safely: a few bytes of a producer's could end its JVM.",
        where="the Spark session",
        observed=observed,
        expected=f"spark-avro, and the limits {JAVA_OPTIONS}",
        next_step=f"Start it with --packages {package}, and with these options in spark.driver.extraJavaOptions and "
        "spark.executor.extraJavaOptions; docs/formats.md.",
    )
