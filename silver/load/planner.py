"""The planner: pins a Bronze range and decides it; writes nothing. Every way to run a load uses it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from lakehouse.contracts.silver import stream_of
from lakehouse.delta.errors import SPARK_ERRORS, VERSION_GONE, has_condition
from lakehouse.spark import bitmaps
from lakehouse.table import SILVER_LOADS, SILVER_RECORDS, SILVER_WATERMARKS
from silver import model
from silver.columns import on_disk, share
from silver.decide import decision
from silver.decide.kernel import Decision
from silver.extract.columns import NARROW, are_current, keys_are_current, narrow, sequenced
from silver.extract.payload import with_schemas
from silver.load import bronze_range, growth, key_columns
from silver.model import rows_of, streams_of
from silver.state import ledger
from silver.state.plan import Partition, Plan
from silver.state.streams import Streams
from silver.state.watermarks import Watermarks
from silver.suspects.content_hash import comparable
from silver.suspects.known_records import KnownRecords
from silver.suspects.moved import Moved
from silver.suspects.resolve import Suspects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.delta.small_tables import Row
    from lakehouse.delta.tables import Prefetch
    from lakehouse.run.context import Run
    from silver.load.recover import Recovered
    from silver.rules import Rules
    from silver.state.plan import BronzeRange
    from silver.state.streams import StreamLimits


def plan(  # noqa: PLR0913 -- the inputs of `plan_range`, and what limits and speeds it up
    spark: SparkSession,
    run: Run,
    rules: Rules,
    recovered: Recovered,
    stream_limits: StreamLimits | None = None,
    *,
    current: Callable[[Rules], Rules] | None = None,
    most: int | None = None,
    prefetch: Prefetch | None = None,
) -> Plan | None:
    """Plan the load after the last finished one: pin Bronze's new versions, and decide their records. None if there are none.

    `current` adds the rules that tables store. It runs after Bronze is pinned, so that it finds the numbering of every
    incarnation in the range. If Bronze gained more than `most` records, the load takes the first commits, and more of them
    if no record belongs to the rules' topics. `prefetch` affects only the cost.

    BreakerOpenError if a topic has more new streams than the limits allow, ConservationError if the classes do not add up.
    """
    watermarks = recovered.watermarks
    above = watermarks.last_offsets
    pinned = bronze_range.pin(spark, run, after_version=recovered.bronze_version, above=above, most=most)
    pinned = _restrict_to_topics(pinned, rules, recovered.decided_topics)
    if pinned.counted == 0:
        return None
    pinned_rules = current(rules) if current is not None else rules
    pinned_rules = growth.complete_rules(spark, run, pinned_rules, recovered, pinned)
    claim = ledger.shared_columns(run, pinned_rules, pinned, load_seq=watermarks.load_seq + 1)
    if prefetch is not None:
        prefetch([run.table(name) for name in (SILVER_LOADS, SILVER_RECORDS, SILVER_WATERMARKS)])
    streams = Streams(spark, run, watermarks, stream_limits)
    planned = plan_range(spark, run, pinned_rules, streams=streams, pinned=pinned, claim=claim)
    if planned.ledger:
        return planned
    if most is None or not pinned.is_cut:
        return None
    return plan(spark, run, rules, recovered, stream_limits, current=current, most=2 * most, prefetch=prefetch)


def _restrict_to_topics(pinned: BronzeRange, rules: Rules, before: Sequence[str] | None) -> BronzeRange:
    """Restrict a range to the rules' topics. `before`: the topics that the last load decided, None for all in Bronze."""
    topics = rules.decided_topics
    joined = frozenset(topics) - frozenset(before) if topics is not None and before is not None else frozenset[str]()
    return replace(pinned, topics=topics, joined=joined)


def plan_range(  # noqa: PLR0913 -- all inputs of the decision, each by name
    spark: SparkSession,
    run: Run,
    rules: Rules,
    *,
    streams: Streams,
    pinned: BronzeRange,
    claim: Mapping[str, Any],
) -> Plan:
    """Decide a pinned range. The same range, watermarks and rules always give the same plan.

    Raises as `plan`, and RegistryError if the schema registry does not return the schema of some values.
    """
    stored = bronze_range.stored_keys(run, pinned, model.LIMITS.records)
    if stored is None:
        is_current = are_current(bronze_range.read(spark, run, pinned), rules)
    else:
        is_current = keys_are_current(stored, rules)
    pinned = replace(pinned, is_current=is_current)
    records = bronze_range.read(spark, run, pinned)
    rules = with_schemas(spark, run, records, rules)

    is_whole = pinned.counted is not None and pinned.counted <= model.LIMITS.records

    def resolve_streams(chunk: pa.Table) -> Watermarks:
        named = set(streams_of(chunk))
        streams.look_up(named, [*rules.continues, *((topic, (topic,)) for topic in rules.compared)])
        return streams.resolve(named, is_whole=is_whole)

    def known_records() -> KnownRecords:
        return KnownRecords.of(spark, run, claim["load_seq"], streams.watermarks, rules)

    chunks = _read_key_columns(pinned, records, stored, rules)
    found = classify(chunks, records, rules, load_seq=claim["load_seq"], resolve=resolve_streams, known=known_records)
    summed = list(decision.summary(found.segments))
    decided_records = Counter[Partition]()
    for segment in summed:
        decided_records[segment.stream[:2]] += segment.records
    arrivals, counts_replays = bronze_range.arrivals(spark, run, pinned, decided_records)
    loads = ledger.stream_loads(summed, arrivals, streams.watermarks)
    for stream, ranges in groupby(rows_of(found.gaps), key=stream_of):
        skipped = ((row["epoch"], row["first_sequence"], row["last_sequence"]) for row in ranges)
        loads[stream].missing_ranges = [*loads[stream].missing_ranges, *skipped]
    return Plan(
        load_seq=claim["load_seq"],
        rules=rules,
        watermarks=streams.watermarks,
        range=pinned,
        ledger=ledger.rows(loads, streams.watermarks, claim, rules),
        rejects=found.rejects,
        counts_replays=counts_replays,
        **found.offsets,
    )


def _read_key_columns(pinned: BronzeRange, records: DataFrame, stored: pa.Table | None, rules: Rules) -> Iterable[pa.Table]:
    if stored is not None and pinned.is_current and not rules.judges_values and stored["erased"].null_count == len(stored):
        return [stored.select(list(NARROW))]
    return key_columns.in_chunks(narrow(records, rules), model.LIMITS.records, counted=pinned.counted)


class Found(NamedTuple):
    """Decided records: `segments` as `decision.summed`, `gaps` as `kernel.Decided`, and `rejects` as rows of `silver_rejects`.

    `offsets` has `out`, `late` and `replayed` of `silver.state.plan.Plan`, each only if not empty.
    """

    segments: pa.Table
    gaps: pa.Table
    rejects: pa.Table
    offsets: dict[str, pa.Table]


def classify(  # noqa: PLR0913 -- it is a step of `plan_range`
    chunks: Iterable[pa.Table],
    records: DataFrame,
    rules: Rules,
    *,
    load_seq: int,
    resolve: Callable[[pa.Table], Watermarks],
    known: Callable[[], KnownRecords],
) -> Found:
    """Assign each record its class, suspects included, chunk by chunk.

    After each chunk of key columns the driver keeps only a few bits per record kept out, and the chunk's rejects on disk.
    `resolve` returns the watermarks for a chunk. `records` are read, and `known` is called, only if there are suspects.
    """
    decided, whole, watermarks = Decision(rules), decision.Whole(), Watermarks({})

    # A stream with a declared epoch always has a row here, see `silver.requests.planner`.
    def extracted() -> DataFrame:
        in_epochs = watermarks.in_declared_epochs(records.sparkSession, sequenced(records, rules.of_sequences))
        return comparable(in_epochs, rules)

    compared = comparable(records, rules)
    suspects = Suspects(compared, extracted, known)
    moved = Moved(compared, extracted, known, rules, load_seq=load_seq, limits=model.LIMITS)
    summed, gaps, rejects = [whole.rest], list[pa.Table](), list[pa.Table]()
    offsets: dict[str, list[pa.Table]] = {"out": [], "late": [], "replayed": []}
    for keys in moved.in_order(key_columns.with_tombstones(chunk, rules) for chunk in chunks):
        watermarks = resolve(keys)
        chunk = decided.decide(moved.settled(keys, watermarks, offsets["out"]), watermarks)
        segments = suspects.classify(chunk, decided.continued, offsets["out"])
        moved.add(segments)
        late = decision.late_places(segments, rules)
        out = chunk.out.filter(pa.array(~share(chunk.out, late, decision.PLACE))) if late.num_rows else chunk.out
        found = {"out": out, "late": late, "replayed": chunk.replays}
        for name, places in found.items():
            offsets[name] += [bitmaps.blocks(places)] if places.num_rows else []
        summed.append(decision.summed(segments))
        gaps.append(chunk.gaps)
        if (complete := whole.add(segments)).num_rows:
            rejects.append(on_disk(decision.rejects(complete, load_seq, rules)))
    rejects.append(decision.rejects(whole.rest, load_seq, rules))
    joined = {name: pa.concat_tables(parts) for name, parts in offsets.items() if parts}
    return Found(decision.summed(pa.concat_tables(summed)), pa.concat_tables(gaps), pa.concat_tables(rejects), joined)


def replan_range(  # noqa: PLR0913 -- as `plan_range`
    spark: SparkSession,
    run: Run,
    rules: Rules,
    *,
    watermarks: Watermarks,
    claim: Mapping[str, Any],
    rows: Sequence[Row],
    decided_topics: Sequence[str] | None = None,
) -> Plan:
    """Decide a claimed range again: by the Bronze versions that the claim names, or by offset if those are gone.

    `rows` are the ledger's rows of the range. `decided_topics` are the topics that the previous load decided.
    """
    versions = {name: claim[f"bronze_{name}"] for name in ("after_version", "to_version")}
    above = watermarks.last_offsets

    def decide(pinned: BronzeRange) -> Plan:
        return plan_range(spark, run, rules, streams=Streams(spark, run, watermarks), pinned=pinned, claim=claim)

    try:
        pinned = bronze_range.pin(spark, run, **versions, above=above)
        return decide(_restrict_to_topics(pinned, rules, decided_topics))
    except SPARK_ERRORS as error:
        if not has_condition(error, VERSION_GONE):
            raise
    run.report.event("silver.versions_gone", **versions)
    return decide(bronze_range.by_offset(**versions, above=above, rows=rows))
