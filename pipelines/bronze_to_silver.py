"""Bronze to Silver: each record once. Also the preview of a load, which writes nothing."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from bronze.kafka import consumer_group
from bronze.progress import topic_registry
from lakehouse.contracts.bronze import TOPICS, UNREADABLE, of_last_incarnations, plain_topic
from lakehouse.contracts.silver import CLASSES, stream_of
from lakehouse.delta import small_tables, tables
from lakehouse.errors import BreakerOpenError
from lakehouse.table import BRONZE_RECORDS, BRONZE_TOPICS
from silver.load import breaker, cutover, planner, recover, steps
from silver.model import LoadLimits, TopicLimits
from silver.rules import Grown, Rules
from silver.state import watermarks
from silver.state.tables import are_of_earlier_version, create_tables, require_tables

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakehouse.contracts.silver import Stream
    from lakehouse.run.context import Report, Run
    from lakehouse.settings.pipeline import Settings
    from silver.state.ledger import Plan

SHOWN = (
    "topic",
    "partition",
    "producer",
    "records",
    *CLASSES,
    "epoch_before",
    "high_watermark_before",
    "epoch_after",
    "high_watermark_after",
    "last_offset",
    "missing",
    "jumps_forward",
    "jumps_backward",
)

NOTHING: dict[str, object] = {
    "load_seq": None,
    "is_repeat": False,
    "records": 0,
    "breaker": [],
    "kept_out": [],
    "streams": [],
}

_SAMPLES = 5
"""Limit on the rejects per class in a preview, and on the listed schemas that do not fit, in the result of a run."""


class _KeptMisfits:
    """Forwards a run's events, and keeps the registry schemas that do not fit the payload."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._found: set[str] = set()

    def event(self, name: str, **fields: object) -> None:
        """Forward an event."""
        if name == "silver.schema_misfit":
            self._found.add(f"schema {fields['schema_id']}: {fields['why']}")
        self._report.event(name, **fields)

    def first(self) -> list[str]:
        """Return the first misfits, each with its reason."""
        return sorted(self._found)[:_SAMPLES]


def run(spark: SparkSession, run: Run, settings: Settings) -> dict[str, object]:
    """Load Bronze's new records, after finishing an unfinished load; see `silver.load.steps.load_once`.

    Only topics in the config are decided. Records of other topics wait in Bronze; the event `silver.other_topics` and
    `other_topics` in the result list them. Then the offsets are committed to `kafka.commit_group`.

    Raises:
        TableStateError: The ledger belongs to another pipeline.
    """
    started = time.monotonic()
    misfits = _KeptMisfits(run.report)
    run = replace(run, report=misfits)
    rules = Rules.of(settings)
    if others := _other_topics(spark, run, settings):
        run.report.event("silver.other_topics", topics=others, decided=rules.decided_topics)
    create_tables(spark, run, rules)
    current = partial(_with_topics, spark, run, settings)
    loads = []
    while (done := steps.load_once(spark, run, rules, limits(settings), current=current)) is not None:
        loads.append(done)
        if not (done.is_repeat or done.is_cut):  # a repeat ends at the range pinned before the crash
            break
    commit_group_offsets(spark, run, settings)
    counts = {name: sum(done.counts[name] for done in loads) for name in CLASSES}
    return {
        "loads": [done.load_seq for done in loads],
        "repeated": [done.load_seq for done in loads if done.is_repeat],
        "records": sum(done.records for done in loads),
        **counts,
        "undecodable": sum(done.undecodable for done in loads),
        "schema_misfits": misfits.first(),
        "other_topics": others,
        "seconds": round(time.monotonic() - started, 3),
    }


def rules_of(spark: SparkSession, run: Run, settings: Settings) -> Rules:
    """Return the rules of the config, with the incarnations of topics that continue earlier ones or got partitions."""
    return _with_topics(spark, run, settings, Rules.of(settings))


def _with_topics(spark: SparkSession, run: Run, settings: Settings, rules: Rules) -> Rules:
    table = run.table(BRONZE_TOPICS)
    if not tables.exists(spark, table) or "numbering" not in spark.read.table(table.sql).columns:
        return rules
    rows, policies = small_tables.read(spark, table, TOPICS.names), settings.policies
    grown = []
    for topic, each in sorted(topic_registry.grown(rows).items()):
        numbering = policies.topics.get(plain_topic(topic), policies).numbering
        grown.append((topic, Grown(each.before, each.partitions, numbering, is_last=each.is_read)))
    return replace(rules, continues=topic_registry.continued(rows), grown=tuple(grown))


def _other_topics(spark: SparkSession, run: Run, settings: Settings) -> list[str]:
    """Return the topics that Bronze has ever read and that the config does not name."""
    known = small_tables.read(spark, run.table(BRONZE_TOPICS), ("topic", "cause"), contract=TOPICS)
    return sorted({row["topic"] for row in known if row["cause"] != UNREADABLE} - set(settings.kafka.topics))


def preview(spark: SparkSession, run: Run, settings: Settings) -> dict[str, object]:
    """Return the outcome of the next load, per stream. Writes nothing. A claimed, unfinished load is the next load.

    Returns:
        load_seq, is_repeat, Bronze range and records. `breaker`: reasons to stop the load. `kept_out`: the first rejects of
        each class. `streams`: counts and watermarks. `other_topics`: topics in Bronze that the config does not name. If
        Bronze gained nothing, load_seq is None and the lists are empty. With more new streams than allowed, only `breaker` is
        filled.

    Raises:
        TableMissingError: Bronze has not been written yet.
    """
    recovered = recover.recover(spark, run, rules_of(spark, run, settings))
    return {**previewed(spark, run, settings, recovered), "other_topics": _other_topics(spark, run, settings)}


def require_silver(spark: SparkSession, run: Run, settings: Settings) -> None:
    """Raise the errors that `run` would raise for Bronze's records before it claims a load. Commits nothing.

    Tables of an earlier version are checked for their columns only.
    """
    rules = rules_of(spark, run, settings)
    require_tables(spark, run, rules)
    if are_of_earlier_version(spark, run):
        return
    recovered = recover.recover(spark, run, rules)
    if recovered.open_claim is not None:
        if recovered.cutover is None:
            steps.replan_claim(spark, run, recovered)
        return
    is_there = tables.exists(spark, run.table(BRONZE_RECORDS))
    allowed = replace(limits(settings), records=None)
    planned = planner.plan(spark, run, rules, recovered, allowed) if is_there else None
    if planned is not None:
        breaker.require_closed(spark, run, planned, allowed.shares)


def previewed(spark: SparkSession, run: Run, settings: Settings, recovered: recover.Recovered) -> dict[str, object]:
    """Return the outcome of the next load from a recovered state; see `preview`."""
    rules = rules_of(spark, run, settings)
    if recovered.open_claim is not None:
        if recovered.cutover is not None:
            raise cutover.unfinished(run, recovered.open_claim[0])
        planned: Plan | None = steps.replan_claim(spark, run, recovered)
    else:
        try:
            planned = planner.plan(spark, run, rules, recovered, limits(settings))
        except BreakerOpenError as opened:
            return {**NOTHING, "load_seq": recovered.watermarks.load_seq + 1, "breaker": [asdict(breaker.trip_of(opened))]}
    if planned is None:
        return dict(NOTHING)
    found, _ = breaker.find_trips(spark, run, planned, limits(settings).shares)
    return {
        "load_seq": planned.load_seq,
        "is_repeat": recovered.open_claim is not None,
        "bronze_after_version": planned.range.after_version,
        "bronze_to_version": planned.range.to_version,
        "records": planned.count("records"),
        "breaker": [asdict(trip) for trip in found],
        "kept_out": samples(planned.rejects),
        "streams": [{name: row[name] for name in SHOWN} for row in planned.ledger],
    }


def require_others_let_in(
    spark: SparkSession, run: Run, settings: Settings, recovered: recover.Recovered, stream: Stream
) -> None:
    """Raise BreakerOpenError if the breaker opens on the next load, unless the stream's own records are a reason for it."""
    planned = planner.plan(spark, run, rules_of(spark, run, settings), recovered, limits(settings))
    if planned is None:
        return
    allowed = limits(settings).shares
    if not any(breaker.is_reason(row, allowed) for row in breaker.ledger_without_skipped(planned) if stream_of(row) == stream):
        breaker.require_closed(spark, run, planned, allowed)


def limits(settings: Settings) -> LoadLimits:
    """Return the limits of a load."""
    policies = settings.policies
    shares = TopicLimits(policies.max_quarantined_share, policies.own_values("max_quarantined_share"))
    streams = TopicLimits(policies.max_new_streams, policies.own_values("max_new_streams"))
    return LoadLimits(shares, streams, settings.silver.max_records_per_load)


def samples(rejects: pa.Table) -> list[dict[str, object]]:
    """Return the first rejects of each class, without load_seq and content_sha256."""
    names = [name for name in rejects.column_names if name not in ("load_seq", "content_sha256")]
    by_class = [rejects.filter(pc.equal(rejects["class"], name)).slice(0, _SAMPLES) for name in CLASSES]
    return [row for found in by_class for row in found.select(names).to_pylist()]


def commit_group_offsets(spark: SparkSession, run: Run, settings: Settings) -> None:
    """Commit for every partition the offset after the last decided one, if `kafka.commit_group` names a group.

    Every run commits all partitions, so the next run repairs a failed commit. A failure does not fail the run: the events are
    silver.group_committed and silver.group_commit_failed.
    """
    group, topics = settings.kafka.commit_group, settings.kafka.topics
    if group is None:
        return
    last_offsets = of_last_incarnations(watermarks.read(spark, run).last_offsets)
    next_offsets = {(topic, partition): last + 1 for (topic, partition), last in last_offsets.items() if topic in topics}
    if not next_offsets:
        return
    try:
        consumer_group.commit(settings.kafka, group, next_offsets)
    except consumer_group.CommitError as error:
        run.report.event("silver.group_commit_failed", group=group, why=str(error))
    else:
        run.report.event("silver.group_committed", group=group, partitions=len(next_offsets))
