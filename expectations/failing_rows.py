"""Find the rows that violate the failed expectations of a gate run, at the versions that it audited. Read-only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from expectations import gate, gx
from expectations.checks import build, limit_of
from expectations.evidence import facts, snapshot
from expectations.evidence.facts import INVARIANTS, ORDINAL, REQUIRED, differences, is_contiguous, load_facts
from expectations.evidence.snapshot import AuditSnapshot
from lakehouse import reconcile
from lakehouse.contracts.gate import ERRORED, PASSED, RESTART_SUSPECTED
from lakehouse.contracts.silver import CLASSES, PLACE, QUARANTINED, STREAM, WATERMARK, WATERMARK_IN_LOADS, is_retired, stream_of
from lakehouse.delta import small_tables, tables
from lakehouse.delta.errors import SPARK_ERRORS, VERSION_GONE, has_condition
from lakehouse.errors import TidemarkError
from lakehouse.spark import frames
from lakehouse.table import BRONZE_RECORDS, SILVER_LOADS, SILVER_REJECTS, SILVER_WATERMARKS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from expectations.evidence.facts import Evidence, Row
    from lakehouse.contracts.gate import GateRun
    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Gate

_REJECT = (*STREAM, "class", "reason", "first_offset", "last_offset", "first_sequence", "last_sequence", "records", "load_seq")
_RECORD = (*STREAM, "offset", "epoch", "sequence", "load_seq")


def describe_last_gate_run(spark: SparkSession, run: Run, settings: Gate, *, rows: int) -> Row | None:
    """Return the last gate run, passed or failed, and at most `rows` rows of each kind that violate its expectations.

    Only the gate's current settings hold the arguments of the operator's own expectations.

    Returns:
        gate_run_id, first_load_seq, last_load_seq, silver_version, evaluated_at, passed; waits, whether its loads are neither
        published nor decided on; decision (decision, reason, decided_by, decided_at), or None; `expectations`, each with
        expectation, column, severity, outcome, observed, expected, `behind`, a list of `what` and `rows`, and note, why there
        are no rows. None if the gate has not run yet.
    """
    results = gate.last_results(spark, run)
    if not results:
        return None
    decided = gate.decisions(spark, run)
    gate_run = gate.gate_run_of(results, decided)
    decision = gate.decision_on(decided, gate_run.gate_run_id)
    rejected_before = gate.rejected_loads(row for row in decided if row is not decision)
    look = _Look(spark, run, replace(gate_run, rejected=rejected_before), settings, rows)
    waiting = gate.last_gate_run(spark, run)
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
        "expectations": [look.describe(row) for row in ordered],
    }


@dataclass
class _Look:
    """The tables that one gate run audited; the evidence is read once, on first use."""

    spark: SparkSession
    run: Run
    gate_run: GateRun
    settings: Gate
    most: int

    def describe(self, result: Row) -> Row:
        """Return an expectation, with the rows behind it if it was not met."""
        names = ("expectation", "column", "severity", "outcome", "observed", "expected")
        described = {**{name: result[name] for name in names}, "behind": [], "note": None}
        if result["outcome"] == PASSED:
            return described
        if result["outcome"] == ERRORED:
            return {**described, "note": "It could not be evaluated; observed says why."}
        try:
            behind = self._behind(result)
        except SPARK_ERRORS as error:
            if not has_condition(error, VERSION_GONE):
                raise
            return {**described, "note": "The version that was audited is gone; `tidemark run --stage gate` audits it again."}
        except TidemarkError as error:
            return {**described, "note": f"{error.what} {error.observed}"}
        if behind is None:
            return {**described, "note": "gate.expectations does not name it any more."}
        return {**described, "behind": [{"what": what, "rows": rows[: self.most]} for what, rows in behind.items() if rows]}

    def _behind(self, result: Row) -> dict[str, list[Row]] | None:
        name = result["expectation"]
        if name in RECORDS:
            found = self.spark.sql(RECORDS[name], batch=self._with_floor()).limit(self.most)
            return {"records of silver_records": found.toArrow().to_pylist()}
        if name in INVARIANTS:
            return {"streams and loads that differ": differences(self.evidence, name)}
        if name.startswith("budget_"):
            return self._over_budget(result["column"], limit_of(result["expected"]))
        return self._unexpected(result)

    @cached_property
    def snapshot(self) -> AuditSnapshot:
        """The versions that the gate run audited; the current ones for versions that it did not record."""
        bronze = tables.version(self.spark, self.run.table(BRONZE_RECORDS))
        watermarks = small_tables.read(self.spark, self.run.table(SILVER_WATERMARKS), WATERMARK)
        return AuditSnapshot(self.gate_run, self.gate_run.last_load_seq, bronze, watermarks)

    @cached_property
    def evidence(self) -> Evidence:
        """The evidence of the gate run. Replaces a watermark that has moved since by the ledger's value."""
        found = snapshot.evidence(self.spark, self.run, self.snapshot)
        names = (*STREAM, "kind", "load_seq")
        since = small_tables.read(self.spark, self.run.table(SILVER_LOADS), names, start=("load_seq", found.last_load_seq + 1))
        return replace(found, watermarks=_as_they_were(found, filter(is_retired, since)))

    def _with_floor(self) -> DataFrame:
        """Return Silver's marked rows of the range, each with `floor`, the ledger's watermark before its load."""
        known = [(*stream_of(row), row["load_seq"], reconcile.ordinal(row, "before")) for row in self.evidence.ledger]
        rows = [(*key, *floor) for *key, floor in known if floor is not None]
        columns = "topic string, partition int, producer string, load_seq bigint, epoch bigint, sequence bigint"
        floors = frames.of_tuples(self.spark, rows, columns).select(*STREAM, "load_seq", F.struct(*ORDINAL).alias("floor"))
        records = facts.mark(snapshot.records(self.spark, self.run, self.snapshot))
        joined = records.join(F.broadcast(floors), on=frames.same_stream(records, floors, "load_seq"), how="left")
        return joined.select(*(records[name] for name in records.columns), floors["floor"])

    def _over_budget(self, measure: str, limit: float) -> dict[str, list[Row]]:
        """Return the loads above a limit, and the rows that the measure counts in them."""
        loads = {row["load_seq"]: row[measure] for row in load_facts(self.evidence) if row[measure] > limit}
        kind = measure.removesuffix("_share")
        over = [{"load_seq": load_seq, measure: value, "limit": limit} for load_seq, value in loads.items()]
        found: dict[str, list[Row]] = {"loads above the limit": over}

        def of_ledger(rows: Iterable[Row], count: str) -> list[Row]:
            names = (*STREAM, "load_seq", count)
            return [{name: row[name] for name in names} for row in rows if row["load_seq"] in loads]

        if kind.startswith("missing"):
            stepped = [row for row in self.evidence.ledger if row["missing"] and (kind == "missing" or is_contiguous(row))]
            found["streams that stepped over sequences"] = of_ledger(stepped, "missing")
        if kind == RESTART_SUSPECTED:
            restarts = of_ledger(self.evidence.restarts, "duplicate")
            found["streams that sent only duplicates with later timestamps"] = restarts
        if classes := QUARANTINED if kind == "quarantined" else tuple({kind} & set(CLASSES)):
            rejects = self.spark.read.table(self.run.table(SILVER_REJECTS).sql)
            is_asked = F.col("class").isin(*classes) & F.col("load_seq").isin(*loads)
            found["rows of silver_rejects"] = self._first(rejects.where(is_asked).select(*_REJECT, "state"), "first_offset")
        if kind in ("late", "undecodable"):
            silver = snapshot.records(self.spark, self.run, self.snapshot).where(F.col("load_seq").isin(*loads))
            is_meant = F.expr("arrival = 'late'" if kind == "late" else "payload IS NULL AND value IS NOT NULL")
            found["records of silver_records"] = self._first(silver.where(is_meant).select(*_RECORD), "offset")
        return found

    def _first(self, rows: DataFrame, offset: str) -> list[Row]:
        ordered: list[Row] = rows.orderBy("load_seq", "topic", "partition", offset).limit(self.most).toArrow().to_pylist()
        return ordered

    def _unexpected(self, result: Row) -> dict[str, list[Row]] | None:
        """The records that Great Expectations finds unexpected; None if the config no longer has the expectation."""
        recorded = (result["expectation"], result["column"], result["expected"])
        found = [each for each in build(self.settings) if (each.name, each.column, each.expected) == recorded]
        # A check that keeps rows out of Gold warns, or fails if there are too many.
        check = next((each for each in found if each.quarantines_rows or each.severity == result["severity"]), None)
        if check is None:
            return None
        records = snapshot.gold_records(self.spark, self.run, self.snapshot)
        names = dict.fromkeys((*PLACE, *gx.named(check.arguments)))
        return {"records that it names": gx.unexpected_rows(check, records, names=list(names), most=self.most)}


def _as_they_were(found: Evidence, retired: Iterable[Row]) -> Sequence[Row]:
    """Return the watermarks at the gate run. For those that moved or were retired since, uses the ledger's last row."""
    stood = {stream_of(row): row for row in found.watermarks if row["load_seq"] <= found.last_load_seq}
    changed = {stream_of(row) for row in (*found.watermarks, *retired)} - stood.keys()
    last = {stream_of(row): row for row in sorted(found.ledger, key=lambda row: row["load_seq"])}
    known = [last[stream] for stream in changed if stream in last and not is_retired(last[stream])]
    return [*stood.values(), *({name: row[WATERMARK_IN_LOADS.get(name, name)] for name in WATERMARK} for row in known)]


_AT = "topic, partition, producer, load_seq, offset, epoch, sequence"

RECORDS = {
    "sequence_increases": f"""
        SELECT {_AT}, not_above.epoch AS not_above_epoch, not_above.sequence AS not_above_sequence
        FROM (SELECT *, greatest(previous, earlier, floor) AS not_above FROM {{batch}})
        WHERE in_order <= not_above ORDER BY {_AT}
    """,  # noqa: S608 -- columns of ours
    "stream_key_is_unique": f"""
        SELECT {_AT}, arrival FROM {{batch}} WHERE repeats OR is_repeated
        ORDER BY topic, partition, producer, epoch, sequence, offset
    """,  # noqa: S608 -- as above
    "required_columns_are_not_null": f"""
        SELECT {_AT}, arrival FROM {{batch}} WHERE {" OR ".join(f"{name} IS NULL" for name in REQUIRED)} ORDER BY {_AT}
    """,  # noqa: S608 -- as above
}
"""The query of each such invariant, by its name, over the range's rows as `evidence.facts.mark` returns them, each with its
`floor`: the ledger's watermark before the row's load, a struct of epoch and sequence."""
