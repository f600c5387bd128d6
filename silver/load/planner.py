"""The planner: pins a Bronze range, completes the rules and decides the range. Writes nothing. Every load uses it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.contracts import silver as contract
from lakehouse.contracts.bronze import plain_topic
from lakehouse.contracts.silver import PLACE, STREAM, Ordinal, silver_records, stream_of
from lakehouse.delta import tables
from lakehouse.delta.errors import SPARK_ERRORS, VERSION_GONE, has_condition
from lakehouse.settings.policies import LATE_OUTCOMES, LateOutcome, Numbering
from lakehouse.spark import bitmaps
from lakehouse.table import BRONZE_RECORDS, SILVER_LOADS, SILVER_RECORDS, SILVER_WATERMARKS
from silver import model
from silver.columns import on_disk, share
from silver.decide.kernel import Decision
from silver.extract.columns import NARROW, are_current, keys_are_current, narrow, sequenced
from silver.extract.payload import with_schemas
from silver.load import bronze_range
from silver.model import NO_LIMITS, REJECT, SPAN, LoadLimits, rows_of, streams_of
from silver.rules import Rules
from silver.state import ledger
from silver.state.ledger import BronzeRange, Plan
from silver.state.tables import before_load
from silver.state.watermarks import Streams, Watermarks
from silver.suspects.moved import Moved
from silver.suspects.resolve import KnownRecords, Suspects, comparable

if TYPE_CHECKING:
    from lakehouse.delta.small_tables import Row
    from lakehouse.delta.tables import Prefetch
    from lakehouse.run.context import Run
    from silver.load.recover import Recovered

CurrentRules = Callable[[Rules], Rules]
_MOST_NUMBERS = 1_000
_NOTHING = (0, -1)  # the mark of a topic without watermarks, below every sequence


def plan(  # noqa: PLR0913 -- the inputs of `plan_range`, and what limits and speeds it up
    spark: SparkSession,
    run: Run,
    rules: Rules,
    recovered: Recovered,
    limits: LoadLimits = NO_LIMITS,
    *,
    current: CurrentRules | None = None,
    prefetch: Prefetch | None = None,
) -> Plan | None:
    """Plan the load after the last finished one: pin Bronze's new versions, and decide their records. None if there are none.

    `current` adds the rules that tables store. It runs after Bronze is pinned, so that it finds the numbering of every
    incarnation in the range. If Bronze gained more records than the limit, the load takes the first commits, and more of them
    if no record belongs to the rules' topics. `prefetch` affects only the cost.

    BreakerOpenError if a topic has more new streams than the limits allow, ConservationError if the classes do not add up.
    """
    watermarks = recovered.watermarks
    above = watermarks.last_offsets
    pinned = bronze_range.pin(spark, run, after_version=recovered.bronze_version, above=above, most=limits.records)
    pinned = _restrict_to_topics(pinned, rules, recovered.decided_topics)
    if pinned.counted == 0:
        return None
    pinned_rules = current(rules) if current is not None else rules
    pinned_rules = complete_rules(spark, run, pinned_rules, recovered, pinned)
    versions = (pinned.after_version, pinned.to_version)
    claim = ledger.shared_columns(run, pinned_rules, versions, load_seq=watermarks.load_seq + 1)
    if prefetch is not None:
        prefetch([run.table(name) for name in (SILVER_LOADS, SILVER_RECORDS, SILVER_WATERMARKS)])
    streams = Streams(spark, run, watermarks, limits)
    planned = plan_range(spark, run, pinned_rules, streams=streams, pinned=pinned, claim=claim)
    if planned.ledger:
        return planned
    if limits.records is None or not pinned.is_cut:
        return None
    more = replace(limits, records=2 * limits.records)
    return plan(spark, run, rules, recovered, more, current=current, prefetch=prefetch)


def _restrict_to_topics(pinned: BronzeRange, rules: Rules, before: Sequence[str] | None) -> BronzeRange:
    """Restrict a range to the rules' topics. `before`: the topics that the last load decided, None for all in Bronze."""
    topics = rules.decided_topics
    joined = frozenset(topics) - frozenset(before) if topics is not None and before is not None else frozenset[str]()
    return replace(pinned, topics=topics, joined=joined, counted=None if joined else pinned.counted)


def plan_range(  # noqa: PLR0913 -- all inputs of the decision, each by name
    spark: SparkSession, run: Run, rules: Rules, *, streams: Streams, pinned: BronzeRange, claim: Mapping[str, Any]
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

    if stored is not None and pinned.is_current and not rules.judges_values and stored["erased"].null_count == len(stored):
        chunks: Iterable[pa.Table] = [stored.select(list(NARROW))]
    else:
        chunks = bronze_range.keys_in_chunks(narrow(records, rules), model.LIMITS.records, counted=pinned.counted)
    known = KnownRecords.of(spark, run, claim["load_seq"], rules)
    found = classify(chunks, records, rules, load_seq=claim["load_seq"], resolve=resolve_streams, known=known)
    arrivals, counts_replays = bronze_range.arrivals(spark, run, pinned, ledger.records_of(found.segments))
    loads = ledger.stream_loads(found.segments, found.jumps, arrivals, streams.watermarks)
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


class Found(NamedTuple):
    """Decided records: segments as `summed`, `jumps` and `gaps` as `kernel.Decided`, and `rejects` as rows of `silver_rejects`.

    `offsets` has `out`, `late` and `replayed` of `silver.state.ledger.Plan`, each only if not empty.
    """

    segments: pa.Table
    jumps: pa.Table
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
    known: KnownRecords,
) -> Found:
    """Assign each record its class, suspects included, chunk by chunk.

    After each chunk of key columns the driver keeps only a few bits per record kept out, and the chunk's rejects on disk.
    `resolve` returns the watermarks for a chunk. `records` and `known` are read only if there are suspects.
    """
    decided, watermarks = Decision(rules), Watermarks({})

    # A stream with a declared epoch always has a row here, see `silver.requests.planner`.
    def extracted() -> DataFrame:
        return comparable(watermarks.in_declared_epochs(sequenced(records, rules.of_sequences)), rules)

    compared = comparable(records, rules)
    suspects = Suspects(compared, extracted, known)
    moved = Moved(compared, extracted, known, rules, load_seq)
    sums, jumps, gaps, rejects = (list[pa.Table]() for _ in range(4))
    offsets: dict[str, list[pa.Table]] = {"out": [], "late": [], "replayed": []}
    for keys in moved.in_order(bronze_range.with_tombstones(chunk, rules) for chunk in chunks):
        watermarks = resolve(keys)
        chunk = decided.decide(moved.settled(keys, watermarks, offsets["out"]), watermarks)
        segments = suspects.classify(chunk, watermarks, decided.continued, offsets["out"])
        moved.add(segments)
        late = late_places(segments, rules)
        out = chunk.out.filter(pa.array(~share(chunk.out, late, PLACE))) if late.num_rows else chunk.out
        found = {"out": out, "late": late, "replayed": chunk.replays}
        for name, places in found.items():
            offsets[name] += [bitmaps.blocks(places)] if places.num_rows else []
        sums.append(summed(segments))
        jumps.append(chunk.jumps)
        gaps.append(chunk.gaps)
        if rejects:
            rejects[-1] = on_disk(rejects[-1])
        rejects.append(rejects_of(segments, load_seq, rules))
    joined = {name: pa.concat_tables(parts) for name, parts in offsets.items() if parts}
    segments = summed(pa.concat_tables(sums))
    return Found(segments, pa.concat_tables(jumps), pa.concat_tables(gaps), pa.concat_tables(rejects), joined)


def summed(found: pa.Table) -> pa.Table:
    """Merge the segments of each stream, epoch and class into one, which keeps the result small. Drops the texts."""
    ends = {"first": "min", "last": "max"}
    how = {name: ends.get(name.split("_")[0], "sum") for name in (*SPAN, "records")}
    grouped = found.group_by([*STREAM, "epoch", "class"]).aggregate([*how.items()])
    return grouped.rename_columns({f"{name}_{each}": name for name, each in how.items()})


def late_places(found: pa.Table, rules: Rules) -> pa.Table:
    """Return topic, partition and offset of the late records that Silver accepts."""
    late = found.filter(_is_late(found, rules, "kept"))
    return late.select(["topic", "partition", "first_offset"]).rename_columns(list(PLACE))


def _is_late(found: pa.Table, rules: Rules, outcome: LateOutcome) -> pa.Array:
    topics = [topic for topic in pc.unique(found["topic"]).to_pylist() if LATE_OUTCOMES[rules.policy(topic).late] == outcome]
    return pc.and_(pc.equal(found["class"], contract.LATE), pc.is_in(found["topic"], pa.array(topics, pa.string())))


def rejects_of(found: pa.Table, load_seq: int, rules: Rules) -> pa.Table:
    """Return the segments kept out of Silver, as rows of `silver_rejects`."""
    is_kept = pc.or_(pc.is_in(found["class"], pa.array([contract.ACCEPTED, contract.REPLAY])), _is_late(found, rules, "kept"))
    out = found.filter(pc.invert(is_kept))
    is_skipped = pc.is_in(out["reason"], pa.array([*contract.SKIPPED]))
    is_settled = reduce(pc.or_, [pc.equal(out["class"], contract.DUPLICATE), _is_late(out, rules, "discarded"), is_skipped])
    state = pc.if_else(is_settled, contract.DISCARDED, contract.HELD)
    columns = {name: out[name] for name in REJECT.names if name in out.column_names}
    numbers = {
        "load_seq": pa.repeat(pa.scalar(load_seq, pa.int64()), len(out)),
        "settled_load_seq": pa.nulls(len(out), pa.int64()),
    }
    return pa.table({**columns, **numbers, "state": state}, schema=REJECT)


def replan_range(  # noqa: PLR0913 -- as `plan_range`
    spark: SparkSession,
    run: Run,
    watermarks: Watermarks,
    claim: Mapping[str, Any],
    *,
    rows: Sequence[Row],
    decided_topics: Sequence[str] | None = None,
) -> Plan:
    """Decide a claimed range again: by the Bronze versions that the claim names, or by offset if those are gone.

    `rows` are the ledger's rows of the range. `decided_topics` are the topics that the previous load decided.
    """
    versions = {name: claim[f"bronze_{name}"] for name in ("after_version", "to_version")}
    rules, above = Rules.from_json(claim["rules"]), watermarks.last_offsets

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


def complete_rules(spark: SparkSession, run: Run, rules: Rules, recovered: Recovered, pinned: BronzeRange) -> Rules:
    """Return the rules of the next load, from those of the config.

    Their `grown` must be read after the range was pinned. It has the number of partitions and the configured numbering, if any.
    `is_last` says whether Bronze has read all records from before the producers knew the new partitions.
    """
    kept = rules.keeping(recovered.rules)
    before = dict(kept.grown)
    grown = dict(before)
    for topic, own in rules.grown:
        each = before.get(topic)
        if each is None or each.partitions != own.partitions:
            each = replace(own, numbering=own.numbering or (each.numbering if each else None))
        elif each.is_last:
            each = replace(each, mark=_highest(spark, run, topic))
        is_decided = rules.decided_topics is None or plain_topic(topic) in rules.decided_topics
        is_last = each.mark is None and own.is_last and is_decided and not pinned.is_cut
        if is_last:  # and only if no commit of Bronze came since
            is_last = tables.version(spark, run.table(BRONZE_RECORDS)) == pinned.to_version
        if each.numbering is None and each.mark is None:
            each = replace(each, numbering=_numbering(spark, run, rules, topic, recovered.watermarks))
        grown[topic] = replace(each, is_last=is_last)
    return replace(kept, grown=tuple(sorted(grown.items())))


def report_growth(run: Run, rules: Rules, before: Rules | None) -> None:
    """Report the topics that got partitions since an earlier load, and how their records are compared."""
    known = {topic: (each.partitions, each.numbering) for topic, each in before.grown} if before else {}
    for topic, each in rules.grown:
        if known.get(topic) != (each.partitions, each.numbering):
            run.report.event("silver.partitions_added", topic=topic, **each.shown)


def _highest(spark: SparkSession, run: Run, topic: str) -> Ordinal:
    """Return the highest watermark a topic ever had, from the ledger: the watermark table has no retired streams."""
    loads = spark.read.table(run.table(SILVER_LOADS).sql).where(F.col("topic") == topic)
    epoch, sequence = loads.agg(F.max(F.struct("epoch_after", "high_watermark_after"))).collect()[0][0] or _NOTHING
    return _NOTHING if epoch is None else (epoch, sequence)


def _numbering(spark: SparkSession, run: Run, rules: Rules, topic: str, watermarks: Watermarks) -> Numbering | None:
    """Infer the numbering of a topic from its records in Silver, as docs/rule.md says; None if they are not conclusive."""
    own = rules.of_topic(topic)
    if own.sequence.form == "offset":
        return "per_partition"
    by_producer: defaultdict[str | None, dict[int, Ordinal]] = defaultdict(dict)
    for (name, partition, producer), ordinal in watermarks.ordinals.items():
        if name == topic:
            by_producer[producer][partition] = ordinal
    several = [(min(marks.values()), producer) for producer, marks in by_producer.items() if len(marks) > 1]
    unknown: Numbering | None = "per_topic" if own.producer else None
    if not several:
        return unknown
    lowest, producer = max(several, key=lambda each: each[0])
    partition = next(each for each, ordinal in by_producer[producer].items() if ordinal == lowest)
    silver = before_load(spark, run, silver_records(), watermarks.load_seq + 1)
    of_producer = F.col("producer").eqNullSafe(F.lit(producer)) & (F.col("topic") == topic) & (F.col("epoch") == lowest[0])
    sequences = silver.where(of_producer).select("partition", "sequence")
    in_partition = F.col("partition") == partition
    highest = sequences.where(in_partition).orderBy(F.desc("sequence")).limit(_MOST_NUMBERS).select("sequence").toArrow()
    numbers = highest["sequence"].to_pylist()
    if not numbers:
        return unknown
    others = sequences.where(~in_partition & F.col("sequence").between(numbers[-1], numbers[0]))
    near, same = others.agg(F.count(F.lit(1)), F.count_if(F.col("sequence").isin(numbers))).collect()[0]
    return "per_partition" if same else "per_topic" if near else unknown
