"""Hash the content by which copies of a record are recognized: key and value. Headers and timestamp are not compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.extract.per_topic import by_topic
from silver.extract.columns import erased_columns
from silver.suspects.compare import ERASED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

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
    """Return a hash of key and value, 64 hexadecimal digits; null and empty differ. If erased, see `compare.ERASED`."""
    parts = [F.coalesce(F.sha2(records[name], 256), F.lit("null")) for name in ("key", "value")]
    return _unless_erased(records, F.sha2(F.concat_ws(" ", *parts).cast("binary"), 256)).alias("content_sha256")


def _unless_erased(records: DataFrame, content: Column) -> Column:
    if not erased_columns(records):
        return content
    erased = records["erased"]
    is_collision = erased["is_collision"] if "problem" in _fields(records) else F.lit(False)
    return F.when(erased.isNotNull(), _of_erased(erased["up_to_offset"], is_collision)).otherwise(content)


def _of_erased(up_to_offset: Column, is_collision: Column) -> Column:
    """Return an erased record's content hash. Under its key, only copies that were erased with it have the same hash."""
    return F.concat(F.lit(ERASED), up_to_offset, F.when(is_collision, ":collision").otherwise(""))


def _fields(records: DataFrame) -> list[str]:
    kind = records.schema["erased"].dataType
    return kind.fieldNames() if isinstance(kind, StructType) else []
