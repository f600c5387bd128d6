"""Fetches the schemas that records were written with, by the ids at the start of their values.

Call `with_schemas` before decoding values or reading their fields. It runs one narrow query for the ids and one request for
each new id. An id without a schema fails the query that decodes.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from lakehouse.errors import ConfigError, RegistryError
from lakehouse.extract import avro, protobuf
from lakehouse.extract.per_topic import KIND, by_topic
from lakehouse.settings import avro_schema, payload_schema, protobuf_schema
from lakehouse.settings.protobuf_schema import ProtobufSchemaError
from lakehouse.spark import value_formats

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.run.context import Run
    from lakehouse.settings.payload_schema import Type
    from silver.rules import Reading, Rules

_MOST_IDS = 256  # per load: each id is a branch of the expression that decodes


def with_schemas(spark: SparkSession, run: Run, records: DataFrame, rules: Rules) -> Rules:
    """Return the rules with the schema of every id that the records carry.

    Reports `silver.schema_misfit` for a schema whose values cannot be decoded into the payload's fields.

    Raises:
        RegistryError: The registry cannot be reached or does not know an id, or there are more than 256 ids that are not in
            `undecodable_ids`.
        ConfigError: The rules need a registry, and the config names none.
        ToolError: The session cannot decode Avro or Protobuf, or no compiler for Protobuf schemas is installed.
    """
    kinds = rules.per_topic
    value_formats.require(spark, {each.written.format for each, _ in kinds if each.written is not None})
    asking = [nth for nth, (each, _) in enumerate(kinds) if _needs_schemas(each)]
    if not asking:
        return rules
    if run.registry is None:
        raise ConfigError(
            "Records were written with schemas of a registry, and the config names none.",
            where="value.registry",
            next_step="Put value.registry back: the load that has to be finished or read again was made with it.",
        )
    number = by_topic([(topics, F.lit(nth)) for nth, (_, topics) in enumerate(kinds)])
    asked, of_kinds = {}, records.withColumn(KIND, number).where(F.col(KIND).isin(*asking))
    met = _met(of_kinds, {nth: written.undecodable_ids for nth in asking if (written := kinds[nth][0].written)})
    for nth in asking:
        each = kinds[nth][0]
        schemas = tuple(
            (found.number, run.registry.of_format(each.written.format, found.number, met_at=found.place))
            for found in met
            if each.written is not None and found.kind == nth
        )
        _report_misfits(run, of_kinds.where(F.col(KIND) == nth), schemas, each)
        asked[each] = replace(each, written=each.written and replace(each.written, schemas=schemas))
    default = asked.get(kinds[0][0])
    own = tuple((topic, asked.get(each, each)) for topic, each in rules.own)
    return replace(rules, own=own, written=default.written if default else rules.written)


def _needs_schemas(each: Reading) -> bool:
    read = any(source is not None and source.form == "field" for source in (each.sequence, each.producer, each.epoch))
    return each.written is not None and each.written.names_schemas and (read or each.payload is not None)


class _Met(NamedTuple):
    kind: int
    number: int
    place: str


def _met(records: DataFrame, listed: Mapping[int, Sequence[int]]) -> list[_Met]:
    """Return the ids in the values of each kind of topics, except ids that the config lists as undecodable."""
    value, number = F.col("value"), avro.schema_id(F.col("value"))
    is_listed = [(F.col(KIND) == nth) & number.isin(*ids) for nth, ids in listed.items() if ids]
    asked = records.where(reduce(and_, (~each for each in is_listed), avro.has_prefix(value)))
    ids = asked.groupBy(KIND, number.alias("id"))
    found = ids.agg(F.min(F.struct("topic", "partition", "offset")).alias("first")).limit(_MOST_IDS + 1).collect()
    met = sorted(_Met(row[KIND], row["id"], "topic {}, partition {}, offset {}".format(*row["first"])) for row in found)
    if len(met) > _MOST_IDS:
        raise RegistryError(
            f"The records of one load carry the ids of more than {_MOST_IDS} schemas.",
            where="their values",
            observed="; ".join(f"{each.number} in {each.place}" for each in met[:3]),
            expected=f"at most {_MOST_IDS}",
            next_step="Nothing is lost. Ids in value.registry.undecodable_ids do not count, and their values are undecodable. "
            "List those that no schema has; where there are too many schemas, also those whose values can wait in quarantine.",
        )
    return met


def _report_misfits(run: Run, records: DataFrame, schemas: tuple[tuple[int, str], ...], each: Reading) -> None:
    if each.payload is None:
        return
    wanted = payload_schema.parse(each.payload.schema)
    if each.payload.format == "protobuf":
        misfits = _misfits_met(records, schemas, wanted)
    else:
        misfits = [(number, why) for number, schema in schemas if (why := avro_schema.misfit(schema, wanted))]
    for number, why in misfits:
        run.report.event("silver.schema_misfit", schema_id=number, why=why)


def _misfits_met(records: DataFrame, schemas: tuple[tuple[int, str], ...], wanted: Type) -> list[tuple[int, str]]:
    """Return the Protobuf schemas that do not fit, each with the reason. Checks only message types that occur in values."""
    found: list[tuple[int, str]] = []
    others: dict[tuple[int, str], str] = {}
    for number, schema in schemas:
        try:
            others |= {(number, path): why for path, why in protobuf_schema.misfits(schema, wanted).items()}
        except ProtobufSchemaError as error:
            found.append((number, str(error)))
    if others:
        value = F.col("value")
        named = records.where(avro.has_prefix(value)).select(
            avro.schema_id(value).alias("id"), protobuf.message_path(value).alias("path")
        )
        # Filter by the known pairs first, so that a producer's bytes cannot add groups.
        known = named.where(F.concat_ws(":", "id", "path").isin(*(f"{number}:{path}" for number, path in others)))
        found += [(row["id"], others[row["id"], row["path"]]) for row in known.distinct().collect()]
    return sorted(found)
