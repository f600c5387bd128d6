"""Hash the content by which copies of a record are recognized: key and value. Headers and timestamp are not compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.extract.per_topic import by_topic
from silver.suspects.compare import ERASED

if TYPE_CHECKING:
    from lakehouse.extract.sources import Sources
    from silver.rules import Rules

_VARIES = r"(?:source|transaction|ts_[mun]s|__\w+)"
"""Fields of a change event that may differ when Debezium's connector sends it again: times, and the connector's version."""
_IN_JSON = rf'"{_VARIES}":\s*+(?:\{{[^{{}}]*+\}}|"(?:[^"\\]++|\\.)*+"|[^"{{}}\[\],]++)'


def comparable(records: DataFrame, rules: Rules) -> DataFrame:
    """Return records for `content_sha256`: values of change events without `_VARIES`, as positions name events."""
    kinds = rules.sources.kinds
    if not any(each.sequence.form == "debezium" for each, _ in kinds):
        return records
    return records.withColumn("value", by_topic([(topics, _compared(each)) for each, topics in kinds]))


def _compared(sources: Sources) -> Column:
    value = F.col("value")
    if written := sources.decoded_event:
        return written.decoder.content(value, written, _VARIES)
    if sources.sequence.form != "debezium":
        return value
    return F.regexp_replace(value.cast("string"), _IN_JSON, "").cast("binary")


def content_sha256(records: DataFrame) -> Column:
    """Return a hash of key and value, 64 hexadecimal digits; null and empty differ.

    An erased record has `compare.ERASED` instead. Under its key, only copies that were erased with it have the same hash.
    """
    parts = [F.coalesce(F.sha2(records[name], 256), F.lit("null")) for name in ("key", "value")]
    content = F.sha2(F.concat_ws(" ", *parts).cast("binary"), 256)
    if "erased" in records.columns:
        erased, of_bronze = records["erased"], "is_collision" in records.select("erased.*").columns
        suffix = F.when(erased["is_collision"], ":collision").otherwise("") if of_bronze else F.lit("")
        content = F.when(erased.isNotNull(), F.concat(F.lit(ERASED), erased["up_to_offset"], suffix)).otherwise(content)
    return content.alias("content_sha256")
