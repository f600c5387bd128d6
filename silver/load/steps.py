"""A load of Silver, exactly once over several tables, by the steps in docs/rule.md. An operator's request is a load too.

The load's number is the version of each transaction. Each append has a transaction id, of its table; the MERGEs have none. A
cutover has other steps 4 to 6, see `cutover.apply_cutover`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.contracts.silver import CLASSES, HELD, IN_ORDER, KEPT, LATE, LOADS, PLACE, REJECTS, REPLAY, STREAM
from lakehouse.delta import tables
from lakehouse.delta.errors import SPARK_ERRORS
from lakehouse.delta.tables import Transaction
from lakehouse.errors import ClaimStuckError, TableStateError, headline
from lakehouse.protocol import cutover_fence
from lakehouse.run.crash_points import crash_point
from lakehouse.spark import bitmaps, frames, pruning, storage_errors
from lakehouse.table import BRONZE_RECORDS, GOLD_REJECTS, SILVER_LOADS, SILVER_RECORDS, SILVER_REJECTS
from silver.extract.columns import from_bytes, sequenced
from silver.extract.payload import decoded, with_schemas
from silver.load import breaker, bronze_range, cutover, recover
from silver.load.planner import CurrentRules, plan, replan_range, report_growth
from silver.load.recover import RESTORE_OR_REBUILD, WATERMARK_AFTER, Recovered
from silver.model import NO_LIMITS, LoadLimits
from silver.requests import erase_key, planner
from silver.state import ledger, watermarks
from silver.state.ledger import Plan, try_claim
from silver.state.request import SETTLED_AS
from silver.state.tables import latest_bronze, merge_rows, records_contract

if TYPE_CHECKING:
    import pyarrow as pa

    from lakehouse.run.context import Run
    from silver.rules import Rules

_NUMBERS = {"first_offset": "offset", "first_sequence": "sequence"}
"""The columns for the offset and sequence of a single-record reject, and their names in Silver."""
_SETTLED = "tidemark_settled"
_OUTCOME = ("records", *CLASSES, "late_accepted", "released", "discarded", "erased", *WATERMARK_AFTER)


@dataclass(frozen=True)
class Load:
    """The result of one load: its decided records, those of each class, and the invalid ones that only lack a decodable value.

    `is_repeat`: an earlier run had claimed it. `is_cut`: Bronze held more records than one load may have.
    """

    load_seq: int
    is_repeat: bool
    records: int
    counts: dict[str, int]
    undecodable: int = 0
    is_cut: bool = False


def load_once(
    spark: SparkSession, run: Run, rules: Rules, limits: LoadLimits = NO_LIMITS, *, current: CurrentRules | None = None
) -> Load | None:
    """Run one load: finish a claimed one, else plan and write the next. None if Bronze has no new versions.

    Commits to silver_loads, silver_records, silver_rejects and silver_watermarks, in this order, each at most once. The MERGE
    into the last makes the load final. Raises as `recover`, `plan`, `breaker.require_closed`, `claim` and `apply_claim`.
    """
    recovered = recover.recover(spark, run, rules)
    if recovered.open_claim is not None:
        return finish(spark, run, recovered)
    with tables.prefetch_snapshots(spark) as prefetch:
        planned = plan(spark, run, rules, recovered, limits, current=current, prefetch=prefetch)
        if planned is None:
            run.report.event("silver.nothing_new", last_load_seq=recovered.watermarks.load_seq)
            return None
        run.report.event("silver.planned", load_seq=planned.load_seq, records=planned.count("records"))
        breaker.require_closed(spark, run, planned, limits.shares)
        claim(spark, run, planned)
        report_growth(run, planned.rules, recovered.rules)
        apply_claim(spark, run, planned)
    return _done(run, planned, is_repeat=False)


def finish(spark: SparkSession, run: Run, recovered: Recovered) -> Load:
    """Finish the claimed load; raises as `replan_claim` and `apply_claim`."""
    claimed = (recovered.open_claim or [])[0]
    if recovered.cutover is not None:
        cutover.apply_cutover(spark, run, claimed["load_seq"], recovered.cutover)
        return Load(claimed["load_seq"], is_repeat=True, records=0, counts=dict.fromkeys(CLASSES, 0))
    planned = replan_claim(spark, run, recovered)
    apply_claim(spark, run, planned)
    return _done(run, planned, is_repeat=True)


def apply_claim(spark: SparkSession, run: Run, planned: Plan) -> None:
    """Steps 4 to 6. Apply a claim; a repeat is safe.

    ClaimStuckError if a table does not accept it, UndoneError if a cutover has rolled back the load.
    """
    try:
        append_silver(spark, run, planned)
        append_rejects(spark, run, planned)
        if planned.request is not None and planned.request.erase is not None:
            erase_key.erase(spark, run, planned, planned.request.erase)
        advance(spark, run, planned)
    except SPARK_ERRORS as error:
        if run.lakehouse.shadow is not None or storage_errors.failure(error, run.lakehouse) is not None:
            raise
        before = planned.load_seq - 1
        way_out = f"`tidemark restore --to {before}`" if before else "`tidemark rebuild --apply`"
        raise ClaimStuckError(
            f"Load {planned.load_seq} is claimed, but could not be applied.",
            where=f"{run.table(SILVER_LOADS)}: load {planned.load_seq}",
            observed=headline(str(error)),
            next_step="Every run tries it again. If the cause is temporary or fixed, run again. If the load can never be "
            f"applied, {way_out} gives up the claim: its records stay in Bronze for the next load.",
        ) from error


def claim(spark: SparkSession, run: Run, planned: Plan) -> None:
    """Step 3. Write the load into the ledger, and check that the claim is this run's; raises as `try_claim`."""
    rows, load_seq = frames.of_contract(spark, planned.ledger, LOADS), planned.load_seq
    if not try_claim(spark, run, rows, load_seq, records=planned.count("records")):
        raise TableStateError(
            f"Load {load_seq} was claimed before, but its claim is gone; nothing was written.",
            where=str(run.table(SILVER_LOADS)),
            observed=f"Delta skipped the claim: the table knows transaction {load_seq} already",
            expected="a claim",
            next_step=f"A RESTORE of the ledger keeps the transaction numbers. `tidemark restore --to {load_seq - 1}` "
            "continues from there under a free number.",
        )


def append_silver(spark: SparkSession, run: Run, planned: Plan) -> None:
    """Step 4. Append the kept records; Delta skips a repeat. TableStateError if Bronze lacks a record to release."""
    kept = sum(planned.count(name) for name in KEPT)
    if kept:
        rows = (_released if planned.request else _kept)(spark, run, planned)
        contract = records_contract(planned.rules)
        tables.append(rows, run.table(SILVER_RECORDS), contract, transaction=_transaction(run, SILVER_RECORDS, planned))
    run.report.event("silver.appended", load_seq=planned.load_seq, records=kept)
    crash_point("silver.appended")


def _kept(spark: SparkSession, run: Run, planned: Plan) -> DataFrame:
    """Return the range's accepted records, and late ones if the policy accepts them. Only replays shuffle wide rows."""
    records = bronze_range.read(spark, run, planned.range)
    if planned.replayed is not None:
        twice = bitmaps.join(spark, records, planned.replayed, "left_semi").dropDuplicates(list(PLACE))
        records = bitmaps.join(spark, records, planned.replayed, "left_anti").unionByName(twice)
    rows = planned.watermarks.in_declared_epochs(sequenced(records, planned.rules.of_sequences))
    if planned.out is not None:
        rows = bitmaps.join(spark, rows, planned.out, "left_anti")
    arrival = F.lit(IN_ORDER)
    if planned.late is not None:
        rows = bitmaps.join(spark, rows, planned.late, "left")
        arrival = F.when(rows["block"].isNotNull(), LATE).otherwise(IN_ORDER)
    return _completed(rows.withColumn("arrival", arrival).drop("block"), planned, planned.rules)


def _completed(rows: DataFrame, planned: Plan, rules: Rules) -> DataFrame:
    """Add `load_seq`, the decoded payload, and `erased` without what was extracted: Silver's other columns have that."""
    erased = F.when(F.col("erased").isNotNull(), F.struct("erased.load_seq", "erased.up_to_offset"))
    rows = rows.withColumns({"load_seq": F.lit(planned.load_seq).cast("bigint"), "erased": erased})
    return decoded(rows, rules) if rules.decodes else rows


def _released(spark: SparkSession, run: Run, planned: Plan) -> DataFrame:
    """Return the records to release, under the stream and sequence of their decision; TableStateError if Bronze lacks one."""
    places = frames.of_arrow(spark, planned.settled.rows.select(["topic", "partition", "producer", "epoch", *_NUMBERS]))
    near = from_bytes(latest_bronze(spark, run).where(pruning.offset_filter(planned.settled.rows)))
    found = near.join(F.broadcast(places.withColumnsRenamed(_NUMBERS)), on=list(PLACE), how="inner")
    rules = with_schemas(spark, run, found, planned.rules) if planned.rules.decodes else planned.rules
    rows = _completed(found.withColumn("arrival", F.lit(LATE)), planned, rules)
    counted = rows.select(*PLACE).agg(F.count(F.lit(1)), F.count_distinct(*PLACE)).collect()[0]
    if counted[1] != planned.settled.rows.num_rows:
        raise TableStateError(
            "Bronze lacks records of this release.",
            where=str(run.table(BRONZE_RECORDS)),
            observed=f"{counted[1]} of the records",
            expected=f"{planned.settled.rows.num_rows}, as silver_rejects names them",
            next_step="Something other than Tidemark changed Bronze: restore it. The next run then finishes the claimed load.",
        )
    return rows if counted[0] == counted[1] else rows.dropDuplicates(list(PLACE))  # Bronze holds some twice


def append_rejects(spark: SparkSession, run: Run, planned: Plan) -> None:
    """Step 5. Append the rejects; mark those that the load settles."""
    if planned.rejects.num_rows:
        rows = frames.of_many(spark, planned.rejects)
        tables.append(rows, run.table(SILVER_REJECTS), REJECTS, transaction=_transaction(run, SILVER_REJECTS, planned))
    places = planned.settled.rows.select(["topic", "partition", "first_offset", "load_seq"])
    _mark_settled(spark, run, planned, SILVER_REJECTS, places)
    in_gold = planned.settled.in_gold.select([*PLACE, "gate_run_id", "load_seq"])
    _mark_settled(spark, run, planned, GOLD_REJECTS, in_gold)
    settled = planned.settled.rows.num_rows + planned.settled.in_gold.num_rows
    run.report.event("silver.rejected", load_seq=planned.load_seq, rows=planned.rejects.num_rows, settled=settled)
    crash_point("silver.rejected")


def _mark_settled(spark: SparkSession, run: Run, planned: Plan, name: str, rows: pa.Table) -> None:
    """Mark rejects as released or discarded, by a MERGE on held rows: a repeat changes nothing."""
    if planned.request is None or not rows.num_rows:
        return
    first, last = (bound.as_py() for bound in pc.min_max(rows["load_seq"]).values())
    names = [each for each in rows.column_names if each != "load_seq"]
    is_same = " AND ".join(f"reject.{each} = settled.{each}" for each in names)
    statement = f"""
        MERGE INTO {run.table(name).sql} AS reject USING {_SETTLED} AS settled
        ON {is_same} AND reject.state = '{HELD}' AND reject.load_seq BETWEEN {first} AND {last}
        WHEN MATCHED THEN UPDATE SET state = '{SETTLED_AS[planned.request.kind]}', settled_load_seq = {planned.load_seq}
        """
    settled = cutover_fence.guarded(frames.of_arrow(spark, rows.select(names)), run, planned.load_seq)
    merge_rows(settled, _SETTLED, statement, run.table(name))


def advance(spark: SparkSession, run: Run, planned: Plan) -> None:
    """Step 6. Move the watermarks. This commit finishes the load."""
    watermarks.advance(spark, run, planned.load_seq)
    run.report.event("silver.advanced", load_seq=planned.load_seq, streams=len(planned.ledger))
    crash_point("silver.advanced")


def _transaction(run: Run, name: str, planned: Plan) -> Transaction:
    return Transaction(run.app_id(name), planned.load_seq)


def _done(run: Run, planned: Plan, *, is_repeat: bool) -> Load:
    counts = {name: planned.count(name) for name in CLASSES}
    is_cut = planned.range.is_cut
    load = Load(planned.load_seq, is_repeat, planned.count("records"), counts, planned.undecodable, is_cut)
    for partition in ledger.by_partition(planned.ledger):
        run.report.event("silver.partition_loaded", load_seq=load.load_seq, **partition)
    run.report.event("silver.loaded", load_seq=load.load_seq, records=load.records, **counts)
    return load


def replan_claim(spark: SparkSession, run: Run, recovered: Recovered) -> Plan:
    """Plan a claimed load again from its pinned inputs. TableStateError if the outcome differs from the claimed one."""
    rows, known = recovered.open_claim or [], recovered.watermarks
    claim = rows[0]
    run.report.event("silver.repeating", load_seq=claim["load_seq"], claimed_by=claim["run_id"])
    if claim["request"] is not None:
        planned = planner.plan_request(spark, run, known, claim)
    else:
        planned = replan_range(spark, run, known, claim, rows=rows, decided_topics=recovered.decided_topics)
    observed = _outcomes(planned.ledger, counts_replays=planned.counts_replays)
    expected = _outcomes(rows, counts_replays=planned.counts_replays)
    if observed != expected:
        raise TableStateError(
            f"Load {claim['load_seq']} is claimed but unfinished, and deciding it again gives another outcome.",
            where=str(run.table(SILVER_LOADS)),
            observed=[item for item in observed.items() if item not in expected.items()][:3],
            expected=[item for item in expected.items() if item not in observed.items()][:3],
            next_step="Bronze, the watermarks or a custom extractor's code changed since. " + RESTORE_OR_REBUILD,
        )
    return planned


def _outcomes(rows: Iterable[Mapping[str, Any]], *, counts_replays: bool) -> dict[tuple[object, ...], tuple[object, ...]]:
    outcome = _OUTCOME if counts_replays else [name for name in _OUTCOME if name not in ("records", REPLAY)]
    named = [row for row in rows if counts_replays or row["records"] > row[REPLAY]]
    return {tuple(row[name] for name in STREAM): tuple(row[name] for name in outcome) for row in named}
