"""Fetches the schemas that records were written with from a schema registry, by the ids at the start of their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakehouse.errors import ConfigError, RegistryError
from lakehouse.extract import prefix
from lakehouse.extract.per_topic import KIND, by_topic
from lakehouse.settings import payload_schema
from tidemark.extras.formats.registry_client import SchemaRegistry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakehouse.run.context import Run
    from silver.rules import Rules

__all__ = ["SchemaRegistry", "prepare"]

_MOST_IDS = 256  # per load: each id is a branch of the expression that decodes


def prepare(run: Run, records: DataFrame, rules: Rules) -> Rules:
    """Return the rules with the schema of every id that the records carry: see `silver.extract.payload.with_schemas`.

    Runs one narrow query for the ids of all topics, and one request for each new id.
    """
    if run.registry is None:
        raise ConfigError(
            "Records were written with schemas of a registry, and the config names none.",
            where="value.registry",
            next_step="Put value.registry back: the load that has to be finished or read again was made with it.",
        )
    kinds = rules.per_topic
    written = {nth: each.written for nth, (each, _) in enumerate(kinds) if each.written is not None and each.needs_schemas}
    kind = by_topic([(topics, F.lit(nth)) for nth, (_, topics) in enumerate(kinds)])
    asked, of_kinds = {}, records.withColumn(KIND, kind).where(F.col(KIND).isin(*written))
    met = _met(of_kinds, {nth: how.undecodable_ids for nth, how in written.items()})
    for nth, how in written.items():
        each, _ = kinds[nth]
        ids = [(number, place) for of_kind, number, place in met if of_kind == nth]
        schemas = tuple((number, run.registry.of_format(how.format, number, met_at=place)) for number, place in ids)
        if each.payload is not None:
            wanted = payload_schema.parse(each.payload.schema)
            for number, why in how.decoder.misfits(of_kinds.where(F.col(KIND) == nth), schemas, wanted):
                run.report.event("silver.schema_misfit", schema_id=number, why=why)
        asked[each] = replace(each, written=replace(how, schemas=schemas))
    default = asked.get(kinds[0][0])
    own = tuple((topic, asked.get(each, each)) for topic, each in rules.own)
    return replace(rules, own=own, written=default.written if default else rules.written)


def _met(records: DataFrame, listed: Mapping[int, Sequence[int]]) -> list[tuple[int, int, str]]:
    """Return the ids in values as (kind of topics, id, place of a record), except those listed as undecodable."""
    value, number = F.col("value"), prefix.schema_id(F.col("value"))
    is_listed = [(F.col(KIND) == nth) & number.isin(*ids) for nth, ids in listed.items() if ids]
    asked = records.where(reduce(and_, (~each for each in is_listed), prefix.has_prefix(value)))
    ids = asked.groupBy(KIND, number.alias("id"))
    found = ids.agg(F.min(F.struct("topic", "partition", "offset")).alias("first")).limit(_MOST_IDS + 1).collect()
    met = sorted((row[KIND], row["id"], "topic {}, partition {}, offset {}".format(*row["first"])) for row in found)
    if len(met) > _MOST_IDS:
        raise RegistryError(
            f"The records of one load carry the ids of more than {_MOST_IDS} schemas.",
            where="their values",
            observed="; ".join(f"{number_met} in {place}" for _, number_met, place in met[:3]),
            expected=f"at most {_MOST_IDS}",
            next_step="Nothing is lost. Ids in value.registry.undecodable_ids do not count, and their values are undecodable. "
            "List those that no schema has; where there are too many schemas, also those whose values can wait in quarantine.",
        )
    return met
