"""Hash the content by which copies of a record are recognized: key and value. Headers and timestamp are not compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakehouse.extract.per_topic import by_topic
from silver.extract.columns import erased_columns
from silver.suspects.compare import ERASED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from silver.rules import Rules

_VARIES = r'"(?:source|transaction|ts_[mun]s|__\w+)":\s*+(?:\{[^{}]*+\}|"(?:[^"\\]++|\\.)*+"|[^"{}\[\],]++)'
"""Fields of a change event that may differ when Debezium's connector sends it again: times, and the connector's version."""


def comparable(records: DataFrame, rules: Rules) -> DataFrame:
    """Return records for `content_sha256`: values of change events without `_VARIES`, as positions name events."""
    kinds = [(topics, each.sequence.form == "debezium") for each, topics in rules.sources.kinds]
    if not any(is_event for _, is_event in kinds):
        return records
    value = F.regexp_replace(F.col("value").cast("string"), _VARIES, "").cast("binary")
    return records.withColumn(
        "value", by_topic([(topics, value if is_event else F.col("value")) for topics, is_event in kinds])
    )


def content_sha256(records: DataFrame) -> Column:
    """Return a hash of key and value, 64 hexadecimal digits; null and empty differ. If erased, see `compare.ERASED`."""
    parts = [F.coalesce(F.sha2(records[name], 256), F.lit("null")) for name in ("key", "value")]
    return _unless_erased(records, F.sha2(F.concat_ws(" ", *parts).cast("binary"), 256)).alias("content_sha256")


def _unless_erased(records: DataFrame, content: Column) -> Column:
    if not erased_columns(records):
        return content
    erased = records["erased"]
    is_collision = erased["is_collision"] if "problem" in records.select("erased.*").columns else F.lit(False)
    # Under its key, only copies that were erased with it have the same hash.
    of_erased = F.concat(F.lit(ERASED), erased["up_to_offset"], F.when(is_collision, ":collision").otherwise(""))
    return F.when(erased.isNotNull(), of_erased).otherwise(content)
