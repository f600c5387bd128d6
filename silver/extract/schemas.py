"""Prepares what decodes values. Call `with_schemas` before values are decoded or their fields are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.settings import formats

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.run.context import Run
    from silver.rules import Rules


def require_decoders(spark: SparkSession, rules: Rules) -> None:
    """Raise a `ToolError` if the session or this Python cannot decode the values of the rules."""
    for name in {each.written.format for each, _ in rules.per_topic if each.written is not None and each.written.has_types}:
        formats.load(name).require(spark)


def with_schemas(spark: SparkSession, run: Run, records: DataFrame, rules: Rules) -> Rules:
    """Return the rules with the schema of every id that the records carry.

    Reports `silver.schema_misfit` for a schema whose values cannot be decoded into the payload's fields.

    Raises:
        RegistryError: The registry cannot be reached or does not know an id, or there are more than 256 ids that are not in
            `undecodable_ids`.
        ConfigError: The rules need a registry, and the config names none.
        ToolError: As `require_decoders`, or no compiler for Protobuf schemas is installed.
    """
    require_decoders(spark, rules)
    if not any(each.needs_schemas for each, _ in rules.per_topic):
        return rules
    prepared: Rules = formats.load("registry").prepare(run, records, rules)
    return prepared
