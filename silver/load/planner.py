"""The planner: pins a Bronze range and decides it; writes nothing. Every way to run a load uses it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakehouse.delta.errors import SPARK_ERRORS, is_gone
from lakehouse.table import SILVER_LOADS, SILVER_RECORDS, SILVER_WATERMARKS
from silver.decide import decision
from silver.decide.decision import How, Way
from silver.extract.columns import are_current, narrow, sequenced
from silver.extract.schemas import with_schemas
from silver.load import bronze_range
from silver.state import ledger
from silver.state.claim import shared_columns
from silver.state.plan import Partition, Plan
from silver.state.streams import Streams
from silver.suspects import resolve
from silver.suspects.past import Near, Whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, Row, SparkSession

    from lakehouse.delta.snapshot_prefetch import Prefetch
    from lakehouse.run.context import Run
    from silver.load.recover import Recovered
    from silver.rules import Rules
    from silver.state.plan import BronzeRange
    from silver.state.streams import Known, Limits
    from silver.state.watermarks import Watermarks
    from silver.suspects.past import Past


_BY_ISLANDS = Way()
_FEW = bronze_range.MOST_NUMBERS
"""Bronze records up to which a load is decided on the driver."""
_READ_FROM_BYTES = 10_000
"""Those that are read as a whole on the driver; reading their bytes takes less time than asking whether Bronze has."""


def plan(  # noqa: PLR0913 -- the inputs of `plan_range`, and what limits and speeds it up
    spark: SparkSession,
    run: Run,
    rules: Rules,
    recovered: Recovered,
    limits: Limits | None = None,
    *,
    way: Way | None = None,
    prefetch: Prefetch | None = None,
) -> Plan | None:
    """Plan the load after the last finished one: pin what Bronze gained, and decide it.

    `way` and `prefetch` affect only the cost; without a way, it is chosen by the load's size and by the load before. What the
    load will write is prefetched as soon as there is one.

    Returns:
        The plan, or None if Bronze gained nothing.

    Raises:
        BreakerOpenError: A topic brings more new streams than the limits let in.
        ConservationError: The classes do not add up to what Bronze holds.
    """
    watermarks, rules = recovered.watermarks, rules.keeping(recovered.rules)
    pinned = bronze_range.pin(spark, run, after_version=recovered.bronze_version, above=watermarks.last_offsets)
    pinned = of_topics(pinned, rules, recovered.decided_topics)
    if pinned.counted == 0:
        return None
    claim = shared_columns(run, rules, pinned, load_seq=watermarks.load_seq + 1)
    if prefetch is not None:
        prefetch([run.table(name) for name in (SILVER_LOADS, SILVER_RECORDS, SILVER_WATERMARKS)])
    way = way or _way(recovered, pinned)
    planned = plan_range(spark, run, rules, watermarks=watermarks, pinned=pinned, claim=claim, way=way, limits=limits)
    return planned if planned.ledger else None


def of_topics(pinned: BronzeRange, rules: Rules, before: Sequence[str] | None) -> BronzeRange:
    """Restrict a range to the topics that the rules name.

    Args:
        pinned: The range.
        rules: The rules.
        before: The topics that the load before decided; None for all that Bronze held then, or if there was no load.
    """
    topics = rules.decided_topics
    joined = frozenset(topics) - frozenset(before) if topics is not None and before is not None else frozenset[str]()
    return replace(pinned, topics=topics, joined=joined)


def _way(recovered: Recovered, pinned: BronzeRange) -> Way:
    """Choose how to decide a load, by its number of records and by the load before."""
    if _is_few(pinned):
        return Way(How.FEW)
    return Way(How.ISLANDS if recovered.was_in_islands else How.RECORDS)


def _is_few(pinned: BronzeRange) -> bool:
    return pinned.counted is not None and pinned.counted <= _FEW


def plan_range(  # noqa: PLR0913 -- the decision's inputs, each by name: that there are no others is the point
    spark: SparkSession,
    run: Run,
    rules: Rules,
    *,
    watermarks: Watermarks,
    pinned: BronzeRange,
    claim: dict[str, object],
    way: Way = _BY_ISLANDS,
    limits: Limits | None = None,
) -> Plan:
    """Decide a pinned range. The same range, watermarks and rules always give the same plan.

    `way` affects only the cost. `limits` are for loads that are not claimed yet.

    Raises:
        BreakerOpenError: A topic brings more new streams than the limits let in.
        ConservationError: The classes do not add up to what Bronze holds.
        RegistryError: The schema registry does not say what values were written with.
    """
    is_few = way.how is How.FEW
    is_little = is_few and (pinned.counted or 0) <= _READ_FROM_BYTES
    pinned = replace(pinned, is_few=is_little)
    numbers = bronze_range.numbers(run, pinned, rules) if is_few and not watermarks.declared else None
    is_current = numbers is not None or (not is_little and are_current(bronze_range.read(spark, run, pinned), rules))
    pinned = replace(pinned, is_current=is_current)
    records = bronze_range.read(spark, run, pinned)
    rules = with_schemas(spark, run, records, rules)
    load_seq = int(str(claim["load_seq"]))
    met = Streams(spark, run, watermarks, limits)
    of = Near if is_few else Whole.of
    past = lambda: of(spark, run, load_seq, met.watermarks)  # noqa: E731 -- asked for after the streams are met, if at all
    found = classify_range(spark, records, rules, streams=met, past=past, way=way, numbers=numbers)
    watermarks = met.watermarks
    summed = list(decision.summary(found))
    decided_records = Counter[Partition]()
    for segment in summed:
        decided_records[segment.stream[:2]] += segment.records
    arrivals, counts_replays = bronze_range.arrivals(spark, run, pinned, decided_records)
    streams = ledger.stream_loads(summed, arrivals, watermarks)
    contiguous = {topic for topic in {topic for topic, _, _ in streams} if rules.policy(topic).contiguous}
    holed = {stream for stream, load in streams.items() if load.missing and stream[0] in contiguous}
    if holed:
        narrowed = watermarks.in_declared_epochs(spark, narrow(records, rules))
        for stream, ranges in decision.gaps(spark, narrowed, watermarks, rules, holed).items():
            streams[stream].missing_ranges = ranges
    return Plan(
        load_seq=load_seq,
        rules=rules,
        watermarks=watermarks,
        range=pinned,
        ledger=ledger.rows(streams, watermarks, claim, rules),
        rejects=decision.rejects(found, load_seq, rules),
        late=decision.late(found, rules),
        replayed=decision.replayed(found),
        counts_replays=counts_replays,
    )


def replan_range(  # noqa: PLR0913 -- as `plan_range`
    spark: SparkSession,
    run: Run,
    rules: Rules,
    *,
    watermarks: Watermarks,
    claim: dict[str, object],
    rows: Sequence[Row | Mapping[str, Any]],
    decided_topics: Sequence[str] | None = None,
) -> Plan:
    """Decide a claimed range again: by the Bronze versions that the claim names, or by offset if those are gone.

    Args:
        spark: The session.
        run: The run.
        rules: The rules.
        watermarks: The watermarks before the load.
        claim: What all ledger rows of the load share.
        rows: The ledger's rows of the range: they say where it ends in each partition.
        decided_topics: The topics that the load before decided, see `of_topics`.
    """
    after_version, to_version = (int(str(claim[name])) for name in ("bronze_after_version", "bronze_to_version"))
    above = watermarks.last_offsets
    try:
        pinned = bronze_range.pin(spark, run, after_version=after_version, to_version=to_version, above=above)
        pinned = of_topics(pinned, rules, decided_topics)
        way = Way(How.FEW) if _is_few(pinned) else _BY_ISLANDS
        return plan_range(spark, run, rules, watermarks=watermarks, pinned=pinned, claim=claim, way=way)
    except SPARK_ERRORS as error:
        if not is_gone(error):
            raise
    run.report.event("silver.versions_gone", after_version=after_version, to_version=to_version)
    pinned = bronze_range.by_offset(after_version=after_version, to_version=to_version, above=above, rows=rows)
    return plan_range(spark, run, rules, watermarks=watermarks, pinned=pinned, claim=claim)


def classify_range(  # noqa: PLR0913 -- as `plan_range`, whose first half it is
    spark: SparkSession,
    records: DataFrame,
    rules: Rules,
    *,
    streams: Known,
    past: Callable[[], Past],
    way: Way = _BY_ISLANDS,
    numbers: pa.Table | None = None,
) -> pa.Table:
    """Assign each record its class, suspects included.

    Args:
        spark: The session.
        records: The load's Bronze records, with all columns.
        rules: The rules.
        streams: The watermarks to decide by.
        past: Returns what suspects are compared with; called only if there are some.
        way: How to decide; it does not change the outcome.
        numbers: The narrow records, if they are on the driver already.

    Returns:
        The load's segments, see `silver.model.SEGMENT`.
    """
    # A stream with a declared epoch always has a row here, see `silver.requests.retire_streams`.
    watermarks = streams.watermarks
    if numbers is None:
        narrowed = watermarks.in_declared_epochs(spark, narrow(records, rules))
        found = decision.decide(spark, narrowed, streams, rules, way)
    else:
        found = decision.on_driver(numbers, streams, rules)
    if resolve.is_needed(found):
        suspected = watermarks.in_declared_epochs(spark, sequenced(records, rules.of_sequences))
        found = resolve.classify_suspects(spark, found, suspected, past(), way)
    return found
