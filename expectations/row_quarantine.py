"""Keep the rows that violate an expectation out of Gold, instead of failing the load: `on_fail: quarantine_rows`.

Above `policies.max_quarantined_share` of a load, the expectation fails the load: a wrong expectation must not empty Gold.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from expectations import gx
from expectations.checks import Subject
from expectations.gx import Result
from lakehouse import reconcile
from lakehouse.contracts.bronze import plain_topic
from lakehouse.contracts.contract import sql_text
from lakehouse.contracts.gate import CRITICAL, ERRORED, PASSED, RESULTS
from lakehouse.contracts.gold import REJECTS
from lakehouse.contracts.silver import HELD, PLACE
from lakehouse.delta import small_tables, tables
from lakehouse.spark import frames
from lakehouse.table import GATE_RESULTS, GOLD_REJECTS, SILVER_LOADS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from expectations.checks import Check
    from expectations.evidence.facts import Row
    from lakehouse.contracts.gate import GateRun
    from lakehouse.run.context import Run
    from lakehouse.settings.policies import Policies

    Place = tuple[str, int, int]

NAMES = ("topic", "partition", "producer", "offset", "epoch", "sequence", "load_seq")
"""The columns recorded per row, in addition to the reason."""

MOST = 100_000
"""Limit on the rows that one gate run keeps out of Gold, because the driver holds them."""

_FEWEST = 10
"""With fewer rows no share is too large: a few bad records are not a pattern. The breaker uses the same number."""


def find(
    records: DataFrame, checks: Sequence[Check], ledger: Sequence[Row], policies: Policies
) -> tuple[list[Result], list[Row]]:
    """Evaluate the expectations that keep rows out of Gold on the records that Gold would get.

    Returns their results, and the distinct rows that they keep out. Such an expectation has failed, but only warns.
    """
    if not checks:
        return [], []
    results = gx.evaluate(checks, {Subject.RECORDS: records})
    rows_of: dict[int, list[Row]] = {}
    for number, result in enumerate(results):
        if result.outcome == ERRORED:
            results[number] = _fails(result, "")
        elif result.outcome != PASSED:
            rows = gx.unexpected_rows(result.check, records, names=NAMES, most=MOST + 1)
            if 0 < len(rows) <= MOST:
                rows_of[number] = rows
            else:
                why = f"more than {MOST:,} are not kept out" if rows else "it names no rows"
                results[number] = _fails(result, f"; {why}")
    too_many = _above_share(_each_once(rows_of, results), ledger, policies)
    for number, rows in list(rows_of.items()):
        if over := sorted({row["load_seq"] for row in rows if _place(row) in too_many}):
            why = f"more than policies.max_quarantined_share of load {', '.join(map(str, over[:3]))}"
            results[number] = _fails(results[number], f"; {why}: nothing is kept out")
            del rows_of[number]
    distinct = _each_once(rows_of, results)
    if len(distinct) > MOST:
        return [_fails(each, f"; more than {MOST:,} in all: nothing is kept out") for each in results], []
    for number in rows_of:
        results[number] = replace(results[number], observed=f"{results[number].observed}, kept out of Gold")
    return results, distinct


def _above_share(rows: Sequence[Row], ledger: Sequence[Row], policies: Policies) -> set[Place]:
    """Return the places of the rows whose load loses too many: of all topics, or of one that has its own share."""
    shares = policies.own_values("max_quarantined_share")

    def part(row: Row) -> tuple[int, str]:
        topic = plain_topic(row["topic"])
        return row["load_seq"], topic if topic in shares else ""

    kept: Counter[tuple[int, str]] = Counter()
    for row in ledger:
        kept[part(row)] += reconcile.kept(row)
    too_many = {
        (load_seq, topic)
        for (load_seq, topic), count in Counter(map(part, rows)).items()
        if count >= _FEWEST and count > shares.get(topic, policies.max_quarantined_share) * kept[load_seq, topic]
    }
    return {_place(row) for row in rows if part(row) in too_many}


def _fails(result: Result, why: str) -> Result:
    return Result(replace(result.check, severity=CRITICAL), result.outcome, result.observed + why)


def _each_once(rows_of: Mapping[int, Sequence[Row]], results: Sequence[Result]) -> list[Row]:
    """Return the rows of several expectations, each record once, with all expectations that it violates."""
    found: dict[Place, Row] = {}
    reasons: defaultdict[Place, list[str]] = defaultdict(list)
    for number, rows in rows_of.items():
        check = results[number].check
        name = " ".join(part for part in (check.name, check.column) if part)
        for row in rows:
            found[_place(row)] = row
            reasons[_place(row)].append(name)
    return [{**row, "reason": ", ".join(dict.fromkeys(reasons[place]))} for place, row in sorted(found.items(), key=str)]


def _place(row: Row) -> Place:
    return row["topic"], row["partition"], row["offset"]


def record(spark: SparkSession, run: Run, gate_run: GateRun, rows: Sequence[Row]) -> None:
    """Record the rows that a gate run keeps out of its range, in one commit to gold_rejects, before its results.

    Earlier decisions on the same records still apply, as long as the ledger has their load. Removes the rows that earlier
    recorded gate runs, except the last one, wrote for the same loads: those gate runs are no longer published. If two gate
    runs overlap without a lock, the other one's rows stay, whether or not its results are recorded yet.
    """
    table, gate_run_id, first = run.table(GOLD_REJECTS), gate_run.gate_run_id, gate_run.first_load_seq
    tables.create(spark, table, REJECTS)
    decided = _decided(spark, run)
    listed = [{**row, "gate_run_id": gate_run_id, "state": HELD, **decided.get(_place(row), {})} for row in rows]
    known = {row["gate_run_id"] for row in small_tables.read(spark, table, ("gate_run_id",), start=("load_seq", first))}
    replaced = known & _superseded(spark, run, first)
    if listed or replaced:
        named = ", ".join(map(sql_text, sorted({gate_run_id, *replaced})))
        where = f"load_seq >= {first} AND gate_run_id IN ({named})"
        tables.replace(frames.of_contract(spark, listed, REJECTS), table, REJECTS, where=where)


def _superseded(spark: SparkSession, run: Run, first: int) -> set[str]:
    """Return the recorded gate runs whose range reaches a load, except the last one, which may be published."""
    names, start = ("gate_run_id", "evaluated_at"), ("last_load_seq", first)
    rows = small_tables.read(spark, run.table(GATE_RESULTS), names, start=start, contract=RESULTS)
    recorded = {(row["evaluated_at"], row["gate_run_id"]) for row in rows}
    return {gate_run_id for _, gate_run_id in recorded - {max(recorded, default=None)}}


def _decided(spark: SparkSession, run: Run) -> dict[Place, Row]:
    """Return the decisions on records that were kept out, of loads in the ledger."""
    names = (*PLACE, "state", "settled_load_seq")
    settled = small_tables.read(spark, run.table(GOLD_REJECTS), names, start=("settled_load_seq", 0))
    if not settled:
        return {}
    loads = {row["load_seq"] for row in small_tables.read(spark, run.table(SILVER_LOADS), ("load_seq",))}
    return {
        _place(row): {name: row[name] for name in ("state", "settled_load_seq")}
        for row in settled
        if row["settled_load_seq"] in loads
    }
