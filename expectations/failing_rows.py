"""The rows behind what a gate run found not met: looked up on request, at the versions that it audited. Reads only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from expectations import checks as suites
from expectations import decisions as decided
from expectations import verdict
from expectations.checks import INVARIANTS
from expectations.evidence import snapshot
from expectations.evidence.facts import REQUIRED
from expectations.evidence.measures import is_contiguous, load_facts, stream_facts
from expectations.gx import engine
from expectations.gx.flatten import flatten, named
from lakehouse.contracts.gate import ERRORED, PASSED, RESTART_SUSPECTED
from lakehouse.contracts.silver import (
    COLLISION,
    DUPLICATE,
    KEPT,
    LATE,
    QUARANTINED,
    STREAM,
    WATERMARK,
    WATERMARK_IN_LOADS,
    is_retired,
)
from lakehouse.delta import small_tables, tables
from lakehouse.delta.errors import SPARK_ERRORS, is_gone
from lakehouse.errors import TidemarkError
from lakehouse.spark import frames
from lakehouse.table import BRONZE_RECORDS, SILVER_LOADS, SILVER_REJECTS, SILVER_WATERMARKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from expectations.evidence.model import Evidence, Row
    from expectations.evidence.snapshot import Pins
    from lakehouse.contracts.gate import GateRun
    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Gate

_FACTS = {each.name: each.fact for each in INVARIANTS}
_CLASSES = {"duplicate": (DUPLICATE,), "late": (LATE,), "collision": (COLLISION,), "quarantined": QUARANTINED}
_REJECT = (*STREAM, "class", "reason", "first_offset", "last_offset", "first_sequence", "last_sequence", "records", "load_seq")
_RECORD = (*STREAM, "offset", "epoch", "sequence", "load_seq")
_PLACE = ["topic", "partition", "offset"]


def last_gate_run(spark: SparkSession, run: Run, gate: Gate, *, rows: int) -> Row | None:
    """The last gate run, whatever its outcome, and the rows behind what it found not met.

    Args:
        spark: The session.
        run: The run.
        gate: The gate's current settings: only they hold the arguments of the operator's own expectations.
        rows: The most rows to return of each kind.

    Returns:
        gate_run_id, first_load_seq, last_load_seq, silver_version, evaluated_at, passed; waits, whether its loads are neither
        published nor decided on; decision (decision, reason, decided_by, decided_at), or None; `expectations`, each with
        expectation, column, severity, outcome, observed, expected, `behind`, a list of `what` and `rows`, and note, why there
        are no rows. None if the gate has not run yet.
    """
    results = verdict.recorded(spark, run)
    if not results:
        return None
    decisions = decided.read(spark, run)
    gate_run = verdict.of_results(results, decisions)
    decision = decided.of(decisions, gate_run.gate_run_id)
    others = [row for row in decisions if row is not decision]
    look = _Look(spark, run, replace(gate_run, rejected=decided.rejected(others)), gate, rows)
    waiting = verdict.last(spark, run)
    ordered = sorted(results, key=lambda row: (row["outcome"] == PASSED, row["severity"], row["expectation"]))
    return {
        "gate_run_id": gate_run.gate_run_id,
        "first_load_seq": gate_run.first_load_seq,
        "last_load_seq": gate_run.last_load_seq,
        "silver_version": gate_run.silver_version,
        "evaluated_at": results[0]["evaluated_at"],
        "passed": gate_run.passed,
        "waits": waiting is not None and waiting.decision is None,
        "decision": decision and {name: decision[name] for name in ("decision", "reason", "decided_by", "decided_at")},
        "expectations": [look.told(row) for row in ordered],
    }


@dataclass
class _Look:
    """Access to what one gate run audited; the evidence is read once, on first use."""

    spark: SparkSession
    run: Run
    gate_run: GateRun
    gate: Gate
    most: int

    def told(self, result: Row) -> Row:
        """An expectation, with the rows behind it if it was not met."""
        names = ("expectation", "column", "severity", "outcome", "observed", "expected")
        told = {**{name: result[name] for name in names}, "behind": [], "note": None}
        if result["outcome"] == PASSED:
            return told
        if result["outcome"] == ERRORED:
            return {**told, "note": "It could not be evaluated; observed says why."}
        try:
            behind = self._behind(result)
        except SPARK_ERRORS as error:
            if not is_gone(error):
                raise
            return {**told, "note": "The version that was audited is gone; `tidemark run --stage gate` audits anew."}
        except TidemarkError as error:
            return {**told, "note": f"{error.what} {error.observed}"}
        if behind is None:
            return {**told, "note": "gate.expectations does not name it any more."}
        return {**told, "behind": [{"what": what, "rows": rows[: self.most]} for what, rows in behind.items() if rows]}

    def _behind(self, result: Row) -> dict[str, list[Row]] | None:
        name = result["expectation"]
        if name in RECORDS:
            found = engine.unexpected_rows(RECORDS[name], self._with_floor())
            return {"records of silver_records": found}
        if name in _FACTS:
            return {"streams and loads that differ": differences(self.evidence, _FACTS[name])}
        if name.startswith("budget_"):
            return self._over_budget(result["column"], suites.limit_of(result["expected"]))
        return self._unexpected(result)

    @cached_property
    def pins(self) -> Pins:
        """What the gate run pinned; what it did not record is taken as it is now."""
        marks = self.spark.read.table(self.run.table(SILVER_WATERMARKS).sql).select(*WATERMARK)
        return snapshot.Pins(
            first_load_seq=self.gate_run.first_load_seq,
            last_load_seq=self.gate_run.last_load_seq,
            finished=self.gate_run.last_load_seq,
            silver_version=self.gate_run.silver_version,
            loads_version=self.gate_run.loads_version,
            bronze_version=tables.version(self.spark, self.run.table(BRONZE_RECORDS)),
            watermarks=tuple(marks.toArrow().to_pylist()),
            rejected=self.gate_run.rejected,
        )

    @cached_property
    def evidence(self) -> Evidence:
        """What the gate run compared. A watermark that has moved since is put back to where the ledger had left it."""
        found = snapshot.evidence(self.spark, self.run, self.pins)
        names = (*STREAM, "kind", "load_seq")
        since = small_tables.read(self.spark, self.run.table(SILVER_LOADS), names, start=("load_seq", found.last_load_seq + 1))
        return replace(found, watermarks=_as_they_were(found, filter(is_retired, since)))

    def _with_floor(self) -> DataFrame:
        """Silver's rows of the range, narrow, each with the ledger's watermark before its load."""
        columns = "f_topic string, f_partition int, f_producer string, f_load bigint, f_epoch bigint, f_sequence bigint"
        names = (*STREAM, "load_seq", "epoch_before", "high_watermark_before")
        before = frames.of_tuples(self.spark, [[row[name] for name in names] for row in self.evidence.ledger], columns)
        records = snapshot.records(self.spark, self.run, self.pins).select(*_RECORD, "arrival")
        same = F.lit(True)
        for one, other in zip((*STREAM, "load_seq"), ("f_topic", "f_partition", "f_producer", "f_load"), strict=True):
            same = same & records[one].eqNullSafe(before[other])
        floor = F.struct(F.col("f_epoch").alias("epoch"), F.col("f_sequence").alias("sequence"))
        joined = records.join(F.broadcast(before), on=same, how="left")
        return joined.select(*_RECORD, "arrival", F.when(F.col("f_sequence").isNotNull(), floor).alias("floor"))

    def _over_budget(self, measure: str, limit: float) -> dict[str, list[Row]]:
        """The loads above a limit, and the rows that the measure counts in them."""
        measured = [load.as_row() for load in load_facts(self.evidence)]
        over = [
            {"load_seq": row["load_seq"], measure: row[measure], "limit": limit} for row in measured if row[measure] > limit
        ]
        loads = [row["load_seq"] for row in over]
        kind = measure.removesuffix("_share")
        found: dict[str, list[Row]] = {"loads above the limit": over}
        if kind.startswith("missing"):
            stepped = [row for row in self.evidence.ledger if row["load_seq"] in loads and row["missing"]]
            stepped = [row for row in stepped if kind == "missing" or is_contiguous(row)]
            names = (*STREAM, "load_seq", "missing")
            found["streams that stepped over sequences"] = [{name: row[name] for name in names} for row in stepped]
        if kind == RESTART_SUSPECTED:
            names = (*STREAM, "load_seq", DUPLICATE)
            again = [{name: row[name] for name in names} for row in self.evidence.restarts if row["load_seq"] in loads]
            found["streams that sent only duplicates with later timestamps"] = again
        if kind in _CLASSES:
            rejects = self.spark.read.table(self.run.table(SILVER_REJECTS).sql)
            is_asked = F.col("class").isin(*_CLASSES[kind]) & F.col("load_seq").isin(*loads)
            found["rows of silver_rejects"] = self._first(rejects.where(is_asked).select(*_REJECT, "state"), "first_offset")
        if kind in ("late", "undecodable"):
            silver = snapshot.records(self.spark, self.run, self.pins).where(F.col("load_seq").isin(*loads))
            is_meant = F.expr("arrival = 'late'" if kind == "late" else "payload IS NULL AND value IS NOT NULL")
            found["records of silver_records"] = self._first(silver.where(is_meant).select(*_RECORD), "offset")
        return found

    def _first(self, rows: DataFrame, offset: str) -> list[Row]:
        ordered: list[Row] = rows.orderBy("load_seq", "topic", "partition", offset).limit(self.most).toArrow().to_pylist()
        return ordered

    def _unexpected(self, result: Row) -> dict[str, list[Row]] | None:
        """The records that Great Expectations finds unexpected; None if the config no longer has the expectation."""
        recorded = (result["expectation"], result["column"], result["expected"])
        check = next(
            (
                each
                for each in suites.build(self.gate)
                # One that keeps rows out of Gold warns, or fails if there are too many.
                if (each.name, each.column, each.expected) == recorded
                and (each.keeps_rows_aside or each.severity == result["severity"])
            ),
            None,
        )
        if check is None:
            return None
        whole = snapshot.records(self.spark, self.run, self.pins).where(F.col("erased").isNull()).drop("erased")
        whole = whole.withColumn("gate_run_id", F.lit(self.gate_run.gate_run_id))
        records, (flattened,) = flatten(whole, [check])
        found = engine.unexpected_records(flattened, records, index=_PLACE, rows=self.most)
        flat = dict(zip(named(flattened.arguments), named(check.arguments), strict=True))
        return {"records that it names": [{flat.get(name, name): value for name, value in row.items()} for row in found]}


def _as_they_were(found: Evidence, retired: Iterable[Row]) -> Sequence[Row]:
    """The watermarks, but those that moved after the gate run as the ledger's last row had left them.

    `retired` has the ledger's rows of streams retired since: unless they came back, they have no watermark row any more.
    """
    last: dict[tuple[object, ...], Row] = {}
    for row in sorted(found.ledger, key=lambda row: row["load_seq"]):
        last[_key(row)] = {name: row[WATERMARK_IN_LOADS.get(name, name)] for name in WATERMARK}
        if is_retired(row):
            del last[_key(row)]
    stood = [row for row in found.watermarks if row["load_seq"] <= found.last_load_seq]
    moved = {_key(row) for row in found.watermarks if row["load_seq"] > found.last_load_seq} | set(map(_key, retired))
    return [*stood, *(last[key] for key in moved - set(map(_key, stood)) if key in last)]


def _key(row: Row) -> tuple[object, ...]:
    return tuple(row[name] for name in STREAM)


_AT = "topic, partition, producer, load_seq, offset, epoch, sequence"
_STREAM = "topic, partition, producer"

# `floor` is the ledger's watermark before the load; `previous` and `earlier` are what Silver itself holds before a row.
_FALLING = f"""
    WITH marked AS (
      SELECT *, struct(epoch, sequence) AS ordinal, max(if(load_seq IS NULL, NULL, struct(epoch, sequence))) OVER (
        PARTITION BY {_STREAM} ORDER BY load_seq RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
      ) AS earlier
      FROM {{batch}}
    ), in_order AS (
      SELECT *, lag(ordinal) OVER (PARTITION BY {_STREAM}, load_seq ORDER BY offset) AS previous
      FROM marked WHERE arrival = 'in_order'
    ), compared AS (
      SELECT *, greatest(previous, earlier, floor) AS not_above FROM in_order
    )
    SELECT {_AT}, not_above.epoch AS not_above_epoch, not_above.sequence AS not_above_sequence
    FROM compared WHERE ordinal <= not_above ORDER BY {_AT}
"""  # noqa: S608 -- columns of ours; as in every query below

_TWICE = f"""
    SELECT {_AT}, arrival FROM (
      SELECT *, count(*) OVER (PARTITION BY {_STREAM}, epoch, sequence) AS copies FROM {{batch}}
    ) WHERE copies > 1 ORDER BY {_STREAM}, epoch, sequence, offset
"""  # noqa: S608 -- as above

_NULL = f"""
    SELECT {_AT}, arrival FROM {{batch}} WHERE {" OR ".join(f"{name} IS NULL" for name in REQUIRED)} ORDER BY {_AT}
"""  # noqa: S608 -- as above

RECORDS = {
    "sequence_increases": _FALLING,
    "stream_key_is_unique": _TWICE,
    "required_columns_are_not_null": _NULL,
}
"""The query of each such invariant, by its name. It reads the range's rows of `silver_records`, each with its `floor`: the
ledger's watermark before the row's load, a struct of epoch and sequence."""

SHOWN = {
    "unaccounted": ("bronze_records", "ledger_records"),
    "silver_mismatch": ("silver_rows", "ledger_kept"),
    "watermark_mismatch": ("silver_highest", "ledger_watermark", "watermark"),
}
"""What is shown for each fact, next to the stream and the load."""


def differences(evidence: Evidence, fact: str) -> list[Row]:
    """The rows that disagree, by one of the facts that compare tables.

    Args:
        evidence: What the gate run read.
        fact: `unaccounted`, `silver_mismatch` or `watermark_mismatch`.

    Returns:
        A row per stream and load: topic, partition, producer, load_seq, and what each table says, None if nothing. Bronze's
        records are those of the partition. Watermarks are (epoch, sequence).
    """
    ledger = {_difference_key(row): row for row in evidence.ledger}
    silver = {_difference_key(row): row for row in evidence.silver}
    standing = {tuple(row[name] for name in STREAM): row for row in evidence.watermarks}
    found = []
    for each in stream_facts(evidence):
        if getattr(each, fact):
            key = (each.topic, each.partition, each.producer, each.load_seq)
            told = {**_of_ledger(ledger.get(key)), **_of_silver(silver.get(key)), "watermark": _mark(standing.get(key[:3]))}
            told["bronze_records"] = evidence.bronze.records.get((each.topic, each.partition, each.load_seq))
            names = dict(zip((*STREAM, "load_seq"), key, strict=True))
            found.append({**names, **{name: told.get(name) for name in SHOWN[fact]}})
    return found


def _difference_key(row: Row) -> tuple[object, ...]:
    return tuple(row[name] for name in (*STREAM, "load_seq"))


def _of_ledger(row: Row | None) -> Row:
    if row is None:
        return {}
    kept = sum(row[name] for name in KEPT)
    return {"ledger_records": row["records"], "ledger_kept": kept, "ledger_watermark": _mark(row, "_after")}


def _of_silver(row: Row | None) -> Row:
    if row is None:
        return {}
    last = row["last"]
    return {"silver_rows": row["rows"], "silver_highest": last and [last["epoch"], last["sequence"]]}


def _mark(row: Row | None, when: str = "") -> list[int] | None:
    if row is None or row[f"high_watermark{when}"] is None:
        return None
    return [row[f"epoch{when}"], row[f"high_watermark{when}"]]
