"""Read the evidence of a gate run: each table once, at one version. Writes nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from expectations.evidence import facts
from expectations.evidence.facts import BronzeCounts, Evidence, Row, by_load
from lakehouse.contracts.bronze import is_of_topics
from lakehouse.contracts.gate import GateRun
from lakehouse.contracts.silver import DUPLICATE, INVALID, LEDGER, REPLAY, SKIPPED, STREAM, WATERMARK, stream_of
from lakehouse.delta import small_tables, tables
from lakehouse.run.context import new_id
from lakehouse.spark import frames, pruning
from lakehouse.table import BRONZE_RECORDS, GOLD_STREAM_HEALTH, SILVER_LOADS, SILVER_RECORDS, SILVER_REJECTS, SILVER_WATERMARKS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.gate import Rejected
    from lakehouse.run.context import Run

READ = (BRONZE_RECORDS, SILVER_LOADS, SILVER_RECORDS, SILVER_REJECTS, SILVER_WATERMARKS)
"""The tables that an audit reads, and that must exist."""
_FEWEST_AGAIN = 10
"""The fewest duplicates that may be a restart."""
_BLOCK = (*STREAM, "load_seq", "epoch")


@dataclass(frozen=True)
class AuditSnapshot:
    """What a gate run reads: its loads, its versions, and the watermarks.

    `finished` is the last finished load. All loads after the range were rejected; after a rollback of Gold, some in it may be.
    """

    gate_run: GateRun
    finished: int
    bronze_version: int
    watermarks: Sequence[Row]


def take_snapshot(spark: SparkSession, run: Run, rejected: Rejected) -> AuditSnapshot | None:
    """Choose the loads and table versions to audit; None if every finished load is published or rejected.

    Reads the watermarks first: a load that is finished there is complete in all tables that are read later.

    Raises:
        TableMissingError: Silver has not been written yet.
    """
    watermarks = small_tables.read(spark, run.table(SILVER_WATERMARKS), WATERMARK)
    finished = max((row["load_seq"] for row in watermarks), default=0)
    pending = rejected.pending(last_published(spark, run), finished)
    if pending is None:
        return None
    silver, loads, bronze = (tables.version(spark, run.table(name)) for name in (SILVER_RECORDS, SILVER_LOADS, BRONZE_RECORDS))
    gate_run = GateRun(new_id(), *pending, silver_version=silver, loads_version=loads, rejected=rejected)
    return AuditSnapshot(gate_run, finished, bronze, watermarks)


def last_published(spark: SparkSession, run: Run) -> int:
    """Return the last load that Gold has published; 0 before the first. Gold writes gold_stream_health last.

    Later rejected loads do not count: Gold must still apply their erasures and restores.
    """
    return small_tables.highest(spark, run.table(GOLD_STREAM_HEALTH), "load_seq")


def unpublished(spark: SparkSession, run: Run, *, up_to: int) -> list[int]:
    """Return the loads up to `up_to` that Gold has not published. The ledger has no loads that were rolled back."""
    first = last_published(spark, run) + 1
    loads = small_tables.read(spark, run.table(SILVER_LOADS), ["load_seq"], start=("load_seq", first))
    return sorted({row["load_seq"] for row in loads if row["load_seq"] <= up_to})


def records(spark: SparkSession, run: Run, snapshot: AuditSnapshot) -> DataFrame:
    """Return Silver's rows of the range at the audited version, and rows without a load, so that the audit finds these."""
    gate_run = snapshot.gate_run
    others = small_tables.boxes_outside("load_seq", gate_run.first_load_seq, gate_run.last_load_seq)
    silver = small_tables.frame(spark, run.table(SILVER_RECORDS), version=gate_run.silver_version, without=others)
    return silver.where(F.expr(gate_run.range) | F.col("load_seq").isNull())


def gold_records(spark: SparkSession, run: Run, snapshot: AuditSnapshot) -> DataFrame:
    """Return the same rows in the form that Gold would get."""
    unerased = records(spark, run, snapshot).where(F.col("erased").isNull()).drop("erased")
    return unerased.withColumn("gate_run_id", F.lit(snapshot.gate_run.gate_run_id))


def evidence(spark: SparkSession, run: Run, snapshot: AuditSnapshot) -> Evidence:
    """Read the evidence: Silver's narrow columns, Bronze's, and the ledger's rows."""
    first, version = snapshot.gate_run.first_load_seq, snapshot.gate_run.loads_version
    names, start = (*LEDGER, "rules"), ("load_seq", first - 1)
    found = small_tables.read(spark, run.table(SILVER_LOADS), names, start=start, version=version)
    ledger = [row for row in found if first <= row["load_seq"] <= snapshot.finished]
    with ThreadPoolExecutor(1) as pool:
        bronze = pool.submit(_bronze, spark, run, snapshot, found)
        silver = _rows(facts.silver_facts(records(spark, run, snapshot)))
    return Evidence(
        first_load_seq=first,
        last_load_seq=snapshot.finished,
        ledger=ledger,
        silver=silver,
        watermarks=snapshot.watermarks,
        bronze=bronze.result(),
        rejected=snapshot.gate_run.rejected,
        restarts=_restarts(spark, run, snapshot, ledger),
        skipped=_skipped(spark, run, ledger),
    )


def _skipped(spark: SparkSession, run: Run, ledger: Sequence[Row]) -> dict[int, int]:
    """Count the skipped records of each load. Reads nothing if no rules skip any."""
    skips = [f'"{name}": true' for name in SKIPPED.values()]
    loads = {row["load_seq"] for row in ledger if row[INVALID] and any(each in (row["rules"] or "") for each in skips)}
    if not loads:
        return {}
    rejects = spark.read.table(run.table(SILVER_REJECTS).sql).where(F.col("load_seq").isin(*loads))
    counts = rejects.where(F.col("reason").isin(*SKIPPED)).groupBy("load_seq").agg(F.sum("records")).collect()
    return {row[0]: row[1] for row in counts}


def _restarts(spark: SparkSession, run: Run, snapshot: AuditSnapshot, ledger: Sequence[Row]) -> list[Row]:
    """Find streams whose duplicates are later than their originals. Reads nothing if no stream sent only duplicates.

    Compares the first and the last record of each block. Rejects of finished loads never change, so any version may be read.
    """
    gate_run = snapshot.gate_run
    again = {
        (*stream_of(row), row["load_seq"]): row
        for row in ledger
        if _FEWEST_AGAIN <= row[DUPLICATE] == row["records"] - row[REPLAY] and row["load_seq"] not in gate_run.rejected
    }
    if not again:
        return []
    wanted = frames.of_tuples(spark, again, "topic string, partition int, producer string, load_seq bigint")
    is_asked = (F.col("class") == DUPLICATE) & F.col("load_seq").between(gate_run.first_load_seq, snapshot.finished)
    duplicates = spark.read.table(run.table(SILVER_REJECTS).sql).where(is_asked)
    of_wanted = duplicates.join(F.broadcast(wanted), on=frames.same_stream(duplicates, wanted, "load_seq"), how="left_semi")
    first, last = ((f"{end}_offset", f"{end}_sequence") for end in ("first", "last"))
    blocks = of_wanted.select(*_BLOCK, *first, *last).toArrow()
    if not blocks.num_rows:
        return []
    ends = [blocks.select([*_BLOCK, *end]).rename_columns([*_BLOCK, "offset", "sequence"]) for end in (first, last)]
    sent = tables.read(spark, run.table(BRONZE_RECORDS), version=snapshot.bronze_version).where(pruning.offset_filter(blocks))
    is_near = pruning.sequence_filter(pruning.ranges(blocks))
    kept = tables.read(spark, run.table(SILVER_RECORDS), version=gate_run.silver_version).where(is_near)
    found = facts.later_again(frames.of_arrow(spark, pa.concat_tables(ends)), sent=sent, kept=kept)
    return [again[(*stream_of(row), row["load_seq"])] for row in _rows(found)]


def _bronze(spark: SparkSession, run: Run, snapshot: AuditSnapshot, loaded: Sequence[Row]) -> BronzeCounts:
    """Count Bronze independently of the ledger: by whole versions, or by offsets if versions are gone from the log.

    Also by offsets if topics were added or removed since the previous load: an added topic's records may be older than the
    load's versions. Counting starts where the load before the range ended, so it also finds a version that no load claims.
    """
    first = snapshot.gate_run.first_load_seq
    ledger = [row for row in loaded if first <= row["load_seq"] <= snapshot.finished]
    after_version = max((row["bronze_to_version"] for row in loaded if row["load_seq"] < first), default=None)
    bronze = run.table(BRONZE_RECORDS)
    loads = {(row["bronze_to_version"], row["load_seq"]) for row in ledger if row["bronze_to_version"] is not None}
    unknown = {row["load_seq"] for row in ledger if row["bronze_to_version"] is None}
    uncounted = tuple(sorted(load_seq for load_seq in unknown if load_seq not in snapshot.gate_run.rejected))
    to_version = max((version for version, _ in loads), default=-1)
    if after_version is None:
        after_version = -1 if first == 1 or not loads else min(row["bronze_after_version"] for row in ledger)
    if to_version <= after_version:
        return BronzeCounts({}, uncounted=uncounted)
    topics = {json.dumps(json.loads(row["rules"]).get("decided_topics")) for row in loaded if row["rules"]}
    if len(topics) <= 1:
        named = json.loads(topics.pop()) if topics else None

        def summary(appended: DataFrame) -> DataFrame:
            return facts.bronze_counts(appended if named is None else appended.where(is_of_topics(named)))

        by_version = tables.collect_appended(spark, bronze, after_version=after_version, to_version=to_version, summary=summary)
        if by_version is not None:
            return BronzeCounts(by_load([row.asDict() for row in by_version], loads), uncounted=uncounted)
        run.report.event("gate.bronze_versions_gone", after_version=after_version, to_version=to_version)
    offsets = facts.bronze_offsets(tables.read(spark, bronze, version=snapshot.bronze_version), _spans(spark, ledger))
    counted = {(row["topic"], row["partition"], row["load_seq"]): row["records"] for row in _rows(offsets)}
    return BronzeCounts(counted, counts_offsets=True, uncounted=uncounted)


def _spans(spark: SparkSession, ledger: Sequence[Row]) -> DataFrame:
    """Return the offset range of each load and partition: above the previous load's last offset, up to its own last one."""
    spans: dict[tuple[str, int, int], tuple[int | None, int]] = {}
    for row in ledger:
        key = (row["topic"], row["partition"], row["load_seq"])
        _, up_to = spans.get(key, (None, -1))
        spans[key] = (row["last_offset_before"], max(up_to, row["last_offset"]))
    columns = "topic string, partition int, load_seq bigint, above bigint, up_to bigint"
    return frames.of_tuples(spark, [(*key, *span) for key, span in spans.items()], columns)


def _rows(frame: DataFrame) -> list[Row]:
    rows: list[Row] = frame.toArrow().to_pylist()
    return rows
