"""The facts that a gate run checks. Pure.

Spark counts the rows of Silver and Bronze into few rows, the evidence. `stream_facts` compares these with the ledger, and
`load_facts` measures each load.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from operator import add
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from lakehouse import reconcile
from lakehouse.contracts.bronze import plain_topic
from lakehouse.contracts.gate import NOTHING_REJECTED, RESTART_SUSPECTED, Rejected
from lakehouse.contracts.silver import CLASSES, COLLISION, DUPLICATE, IN_ORDER, LATE, QUARANTINED, REPLAY, STREAM, stream_of
from lakehouse.reconcile import Difference
from lakehouse.settings.gate import MEASURES
from lakehouse.spark import frames
from lakehouse.table import BRONZE_RECORDS, SILVER_RECORDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakehouse.contracts.silver import Stream

Row = dict[str, Any]
PartitionLoad = tuple[str | None, int | None, int | None]
"""topic, partition, load_seq; load_seq is None if no load claims the Bronze version."""

REQUIRED = ("topic", "partition", "offset", "sequence", "epoch", "load_seq", "arrival")
"""Columns of a kept record that are never null."""

ORDINAL = ("epoch", "sequence")
_LARGEST = 2**63 - 1


@dataclass(frozen=True)
class BronzeCounts:
    """Bronze's own counts of each partition and load; `uncounted` are loads whose Bronze range is unknown.

    With `counts_offsets`, distinct offsets were counted instead of whole versions, so replays are not included.
    """

    records: Mapping[PartitionLoad, int]
    counts_offsets: bool = False
    uncounted: tuple[int, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """The rows of a range of loads, up to the last finished one. Loads that are `rejected` are not audited.

    `ledger` has rows of `silver_loads`, `silver` of `silver_facts`. `restarts` are the ledger's rows of streams that sent at
    least ten records in a load, all of them duplicates with later timestamps than their originals. `skipped` counts the
    records of `lakehouse.contracts.silver.SKIPPED` in each load that has some.
    """

    first_load_seq: int
    last_load_seq: int
    ledger: Sequence[Row]
    silver: Sequence[Row]
    watermarks: Sequence[Row]
    bronze: BronzeCounts
    rejected: Rejected = NOTHING_REJECTED
    restarts: Sequence[Row] = ()
    skipped: Mapping[int, int] = field(default_factory=dict)


def mark(records: DataFrame) -> DataFrame:
    """Add the columns that the invariants check to each record of `silver_records`.

    Returns:
        `REQUIRED`, producer, is_undecodable, ordinal (struct of epoch and sequence), in_order (the ordinal; null for a late
        record), previous (the in_order before it by offset, in its load), earlier (the highest ordinal of earlier loads),
        repeats and is_repeated (whether another record of the stream has the same ordinal, before or after it).
    """
    by_sequence = Window.partitionBy(*STREAM).orderBy(*ORDINAL, "offset")
    before = Window.partitionBy(*STREAM, "load_seq").orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    loads_before = Window.partitionBy(*STREAM).orderBy("load_seq").rangeBetween(Window.unboundedPreceding, -1)
    ordinal, no = F.col("ordinal"), F.lit(False)
    is_undecodable = F.col("payload").isNull() & F.col("value").isNotNull() if "payload" in records.columns else no
    struct = F.struct(*ORDINAL)
    in_order = F.when(F.col("arrival") == IN_ORDER, struct).alias("in_order")
    rows = records.select(*REQUIRED, "producer", is_undecodable.alias("is_undecodable"), struct.alias("ordinal"), in_order)
    return rows.select(  # in one step: Spark analyses the whole plan at each
        "*",
        F.last("in_order", ignorenulls=True).over(before).alias("previous"),
        F.max(F.when(F.col("load_seq").isNotNull(), ordinal)).over(loads_before).alias("earlier"),
        F.coalesce(F.lag("ordinal").over(by_sequence) == ordinal, no).alias("repeats"),
        F.coalesce(F.lead("ordinal").over(by_sequence) == ordinal, no).alias("is_repeated"),
    )


def silver_facts(records: DataFrame) -> DataFrame:
    """Count Silver's rows of each stream and load, in one shuffle of narrow rows.

    Grain: a stream and load. Columns: topic, partition, producer, load_seq, and (bigint): rows; not_increasing, in-order rows
    not above the one before in their load; repeated_keys, rows that repeat a (stream, epoch, sequence); nulls, in required
    columns; undecodable; first and last, the (epoch, sequence) of the first in-order row by offset and of the highest row.
    """
    in_order = F.col("in_order")
    nulls = reduce(add, (F.col(name).isNull().cast("int") for name in REQUIRED))
    return (
        mark(records)
        .groupBy(*STREAM, "load_seq")
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.count_if(in_order <= F.col("previous")).alias("not_increasing"),
            F.count_if("repeats").alias("repeated_keys"),
            F.sum(nulls).alias("nulls"),
            F.count_if("is_undecodable").alias("undecodable"),
            F.min_by(in_order, F.when(in_order.isNotNull(), F.col("offset"))).alias("first"),
            F.max("ordinal").alias("last"),
        )
    )


def bronze_counts(appended: DataFrame) -> DataFrame:
    """Count the records that each Bronze version appended: topic, partition, version and records."""
    return appended.groupBy("topic", "partition", F.col("_commit_version").alias("version")).agg(
        F.count(F.lit(1)).alias("records")
    )


def bronze_offsets(bronze: DataFrame, spans: DataFrame) -> DataFrame:
    """Count Bronze's distinct offsets in each range. Nothing else can be counted once its versions are gone.

    `spans` has topic, partition, load_seq, above (bigint; null for no lower bound) and up_to (inclusive).
    """
    within = (
        (bronze["topic"] == spans["topic"])
        & (bronze["partition"] == spans["partition"])
        & (bronze["offset"] > F.coalesce(spans["above"], F.lit(-1)))
        & (bronze["offset"] <= spans["up_to"])
    )
    place = (bronze["topic"], bronze["partition"], spans["load_seq"])
    found = bronze.join(F.broadcast(spans), on=within, how="inner").select(*place, bronze["offset"])
    return found.groupBy("topic", "partition", "load_seq").agg(F.count_distinct("offset").alias("records"))


def later_again(ends: DataFrame, *, sent: DataFrame, kept: DataFrame) -> DataFrame:
    """Find the streams and loads whose duplicates all have later timestamps than their originals.

    `ends` are duplicates, with stream, load_seq, epoch, offset and sequence; `sent` are rows of `bronze_records`, `kept` of
    `silver_records`. A duplicate without an original in `kept` is not compared.
    """
    place = ["topic", "partition", "offset"]
    again = sent.select(*place, F.col("timestamp").alias("sent_at")).join(F.broadcast(ends), on=place, how="inner")
    compared = kept.join(F.broadcast(again), on=frames.same_stream(kept, again, *ORDINAL), how="inner").select(
        *(again[name] for name in (*STREAM, "load_seq")), (again["sent_at"] > kept["timestamp"]).alias("is_later")
    )
    by_stream = compared.groupBy(*STREAM, "load_seq").agg(F.bool_and("is_later").alias("is_later"))
    return by_stream.where("is_later").drop("is_later")


def by_load(versions: Iterable[Row], loads: Iterable[tuple[int, int]]) -> dict[PartitionLoad, int]:
    """Sum the rows of `bronze_counts` by load. A version belongs to the first load whose last version is not below it.

    `loads` are the last version and the number of each load.
    """
    ends = sorted(set(loads))
    last_versions = [to_version for to_version, _ in ends]
    records: Counter[PartitionLoad] = Counter()
    for row in versions:
        place = bisect_left(last_versions, row["version"])
        load_seq = ends[place][1] if place < len(ends) else None
        records[row["topic"], row["partition"], load_seq] += row["records"]
    return dict(records)


def stream_facts(evidence: Evidence) -> list[Row]:
    """Count the violations of each invariant, without rejected loads.

    Returns a row per stream and load that a table names, sorted by load: topic, partition, producer, load_seq, and the facts of
    `INVARIANTS`. Topic and partition are None for a load without rows.
    """
    zeros = {invariant.fact: 0 for invariant in INVARIANTS.values()}
    rows_of = (*evidence.ledger, *evidence.silver)
    facts: dict[tuple[object, ...], Row] = {(*stream_of(row), row["load_seq"]): {**zeros} for row in rows_of}
    for invariant in INVARIANTS.values():
        for each in invariant.violations(evidence):
            key = (*(each.stream or (None, None, None)), each.load_seq)
            facts.setdefault(key, {**zeros})[invariant.fact] += each.count
    rows: list[Row] = [{**dict(zip((*STREAM, "load_seq"), key, strict=True)), **counts} for key, counts in facts.items()]
    asked = [row for row in rows if row["load_seq"] not in evidence.rejected]
    return sorted(asked, key=lambda row: (row["load_seq"] or 0, row["topic"] or "", row["partition"] or 0))


def load_facts(evidence: Evidence) -> list[Row]:
    """Return the measures of each load that was not rejected: see `lakehouse.settings.gate.Measure`.

    Undecodable records are counted in Silver, all others in the ledger. `missing_of_contiguous` is the part of `missing` in
    streams that should have no gaps. A share of no records is 0.
    """
    numbers = range(evidence.first_load_seq, evidence.last_load_seq + 1)
    loads: dict[int, Counter[str]] = {load_seq: Counter() for load_seq in numbers}
    for row in evidence.ledger:
        loads[row["load_seq"]].update(
            records=row["records"],
            kept=reconcile.kept(row),
            duplicate=row[DUPLICATE],
            late=row[LATE],
            collision=row[COLLISION],
            missing=row["missing"],
            missing_of_contiguous=row["missing"] if row["missing"] and is_contiguous(row) else 0,
            quarantined=sum(row[name] for name in QUARANTINED) - row["late_accepted"],
        )
    for load_seq, count in evidence.skipped.items():
        loads[load_seq]["quarantined"] -= count
    for row in evidence.silver:
        if row["load_seq"] in loads:
            loads[row["load_seq"]]["undecodable"] += row["undecodable"]
    for row in evidence.restarts:
        loads[row["load_seq"]][RESTART_SUSPECTED] += 1
    return [_measures(load_seq, counts) for load_seq, counts in loads.items() if load_seq not in evidence.rejected]


def _measures(load_seq: int, found: Counter[str]) -> Row:
    row: Row = {"load_seq": load_seq}
    for name in (*MEASURES, "missing_of_contiguous"):
        row[name] = min(found[name.removesuffix("_share")], _LARGEST)
        if name.endswith("_share"):
            whole = found["kept" if name == "undecodable_share" else "records"]
            row[name] = row[name] / whole if whole else 0.0
    return row


def is_contiguous(row: Row) -> bool:
    """Whether a ledger row's stream should have no gaps, by the policies of its load."""
    rules = _rules(row["rules"] or "{}")
    own = dict(rules.get("topics", ()))
    return bool(own.get(plain_topic(row["topic"]), rules).get("contiguous"))


@lru_cache(maxsize=8)
def _rules(text: str) -> dict[str, Any]:
    rules: dict[str, Any] = json.loads(text)
    return rules


def _unaccounted(evidence: Evidence) -> Iterator[Difference]:
    """Compare Bronze's record count per partition and load with the ledger. Assigns a difference to one of the streams."""
    yield from reconcile.loads_are_there(evidence.ledger, evidence.last_load_seq, first=evidence.first_load_seq)
    yield from reconcile.classes_add_up(evidence.ledger)
    bronze = evidence.bronze
    claimed: Counter[PartitionLoad] = Counter()
    streams: dict[PartitionLoad, Stream] = {}
    for row in evidence.ledger:
        place = (row["topic"], row["partition"], row["load_seq"])
        replays = row[REPLAY] if bronze.counts_offsets else 0
        claimed[place] += sum(row[name] for name in CLASSES) - replays
        streams.setdefault(place, stream_of(row))
    for place in {**claimed, **bronze.records}:
        topic, partition, load_seq = place
        observed, expected = bronze.records.get(place, 0), claimed[place]
        if load_seq not in bronze.uncounted and observed != expected:
            stream = streams.get(place, (topic, partition, None))
            yield Difference(BRONZE_RECORDS, f"{observed}", f"{expected}", stream, load_seq, abs(observed - expected))


def _counted(evidence: Evidence, fact: str) -> Iterator[Difference]:
    for row in evidence.silver:
        yield Difference(SILVER_RECORDS, f"{row[fact]}", "0", stream_of(row), row["load_seq"], row[fact])


def _watermarks_differ(evidence: Evidence) -> Iterator[Difference]:
    yield from reconcile.watermarks_are_reached(evidence.ledger, evidence.silver)
    yield from reconcile.watermarks_match(evidence.ledger, evidence.watermarks, first=evidence.first_load_seq)


@dataclass(frozen=True)
class Invariant:
    """A property of every stream and load, for any input: critical, and not configurable. `differences` has what is `shown`."""

    fact: str
    violations: Callable[[Evidence], Iterable[Difference]]
    shown: tuple[str, ...] = ()


INVARIANTS = {
    # Within a stream, (epoch, sequence) of in-order records rises strictly by offset, also from one load to the next.
    "sequence_increases": Invariant("not_increasing", lambda each: reconcile.sequences_rise(each.ledger, each.silver)),
    # The audited loads hold each (stream, epoch, sequence) once.
    "stream_key_is_unique": Invariant("repeated_keys", lambda each: _counted(each, "repeated_keys")),
    # No required column of a kept record is null.
    "required_columns_are_not_null": Invariant("nulls", lambda each: _counted(each, "nulls")),
    # The ledger's classes add up to the records that Bronze has of each partition and load.
    "records_are_conserved": Invariant("unaccounted", _unaccounted, ("bronze_records", "ledger_records")),
    # Silver has as many rows of each stream and load as the ledger accepted.
    "silver_matches_ledger": Invariant(
        "silver_mismatch", lambda each: reconcile.rows_match(each.ledger, each.silver), ("silver_rows", "ledger_kept")
    ),
    # Silver's highest (epoch, sequence), the ledger's watermark and silver_watermarks agree.
    "watermark_matches_silver": Invariant(
        "watermark_mismatch", _watermarks_differ, ("silver_highest", "ledger_watermark", "watermark")
    ),
}


def differences(evidence: Evidence, name: str) -> list[Row]:
    """Return the streams and loads that violate an invariant.

    Returns:
        A row per stream and load: topic, partition, producer, load_seq, and the values that the invariant compares, None if a
        table has none. Bronze's records are those of the partition. Watermarks are (epoch, sequence).
    """
    invariant = INVARIANTS[name]
    ledger: dict[object, Row] = {(stream_of(row), row["load_seq"]): row for row in evidence.ledger}
    silver: dict[object, Row] = {(stream_of(row), row["load_seq"]): row for row in evidence.silver}
    watermarks: dict[object, Row] = {stream_of(row): row for row in evidence.watermarks}
    found = []
    for each in (row for row in stream_facts(evidence) if row[invariant.fact]):
        stream, load_seq = stream_of(each), each["load_seq"]
        claimed, kept = ledger.get((stream, load_seq)), silver.get((stream, load_seq))
        last = kept and kept["last"]
        said = {
            "bronze_records": evidence.bronze.records.get((each["topic"], each["partition"], load_seq)),
            "ledger_records": claimed and claimed["records"],
            "ledger_kept": claimed and reconcile.kept(claimed),
            "ledger_watermark": _watermark(claimed, "_after"),
            "silver_rows": kept and kept["rows"],
            "silver_highest": last and [last["epoch"], last["sequence"]],
            "watermark": _watermark(watermarks.get(stream)),
        }
        found.append({name: each[name] for name in (*STREAM, "load_seq")} | {name: said[name] for name in invariant.shown})
    return found


def _watermark(row: Row | None, when: str = "") -> list[int] | None:
    if row is None or row[f"high_watermark{when}"] is None:
        return None
    return [row[f"epoch{when}"], row[f"high_watermark{when}"]]
