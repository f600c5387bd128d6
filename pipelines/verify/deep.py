"""What `tidemark verify --deep` adds: read every data file whole, decode every record again, decide every load again."""

from __future__ import annotations

from functools import reduce
from itertools import groupby
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StructType

from lakehouse.contracts.bronze import EXTRACTED, FINGERPRINT
from lakehouse.contracts.silver import RECORDS
from lakehouse.extract.columns import extract, fingerprint
from lakehouse.run.findings import Violation, finding
from lakehouse.spark import interval_join
from lakehouse.table import BRONZE_RECORDS, SILVER_LOADS, SILVER_RECORDS, SILVER_REJECTS
from pipelines.verify.remedies import BRONZE_OUT
from silver.audit import redecide
from silver.extract.payload import decoded
from silver.extract.schemas import with_schemas
from silver.rules import Rules
from silver.state.watermarks import Watermarks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import DataType

    from lakehouse.run.context import Run
    from lakehouse.run.findings import Check
    from pipelines.verify.snapshot import Pins

_OUT = (
    "`tidemark rebuild` shows what Bronze gives, and puts it in place. A custom extractor whose code has changed gives another "
    "outcome too."
)


def rules(spark: SparkSession, run: Run, pins: Pins) -> Rules | None:
    """The rules of the last finished load: its extractors are those of all loads."""
    loads = pins.read(spark, run, SILVER_LOADS).where(F.col("load_seq") == pins.finished).select("rules").limit(1).collect()
    return Rules.from_json(loads[0]["rules"]) if loads else None


def findings(spark: SparkSession, run: Run, pins: Pins) -> Iterator[Check]:
    """The slow checks, in this order: files, what Bronze read of its records, payloads, decisions."""
    for name in pins.versions:
        rows = pins.read(spark, run, name)
        values = [_comparable(F.col(f"`{field.name}`"), field.dataType) for field in rows.schema.fields]
        rows.agg(F.bit_xor(F.xxhash64(*values))).collect()
    read = f"every page of {len(pins.versions)} tables"
    yield finding("files_can_be_read", [], where=str(run.lakehouse.folder("")), holds=read, next_step=_OUT)
    bronze, extracted = str(run.table(BRONZE_RECORDS)), _extracted(spark, run, pins)
    yield finding("bronze_columns", extracted, where=bronze, holds="as the bytes beside them say", next_step=BRONZE_OUT)
    silver = str(run.table(SILVER_RECORDS))
    yield finding("payloads", _payloads(spark, run, pins), where=silver, holds="as their values decode", next_step=_OUT)
    loads = str(run.table(SILVER_LOADS))
    count = len({row["load_seq"] for row in pins.loads if row["kind"] == RECORDS})
    decided = f"{count:,} loads, with the same outcome"
    yield finding("decided_again", _decided(spark, run, pins), where=loads, holds=decided, next_step=_OUT)


def _extracted(spark: SparkSession, run: Run, pins: Pins) -> Iterator[Violation]:
    """The records of which Bronze keeps another producer, epoch, sequence or problem than their bytes say.

    Only what the last load's sources read: Silver takes nothing else from these columns. An erased record has no bytes.
    """
    last = rules(spark, run, pins)
    records = pins.read(spark, run, BRONZE_RECORDS)
    if last is None or last.sources.is_left_to_silver or FINGERPRINT not in records.columns:
        return
    current = records.where((F.col(FINGERPRINT) == fingerprint(last.sources)) & F.col("erased").isNull()).drop(FINGERPRINT)
    kept = {name: f"kept_{name}" for name in EXTRACTED}
    again = extract(current.withColumnsRenamed(kept), last.sources)
    differs = reduce(or_, (~F.col(name).eqNullSafe(F.col(kept[name])) for name in EXTRACTED))
    observed = "records whose producer, epoch, sequence or problem is not what their bytes say"
    yield from _counted(again.where(differs), BRONZE_RECORDS, observed, "what the bytes say")


def _payloads(spark: SparkSession, run: Run, pins: Pins) -> Iterator[Violation]:
    """The payloads that differ from what their values decode to."""
    last = rules(spark, run, pins)
    silver = pins.read(spark, run, SILVER_RECORDS).where(F.col("load_seq") <= pins.finished)
    if last is None or not last.decodes or "payload" not in silver.columns:
        return
    kind = silver.schema["payload"].dataType
    silver = silver.withColumnRenamed("payload", "kept")
    by_load = []
    for decoding, loads in _loads_by_decoding(_rules_of(spark, run, pins)).items():
        if decoding.decodes:
            rows = silver.where(interval_join.any_of(loads))
            again = decoded(rows, with_schemas(spark, run, rows, decoding))
            by_load.append(again.withColumn("payload", _with_fields(F.col("payload"), again.schema["payload"].dataType, kind)))
    differs = ~_comparable(F.col("kept"), kind).eqNullSafe(_comparable(F.col("payload"), kind))
    differing = reduce(DataFrame.unionByName, by_load).where(differs)
    yield from _counted(differing, SILVER_RECORDS, "payloads that are not their values", "the value, decoded")


def _counted(differing: DataFrame, table: str, observed: str, expected: str) -> Iterator[Violation]:
    """How many records differ, and where the first one is; nothing if none does."""
    place = F.struct("topic", "partition", "offset")
    found = differing.agg(F.count(F.lit(1)).alias("records"), F.min(place).alias("first")).collect()[0]
    if found["records"]:
        first = found["first"]
        where = f"{table}, topic {first['topic']}, partition {first['partition']}, offset {first['offset']}"
        yield Violation(where, f"{found['records']:,} {observed}", expected)


def _loads_by_decoding(rules_of: Mapping[int, str]) -> dict[Rules, list[str]]:
    """For each way of decoding values, as rules that say nothing else, the loads that used it, as conditions on load_seq."""
    rules = {load_seq: Rules.from_json(rules_of[load_seq]) for load_seq in sorted(rules_of)}
    decodings = {load_seq: each.of_values for load_seq, each in rules.items()}
    found: dict[Rules, list[str]] = {}
    runs = [(decoding, next(iter(loads))) for decoding, loads in groupby(decodings, key=decodings.__getitem__)]
    for (decoding, first), (_, following) in zip(runs, [*runs[1:], (None, None)], strict=True):
        upper = "" if following is None else f" AND load_seq < {following}"
        found.setdefault(decoding, []).append(f"load_seq >= {first}{upper}")
    return found


def _comparable(found: Column, kind: DataType) -> Column:
    """A value in a form that Spark can hash and compare: maps as arrays of their entries, in their order."""
    if not _has_map(kind):
        return found
    if isinstance(kind, MapType):
        return F.transform(
            F.map_entries(found), lambda entry: F.struct(entry["key"], _comparable(entry["value"], kind.valueType))
        )
    if isinstance(kind, ArrayType):
        return F.transform(found, lambda element: _comparable(element, kind.elementType))
    fields = kind.fields if isinstance(kind, StructType) else []
    parts = [_comparable(found.getField(field.name), field.dataType).alias(field.name) for field in fields]
    return F.when(found.isNotNull(), F.struct(*parts))


def _with_fields(found: Column, kind: DataType, wanted: DataType) -> Column:
    """A value with the fields that were added to its type since, all of them null."""
    if kind.simpleString() == wanted.simpleString():
        return found
    if isinstance(kind, StructType) and isinstance(wanted, StructType):
        known = {field.name: field.dataType for field in kind.fields}
        parts = [
            _with_fields(found.getField(field.name), known[field.name], field.dataType).alias(field.name)
            if field.name in known
            else F.lit(None).cast(field.dataType).alias(field.name)
            for field in wanted.fields
        ]
        return F.when(found.isNotNull(), F.struct(*parts))
    if isinstance(kind, ArrayType) and isinstance(wanted, ArrayType):
        return F.transform(found, lambda element: _with_fields(element, kind.elementType, wanted.elementType))
    if isinstance(kind, MapType) and isinstance(wanted, MapType):
        return F.transform_values(found, lambda _, value: _with_fields(value, kind.valueType, wanted.valueType))
    return found


def _has_map(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_has_map(field.dataType) for field in kind.fields)
    return isinstance(kind, MapType) or (isinstance(kind, ArrayType) and _has_map(kind.elementType))


def _rules_of(spark: SparkSession, run: Run, pins: Pins) -> dict[int, str]:
    """The rules that each load was claimed with, as JSON."""
    texts = pins.read(spark, run, SILVER_LOADS).groupBy("load_seq").agg(F.first("rules").alias("rules"))
    return {row["load_seq"]: row["rules"] for row in texts.toArrow().to_pylist()}


def _decided(spark: SparkSession, run: Run, pins: Pins) -> Iterator[Violation]:
    """Decide each load again, in order, from the watermarks that the ledger had before it."""
    names = {"bronze": BRONZE_RECORDS, "silver": SILVER_RECORDS, "rejects": SILVER_REJECTS}
    tables = {name: pins.read(spark, run, table) for name, table in names.items()}
    rules_of = _rules_of(spark, run, pins)
    before = Watermarks({})
    for load_seq, of_load in groupby(pins.loads, key=lambda row: row["load_seq"]):
        claim = [{**row, "rules": rules_of[load_seq]} for row in of_load]
        yield from redecide.redecide_load(spark, run, claim, before, tables)
        before = before.after(claim)
        run.report.event("verify.decided_again", load_seq=load_seq)
