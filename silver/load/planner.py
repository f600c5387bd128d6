"""The planner: pins a Bronze range and decides it, and writes nothing. One planner serves every way to run a load."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from lakehouse.contracts.silver import RECORDS, REJECTS, silver_records
from lakehouse.delta import snapshot_prefetch, tables
from lakehouse.delta.errors import SPARK_ERRORS, is_gone
from lakehouse.spark import frames
from lakehouse.table import SILVER_LOADS, SILVER_RECORDS, SILVER_WATERMARKS
from silver.decide import decision
from silver.decide.decision import Collected, How
from silver.extract.columns import columns_read, extract, if_erased, narrow
from silver.load import bronze_range
from silver.requests import gold_rejects
from silver.state import ledger
from silver.state.streams import Streams
from silver.suspects import resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, Row, SparkSession

    from lakehouse.contracts.contract import Contract
    from lakehouse.run.context import Run
    from silver.load.bronze_range import BronzeRange
    from silver.load.recover import Recovered
    from silver.model import Stretch
    from silver.rules import Rules
    from silver.state.request import Request
    from silver.state.streams import Known, Limits
    from silver.state.watermarks import Watermarks


_FEW, _FEW_IN_TURNS = 10_000, 250_000
"""Bronze records up to which a load is decided on the driver; more of them where few stretches are to be expected."""


@dataclass(frozen=True)
class Plan:
    """A load before it is written: everything that its commits need, small however many records it has.

    Attributes:
        load_seq: The load's number.
        rules: The rules that it is decided by.
        watermarks: The watermarks that it meets, of retired streams too where it meets some.
        range: The pinned Bronze range; empty where a person decided.
        ledger: The ledger's rows, see `lakehouse.contracts.silver.LOADS`.
        rejects: The rows of `silver_rejects`.
        late: The late records that Silver takes, by policy: rows of `silver.decide.decision.SEGMENT`.
        replayed: Offset spans that Bronze holds twice in the range: topic, partition, first and last offset.
        settled: Rows of `silver_rejects` of earlier loads that a person released or discarded.
        settled_aside: Rows of `gold_rejects` that a person released or discarded.
        request: What that person asked for.
        stretches: All records of the load, as stretches; None where they did not come so.
        counts_replays: Whether the records that Bronze read again before the load are counted: where the versions that brought
            them are gone from the log, nobody knows any more.
    """

    load_seq: int
    rules: Rules
    watermarks: Watermarks
    range: BronzeRange
    ledger: list[dict[str, object]]
    rejects: pa.Table
    late: pa.Table
    replayed: list[tuple[str, int, int, int]]
    settled: pa.Table = field(default_factory=decision.REJECT.empty_table)
    settled_aside: pa.Table = field(default_factory=gold_rejects.ROW.empty_table)
    request: Request | None = None
    stretches: Sequence[Stretch] | None = None
    counts_replays: bool = True

    def count(self, name: str) -> int:
        """The sum of one of the ledger's counts over all streams."""
        return sum(int(str(row[name])) for row in self.ledger)


def plan(spark: SparkSession, run: Run, rules: Rules, recovered: Recovered, limits: Limits | None = None) -> Plan | None:
    """Plan the load after the last finished one: pin what Bronze gained, and decide it.

    Returns:
        The plan, or None where Bronze gained nothing.

    Raises:
        BreakerOpenError: A topic brings more new streams than the limits let in.
        ConservationError: The classes do not add up to what Bronze holds.
    """
    watermarks = recovered.watermarks
    pinned = bronze_range.pin(spark, run, after_version=recovered.bronze_version, above=watermarks.last_offsets())
    pinned = of_topics(pinned, rules, recovered.decided_topics)
    if pinned.appended == 0 and not pinned.joined:
        return None
    claim = claimed(run, rules, pinned, load_seq=watermarks.load_seq + 1)
    with snapshot_prefetch.known(spark, [run.table(name) for name in (SILVER_LOADS, SILVER_RECORDS, SILVER_WATERMARKS)]):
        how = _how(recovered, None if pinned.joined else pinned.appended)
        planned = decided(spark, run, rules, watermarks=watermarks, pinned=pinned, claim=claim, how=how, limits=limits)
    return planned if planned.ledger else None


def of_topics(pinned: BronzeRange, rules: Rules, before: Sequence[str] | None) -> BronzeRange:
    """A range of the topics that the rules name.

    Args:
        pinned: The range.
        rules: The rules.
        before: The topics that the load before decided; None for all that Bronze held then, or where there was none.
    """
    topics = rules.decided_topics
    joined = frozenset(topics) - frozenset(before) if topics is not None and before is not None else frozenset[str]()
    return replace(pinned, topics=topics, joined=joined)


def _how(recovered: Recovered, records: int | None) -> How:
    """What fits a load of so many records, by what came before it."""
    streams = recovered.watermarks.ordinals
    takes_turns = not recovered.was_in_stretches or len(streams) > len({stream[:2] for stream in streams})
    if records is not None and records <= (_FEW_IN_TURNS if takes_turns else _FEW):
        return How.FEW
    return How.STRETCHES if recovered.was_in_stretches else How.RECORDS


def claimed(run: Run, rules: Rules, pinned: BronzeRange, *, load_seq: int, request: Request | None = None) -> dict[str, object]:
    """What all ledger rows of a load share."""
    return {
        "load_seq": load_seq,
        "kind": request.kind if request else RECORDS,
        "pipeline": run.pipeline,
        "bronze_after_version": pinned.after_version,
        "bronze_to_version": pinned.to_version,
        "rules_fingerprint": rules.fingerprint,
        "rules": rules.to_json(),
        "request": request.to_json() if request else None,
        "reason": request.reason if request else None,
        "requested_by": request.requested_by if request else None,
        "run_id": run.run_id,
        "claimed_at": datetime.now(UTC),
    }


def decided(  # noqa: PLR0913 -- the decision's inputs, each by name: that there are no others is the point
    spark: SparkSession,
    run: Run,
    rules: Rules,
    *,
    watermarks: Watermarks,
    pinned: BronzeRange,
    claim: dict[str, object],
    how: How = How.STRETCHES,
    limits: Limits | None = None,
) -> Plan:
    """Decide a pinned range. The same range, watermarks and rules give the same plan, whenever and however often.

    `how` it is sought does not change it. `limits` are for what is not claimed yet.

    Raises:
        BreakerOpenError: A topic brings more new streams than the limits let in.
        ConservationError: The classes do not add up to what Bronze holds.
    """
    records = bronze_range.read(spark, run, pinned)
    load_seq = int(str(claim["load_seq"]))
    met = Streams(spark, run, watermarks, limits)
    past = lambda: _past(spark, run, met.watermarks, load_seq)  # noqa: E731 -- asked for after the streams are met, if at all
    found, chained = classified(spark, records, rules, streams=met, past=past, how=how)
    watermarks = met.watermarks
    summed = list(decision.summary(found))
    decided_records = Counter[bronze_range.Partition]()
    for segment in summed:
        decided_records[segment.stream[:2]] += segment.records
    arrivals, counts_replays = bronze_range.arrivals(spark, run, pinned, decided_records)
    streams = ledger.stream_loads(summed, arrivals, watermarks)
    holed = {stream for stream, load in streams.items() if load.missing and rules.policy(stream[0]).contiguous}
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
        stretches=chained,
        counts_replays=counts_replays,
    )


def decided_again(  # noqa: PLR0913 -- as `decided`
    spark: SparkSession,
    run: Run,
    rules: Rules,
    *,
    watermarks: Watermarks,
    claim: dict[str, object],
    rows: Sequence[Row | Mapping[str, Any]],
    decided_topics: Sequence[str] | None = None,
) -> Plan:
    """Decide a range that was claimed before: by the Bronze versions that the claim names, or by offset where those are gone.

    Args:
        spark: The session.
        run: The run.
        rules: The rules.
        watermarks: The watermarks that the load meets.
        claim: What all ledger rows of the load share.
        rows: The ledger's rows that the range was claimed with: where it ends in each partition.
        decided_topics: The topics that the load before decided, see `of_topics`.
    """
    after_version, to_version = (int(str(claim[name])) for name in ("bronze_after_version", "bronze_to_version"))
    above = watermarks.last_offsets()
    try:
        pinned = bronze_range.pin(spark, run, after_version=after_version, to_version=to_version, above=above)
        pinned = of_topics(pinned, rules, decided_topics)
        return decided(spark, run, rules, watermarks=watermarks, pinned=pinned, claim=claim)
    except SPARK_ERRORS as error:
        if not is_gone(error):
            raise
    run.report.event("silver.versions_gone", after_version=after_version, to_version=to_version)
    pinned = bronze_range.by_offset(after_version=after_version, to_version=to_version, above=above, rows=rows)
    return decided(spark, run, rules, watermarks=watermarks, pinned=pinned, claim=claim)


def classified(  # noqa: PLR0913 -- as `decided`, whose first half it is
    spark: SparkSession,
    records: DataFrame,
    rules: Rules,
    *,
    streams: Known,
    past: Callable[[], resolve.Past],
    how: How = How.STRETCHES,
) -> Collected:
    """Give each record its class, the suspects too.

    Args:
        spark: The session.
        records: The load's Bronze records, whole.
        rules: The rules.
        streams: The watermarks that the load meets.
        past: What suspects are compared with; asked for only where there are some.
        how: How the decision is sought.

    Returns:
        The load's segments, see `silver.decide.decision.SEGMENT`; and the stretches that they were found by.
    """
    watermarks = (
        streams.watermarks
    )  # of a stream with a declared epoch the row is there always, see `silver.requests.retire_streams`
    narrowed = watermarks.in_declared_epochs(spark, narrow(records, rules))
    found, chained = decision.collect(spark, narrowed, streams, rules, how)
    if resolve.is_needed(found):
        placing = rules.of_sequences
        columns = {"topic", "partition", "offset", "key", "value", *columns_read(placing), *if_erased(records)}
        suspected = watermarks.in_declared_epochs(spark, extract(records.select(*sorted(columns)), placing))
        found = resolve.resolve(spark, found, suspected, past(), chained)
    return Collected(found, chained)


def _past(spark: SparkSession, run: Run, watermarks: Watermarks, load_seq: int) -> resolve.Past:
    return resolve.Past(before(spark, run, silver_records(), load_seq), before(spark, run, REJECTS, load_seq), watermarks)


def before(spark: SparkSession, run: Run, contract: Contract, load_seq: int) -> DataFrame:
    """A table as the loads before left it: a repeat may find its own rows there, and a first plan no table at all."""
    table = run.table(contract.name)
    if load_seq == 1 and not tables.exists(spark, table):
        return frames.of_contract(spark, [], contract)
    return spark.read.table(table.sql).where(F.col("load_seq") < load_seq)
