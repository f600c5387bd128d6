"""The checks that `tidemark verify --deep` adds: read each data file whole, decode each record and decide each load again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from itertools import groupby
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.contracts.bronze import EXTRACTED, FINGERPRINT
from lakehouse.contracts.silver import PLACE, RECORDS
from lakehouse.extract.columns import extract, fingerprint
from lakehouse.run.findings import Violation, finding
from lakehouse.spark import pruning
from lakehouse.table import BRONZE_RECORDS, SILVER_LOADS, SILVER_RECORDS, SILVER_REJECTS
from pipelines.verify.remedies import check_table
from silver.audit import ledger_checks
from silver.extract.payload import decoded, with_schemas
from silver.rules import Rules
from silver.state.watermarks import Watermarks

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from lakehouse.run.context import Run
    from lakehouse.run.findings import Check
    from pipelines.verify.snapshot import VerifySnapshot

_TIME = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
"""With microseconds: by default Spark's JSON has milliseconds."""


def rules_of_loads(spark: SparkSession, run: Run, snapshot: VerifySnapshot) -> dict[int, str]:
    """Return the rules in each load's claim, as JSON."""
    texts = snapshot.read(spark, run, SILVER_LOADS).groupBy("load_seq").agg(F.first("rules").alias("rules"))
    return {row["load_seq"]: row["rules"] for row in texts.toArrow().to_pylist()}


def findings(spark: SparkSession, run: Run, snapshot: VerifySnapshot, rules_of: Mapping[int, str]) -> Iterator[Check]:
    """Yield the slow checks, in this order: files, the columns that Bronze extracted, payloads, decisions."""
    for name in snapshot.versions:
        snapshot.read(spark, run, name).write.format("noop").mode("overwrite").save()  # reads every column, keeps nothing
    read = f"every page of {len(snapshot.versions)} tables"
    yield finding("files_can_be_read", [], where=str(run.lakehouse.folder("")), holds=read, next_step="")
    extracted = _extracted(snapshot.read(spark, run, BRONZE_RECORDS), rules_of.get(snapshot.finished))
    yield check_table(run, "bronze_columns", BRONZE_RECORDS, extracted, "as the records' bytes say")
    payloads = _payloads(spark, run, snapshot, rules_of)
    yield check_table(run, "payloads", SILVER_RECORDS, payloads, "as their values decode")
    decided = f"{len({row['load_seq'] for row in snapshot.loads if row['kind'] == RECORDS}):,} loads, with the same outcome"
    again = _decided(spark, run, snapshot, rules_of)
    yield check_table(run, "decided_again", SILVER_LOADS, again, decided)


def _extracted(records: DataFrame, last_rules: str | None) -> Iterator[Violation]:
    """Compare Bronze's producer, epoch, sequence and problem with the records' bytes.

    Only for the last load's sources, which are all that Silver uses. An erased record has no bytes.
    """
    if last_rules is None or FINGERPRINT not in records.columns:
        return
    sources = Rules.from_json(last_rules).sources
    if sources.is_left_to_silver:
        return
    current = records.where((F.col(FINGERPRINT) == fingerprint(sources)) & F.col("erased").isNull()).drop(FINGERPRINT)
    kept = {name: f"kept_{name}" for name in EXTRACTED}
    again = extract(current.withColumnsRenamed(kept), sources)
    differs = reduce(or_, (~F.col(name).eqNullSafe(F.col(kept[name])) for name in EXTRACTED))
    observed = "records whose producer, epoch, sequence or problem is not what their bytes say"
    yield from _counted(again.select(*PLACE, differs.alias("differs")), BRONZE_RECORDS, observed, "what the bytes say")


def _payloads(spark: SparkSession, run: Run, snapshot: VerifySnapshot, rules_of: Mapping[int, str]) -> Iterator[Violation]:
    silver = snapshot.read(spark, run, SILVER_RECORDS).where(F.col("load_seq") <= snapshot.finished)
    decodings = {decoding: loads for decoding, loads in _loads_by_decoding(rules_of).items() if decoding.decodes}
    if not decodings or "payload" not in silver.columns:
        return
    silver = silver.withColumn("kept", _as_json("payload")).drop("payload")
    compared = []
    for decoding, loads in decodings.items():
        rows = silver.where(pruning.any_of(loads))
        again = decoded(rows, with_schemas(spark, run, rows, decoding))
        compared.append(again.select(*PLACE, (F.col("kept") != _as_json("payload")).alias("differs")))
    yield from _counted(
        reduce(DataFrame.unionByName, compared), SILVER_RECORDS, "payloads that are not their values", "the value, decoded"
    )


def _counted(compared: DataFrame, table: str, observed: str, expected: str) -> Iterator[Violation]:
    """Count the records that differ and name the first one. Spark would repeat the extraction in a filter, without end."""
    first = F.min(F.when(F.col("differs"), F.struct(*PLACE))).alias("first")
    found = compared.agg(F.count_if("differs").alias("records"), first).collect()[0]
    if found["records"]:
        first = found["first"]
        where = f"{table}, topic {first['topic']}, partition {first['partition']}, offset {first['offset']}"
        yield Violation(where, f"{found['records']:,} {observed}", expected)


def _loads_by_decoding(rules_of: Mapping[int, str]) -> dict[Rules, list[str]]:
    """Group the loads by how they decode values. Maps the rules, reduced to the decoding, to conditions on load_seq."""
    decodings = {load_seq: Rules.from_json(rules_of[load_seq]).of_values for load_seq in sorted(rules_of)}
    found: dict[Rules, list[str]] = {}
    for decoding, of_decoding in groupby(decodings, key=decodings.__getitem__):
        loads = list(of_decoding)
        found.setdefault(decoding, []).append(f"load_seq BETWEEN {loads[0]} AND {loads[-1]}")
    return found


def _as_json(value: str) -> Column:
    """Write a column as JSON, because Spark does not compare maps. A null field equals a field that its type lacks."""
    return F.to_json(F.struct(F.col(value).alias("value")), {"timestampFormat": _TIME, "timestampNTZFormat": _TIME})


def _decided(spark: SparkSession, run: Run, snapshot: VerifySnapshot, rules_of: Mapping[int, str]) -> Iterator[Violation]:
    """Decide each load again, in order, from the watermarks that the ledger had before it."""
    names = {"bronze": BRONZE_RECORDS, "silver": SILVER_RECORDS, "rejects": SILVER_REJECTS}
    tables = {name: snapshot.read(spark, run, table) for name, table in names.items()}
    before = Watermarks({})
    for load_seq, of_load in groupby(snapshot.loads, key=lambda row: row["load_seq"]):
        claim = [{**row, "rules": rules_of[load_seq]} for row in of_load]
        yield from ledger_checks.redecide_load(spark, run, claim, before, tables)
        before = before.after(claim)
        run.report.event("verify.decided_again", load_seq=load_seq)
