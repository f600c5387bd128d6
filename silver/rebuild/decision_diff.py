"""Compare the decisions in two sets of Silver's tables, offset by offset, and the payload's fields. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from lakehouse.contracts.silver import ACCEPTED, DUPLICATE, IN_ORDER, RELEASED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

    from lakehouse.settings.payload_schema import Type
    from silver.rules import Rules

PLACE = ("topic", "partition", "offset")
_SAID = ("decision", "producer", "epoch", "sequence")
NOTHING = "nothing"


@dataclass(frozen=True)
class Tables:
    """Silver's records and rejects, the live ones or a shadow's."""

    records: DataFrame
    rejects: DataFrame


def changed(before: Tables, after: Tables) -> DataFrame:
    """Return the records whose decision, producer, epoch or sequence differs.

    Grain: a Kafka record. Columns: topic, partition, offset; before and after (string: accepted, duplicate, class and state, or
    `nothing`); producer, epoch and sequence with `_before` and `_after`, null for a duplicate.
    """
    old = _decided(before).withColumnsRenamed({name: f"{name}_before" for name in _SAID})
    new = _decided(after).withColumnsRenamed({name: f"{name}_after" for name in _SAID})
    said = [F.struct(*(f"{name}_{when}" for name in _SAID)) for when in ("before", "after")]
    rows = old.join(new, on=list(PLACE), how="full").where(~said[0].eqNullSafe(said[1]))
    rows = _with_blocks(_with_blocks(rows, before.rejects, "decision_before"), after.rejects, "decision_after")
    numbers = [f"{name}_{when}" for name in _SAID[1:] for when in ("before", "after")]
    return rows.select(*PLACE, F.col("decision_before").alias("before"), F.col("decision_after").alias("after"), *numbers)


def _decided(tables: Tables) -> DataFrame:
    arrival = F.when(F.col("arrival") == IN_ORDER, F.lit(ACCEPTED)).otherwise(F.lit("late, kept"))
    kept = tables.records.select(*PLACE, arrival.alias("decision"), *_SAID[1:])
    decision = F.concat_ws(", ", "class", "state").alias("decision")
    out = tables.rejects.where((F.col("class") != DUPLICATE) & (F.col("state") != RELEASED))
    numbers = (F.col("first_offset").alias("offset"), decision, "producer", "epoch", F.col("first_sequence").alias("sequence"))
    return kept.unionByName(out.select("topic", "partition", *numbers))


def _with_blocks(rows: DataFrame, rejects: DataFrame, name: str) -> DataFrame:
    """Fill in null decisions: such a record is in a block of duplicates, or nowhere."""
    ends = F.col("first_offset").alias("offset"), F.col("last_offset").alias("block_end")
    blocks = rejects.where(F.col("class") == DUPLICATE).select("topic", "partition", *ends)
    up_to_here = Window.partitionBy("topic", "partition").orderBy("offset").rangeBetween(Window.unboundedPreceding, 0)
    is_in_block = F.max("block_end").over(up_to_here) >= F.col("offset")  # blocks may overlap
    decision = F.when(is_in_block, F.lit(DUPLICATE)).otherwise(F.lit(NOTHING))
    filled = rows.unionByName(blocks, allowMissingColumns=True).withColumn(name, F.coalesce(name, decision))
    return filled.where(F.col("block_end").isNull()).drop("block_end")


def changed_fields(before: Iterable[Rules], after: Rules) -> list[dict[str, str | None]]:
    """Return the payload's fields that earlier loads decoded differently: rows of field, and its types before and after.

    >>> from lakehouse.extract.sources import Source
    >>> from silver.rules import Payload, Rules
    >>> schemas = ("a INT", "a INT, b STRUCT<c: DATE>")
    >>> one, other = (Rules(Source("offset"), payload=Payload("json", schema)) for schema in schemas)
    >>> changed_fields([one, other], other), changed_fields([other], other)
    ([{'field': 'b.c', 'before': None, 'after': 'DATE'}], [])
    """
    earlier, now = [dict(_fields(rules.payload_type)) for rules in before], dict(_fields(after.payload_type))
    rows = []
    for field in sorted({name for fields in (*earlier, now) for name in fields}):
        others = {fields.get(field) for fields in earlier} - {now.get(field)}
        if others:
            types = None if None in others else ", ".join(sorted(map(str, others)))
            rows.append({"field": field, "before": types, "after": now.get(field)})
    return rows


def _fields(kind: Type | None, path: str = "") -> Iterator[tuple[str, str]]:
    if kind is None:
        return
    if kind.kind != "struct":
        yield path or "payload", kind.sql()
    for field in kind.fields:
        yield from _fields(field.type, f"{path}.{field.name}" if path else field.name)
