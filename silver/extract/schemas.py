"""The schemas that records were written with: asked of the registry by the ids that stand before their values.

An action, before anything is decoded: one narrow query for the ids, and one question for each that is new. Whoever decodes
values or reads fields of them calls `with_schemas` first; an id that nobody asked for fails the query.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakehouse.errors import ConfigError, RegistryError
from lakehouse.extract import avro
from lakehouse.settings import avro_schema, payload_schema
from lakehouse.spark import avro_limits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.run.context import Run
    from silver.rules import Rules

_MOST_IDS = 256
"""Of one load: each other schema is a branch of the expression that decodes."""


def with_schemas(spark: SparkSession, run: Run, records: DataFrame, rules: Rules) -> Rules:
    """Return the rules with the schema of every id that the records carry.

    Reports `silver.schema_misfit` for a schema whose values cannot be decoded into the payload's fields.

    Args:
        spark: The session.
        run: The run, with its registry.
        records: Rows with topic, partition, offset and value.
        rules: The rules.

    Raises:
        RegistryError: The registry cannot be reached or does not know an id, or there are more than 256 ids.
        ConfigError: The rules need a registry, and the config names none.
        ToolError: The session cannot decode Avro.
    """
    written = rules.written
    if written is None or written.format != "avro":
        return rules
    avro_limits.require(spark)
    if not written.names_schemas or not (rules.payload or any(each.form == "field" for each in rules.sources.by_role.values())):
        return rules
    if run.registry is None:
        raise ConfigError(
            "Records were written with schemas of a registry, and the config names none.",
            where="value.registry",
            next_step="Put value.registry back: the load that has to be finished or read again was made with it.",
        )
    schemas = tuple(
        (number, run.registry.avro_schema(number, met_at=place))
        for number, place in _met(records)
        if number not in written.undecodable_ids
    )
    _report_misfits(run, schemas, rules)
    return replace(rules, written=replace(written, schemas=schemas))


def _met(records: DataFrame) -> list[tuple[int, str]]:
    """The ids that the values carry, each with the place of a record."""
    value = F.col("value")
    ids = records.where(avro.has_prefix(value)).groupBy(avro.schema_id(value).alias("id"))
    found = ids.agg(F.min(F.struct("topic", "partition", "offset")).alias("first")).limit(_MOST_IDS + 1).collect()
    met = sorted((row["id"], "topic {}, partition {}, offset {}".format(*row["first"])) for row in found)
    if len(met) > _MOST_IDS:
        raise RegistryError(
            f"The records of one load carry the ids of more than {_MOST_IDS} schemas.",
            where="their values",
            observed="; ".join(f"{number} in {place}" for number, place in met[:3]),
            expected=f"at most {_MOST_IDS}",
            next_step="Nothing is lost. Ids that no schema has can be listed in value.registry.undecodable_ids.",
        )
    return met


def _report_misfits(run: Run, schemas: tuple[tuple[int, str], ...], rules: Rules) -> None:
    if rules.payload is None:
        return
    wanted = payload_schema.parse(rules.payload.schema)
    for number, schema in schemas:
        if why := avro_schema.misfit(schema, wanted):
            run.report.event("silver.schema_misfit", schema_id=number, why=why)
