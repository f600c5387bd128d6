"""Check the ledger for consistency, summaries of Silver's tables against it, and each load by deciding it again. Read-only."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.contracts import silver as contract
from lakehouse.contracts.bronze import plain_topic
from lakehouse.contracts.silver import STREAM, Stream, stream_of, stream_text
from lakehouse.reconcile import loads_are_there, ordinal
from lakehouse.run.findings import Violation
from lakehouse.spark import pruning
from lakehouse.spark.bitmaps import bit, word
from lakehouse.table import SILVER_LOADS, SILVER_RECORDS, SILVER_REJECTS, SILVER_WATERMARKS
from silver import model
from silver.extract.columns import from_bytes, narrow
from silver.extract.payload import with_schemas
from silver.load import bronze_range, planner
from silver.load.recover import WATERMARK_AFTER
from silver.rules import Rules
from silver.state.ledger import open_cutover, stream_loads
from silver.state.ledger import rows as ledger_rows
from silver.state.request import SETTLED_AS
from silver.suspects.resolve import KnownRecords, comparable

if TYPE_CHECKING:
    from lakehouse.run.context import Run
    from silver.state.watermarks import Watermarks

Row = dict[str, Any]
_OUTCOME = (*(name for name in contract.CLASSES if name != contract.REPLAY), "late_accepted", *WATERMARK_AFTER, "missing")
_REJECT = tuple(name for name in model.REJECT.names if name not in ("load_seq", "settled_load_seq"))
_SHARED = tuple(name for name in _REJECT if name not in (*model.SPAN, "records"))


def claims(ledger: Sequence[Row], finished: int) -> Iterator[Violation]:
    """Check that the last claim is of the last finished load or the one after it, and that finished loads are in the ledger."""
    last = max((row["load_seq"] for row in ledger), default=0)
    if open_cutover(ledger, finished):
        yield Violation(SILVER_LOADS, f"load {last}, a restore or rebuild, is claimed and not finished", "that it is finished")
    elif last not in (finished, finished + 1):
        observed = f"last claimed load {last}, last finished load {finished}"
        yield Violation(f"{SILVER_LOADS} and {SILVER_WATERMARKS}", observed, f"last claimed load {finished} or {finished + 1}")


def chain(ledger: Sequence[Row], pipeline: str, *, first: int = 1) -> Iterator[Violation]:
    """Check that all loads belong to one pipeline, and that each load starts where the previous one ended.

    Load numbers have no gaps, except for loads that a restore or rebuild rolled back. The rows must be sorted by load.
    """
    yield from loads_are_there(ledger, max((row["load_seq"] for row in ledger), default=0), first=first)
    bronze_version = -1
    marks: dict[Stream, Row] = {}
    for _, of_load in groupby(ledger, key=lambda row: row["load_seq"]):
        rows = list(of_load)
        yield from _of_one_load(rows, bronze_version, pipeline)
        yield from _steps(rows, marks)
        bronze_version = rows[0]["bronze_to_version"]


def _of_one_load(rows: Sequence[Row], bronze_version: int, pipeline: str) -> Iterator[Violation]:
    first = rows[0]
    where = f"{SILVER_LOADS}, load {first['load_seq']}"
    if others := {row["pipeline"] for row in rows} - {pipeline}:
        yield Violation(where, f"pipeline {', '.join(sorted(map(str, others)))}", f"pipeline {pipeline}")
    if first["bronze_after_version"] != bronze_version:
        expected = f"{bronze_version}, where the load before ended (-1 before the first)"
        yield Violation(where, f"bronze_after_version {first['bronze_after_version']}", expected)
    shared = ("kind", "bronze_after_version", "bronze_to_version", "run_id")
    read_by = {(plain_topic(row["topic"]), row["rules_fingerprint"]) for row in rows}
    is_mixed = len(read_by) > len({topic for topic, _ in read_by})
    if is_mixed or any(row[name] != first[name] for row in rows for name in shared):
        yield Violation(where, "rows of different runs, ranges or rules", "one claim, in one commit")
    for stream, times in Counter(map(stream_of, rows)).items():
        if times > 1:
            yield Violation(f"{where}, {stream_text(stream)}", f"{times} rows", "one row")


def _steps(rows: Sequence[Row], marks: dict[Stream, Row]) -> Iterator[Violation]:
    """Check each stream's watermark before the load against the one after its previous load; then advance `marks`."""
    reached: dict[tuple[str, int], int] = {}
    for stream, row in marks.items():
        reached[stream[:2]] = max(row["last_offset"], reached.get(stream[:2], row["last_offset"]))
    for row in rows:
        stream, before, after = stream_of(row), ordinal(row, "before"), ordinal(row, "after")
        where = f"{SILVER_LOADS}, load {row['load_seq']}, {stream_text(stream)}"
        known = marks.get(stream)
        expected, place = ordinal(known, "after"), reached.get(stream[:2])
        if before != expected:
            yield Violation(where, f"watermark before {before}", f"{expected}, as the load before left it")
        if row["last_offset_before"] != place:
            yield Violation(where, f"last_offset_before {row['last_offset_before']}", f"{place}, as the load before left it")
        if known is not None and row["last_offset"] < known["last_offset"]:
            yield Violation(where, f"last_offset {row['last_offset']}", f"not below {known['last_offset']}")
        if row["kind"] != contract.RESET and (after or (-1, -1)) < (before or (-1, -1)):
            yield Violation(where, f"watermark after {after}", f"not below {before}")
    marks.update({stream_of(row): row for row in rows})


def kept(records: DataFrame) -> DataFrame:
    """Sum up Silver's rows by stream and load, in the form that `lakehouse.reconcile` expects."""
    ordinal = F.when(F.col("epoch").isNotNull() & F.col("sequence").isNotNull(), F.struct("epoch", "sequence"))
    return records.groupBy(*STREAM, "load_seq").agg(
        F.count(F.lit(1)).alias("rows"),
        F.min(F.when(F.col("arrival") == contract.IN_ORDER, ordinal)).alias("first"),
        F.max(ordinal).alias("last"),
    )


def repeated(records: DataFrame) -> DataFrame:
    """Find the bitmap words of 64 sequences in which Silver has more rows than distinct sequences. Shuffles few rows."""
    words = records.groupBy(*STREAM, "epoch", word("sequence").alias("word")).agg(
        F.count(F.lit(1)).alias("rows"),
        F.bit_count(F.bit_or(bit(F.col("sequence")))).cast("bigint").alias("sequences"),
        F.min("sequence").alias("first_sequence"),
        F.max("sequence").alias("last_sequence"),
    )
    return words.where(~F.col("rows").eqNullSafe(F.col("sequences"))).drop("word")


def rejects(rows: DataFrame, finished: int) -> DataFrame:
    """Sum up `silver_rejects` by stream, load, class, reason and state, as of the last finished load."""
    names = (*STREAM, "load_seq", "class", "reason", "state", "settled_load_seq")
    return as_of(rows, finished).groupBy(*names).agg(F.sum("records").alias("records"))


def as_of(rejects: DataFrame, finished: int) -> DataFrame:
    """Return the rejects of the loads up to `finished`, in their state after that load."""
    is_later = F.coalesce(F.col("settled_load_seq") > finished, F.lit(False))
    known = rejects.where(F.col("load_seq").isNull() | (F.col("load_seq") <= finished))
    state = F.when(is_later, F.lit(contract.HELD)).otherwise(F.col("state"))
    return known.withColumns({"state": state, "settled_load_seq": F.when(~is_later, F.col("settled_load_seq"))})


def repeats(rows: Iterable[Row]) -> Iterator[Violation]:
    """Check that no (stream, epoch, sequence) occurs twice. Takes the repeated sequences of `repeated`."""
    for row in rows:
        where = f"{SILVER_RECORDS}, {stream_text(stream_of(row))}, epoch {row['epoch']}"
        places = f"sequences {row['first_sequence']} to {row['last_sequence']}"
        yield Violation(f"{where}, {places}", f"{row['rows']} rows", f"{row['sequences']}, one for each sequence")


def rejects_match(ledger: Sequence[Row], found: Iterable[Row]) -> Iterator[Violation]:
    """Compare the rejects per class, and those that each load settled, with the ledger. `found`: `rejects`."""
    expected: Counter[tuple[bool, int, str]] = Counter()  # whether it counts what a load settled, the load, the place
    listed: Counter[tuple[bool, int, str]] = Counter()
    kinds = {row["load_seq"]: row["kind"] for row in ledger}
    for row in ledger:
        stream, load_seq = stream_text(stream_of(row)), row["load_seq"]
        for name in contract.CLASSES:
            count = row[name] - (row["late_accepted"] if name == contract.LATE else 0)
            if count and name not in (contract.ACCEPTED, contract.REPLAY):
                expected[False, load_seq, f"load {load_seq}, {stream}, class {name}"] = count
        expected[True, load_seq, f"settled by load {load_seq}, {stream}"] = row[contract.RELEASED] + row[contract.DISCARDED]
    wrong: list[Violation] = []
    for row in found:
        stream, load_seq, by = stream_text(stream_of(row)), row["load_seq"], row["settled_load_seq"]
        where = f"load {load_seq}, {stream}, class {row['class']}"
        listed[False, load_seq, where] += row["records"]
        if by is not None:
            listed[True, by, f"settled by load {by}, {stream}"] += row["records"]
        if not _is_possible(row, kinds):
            said = f"{row['records']:,} records {row['state']}, by load {by}"
            settled = "held, or settled by a load that released or discarded"
            wrong.append(Violation(f"{SILVER_REJECTS}, {where}", said, settled))
    for key in sorted({**expected, **listed}, key=lambda key: (key[0], key[1] or 0, key[2])):
        if listed[key] != expected[key]:
            counted = f"{expected[key]:,}, as the ledger counts them"
            yield Violation(f"{SILVER_REJECTS}, {key[2]}", f"{listed[key]:,} records", counted)
    yield from wrong


def _is_possible(row: Row, kinds: Mapping[int, str]) -> bool:
    state: str = row["state"]
    by = row["settled_load_seq"]
    if by is None:
        is_decided_away = row["class"] in (contract.DUPLICATE, contract.LATE) or row.get("reason") in contract.SKIPPED
        return state == contract.HELD or (state == contract.DISCARDED and is_decided_away)
    return SETTLED_AS.get(kinds.get(by, "")) == state


def redecide_load(
    spark: SparkSession, run: Run, claim: Sequence[Row], before: Watermarks, tables: Mapping[str, DataFrame]
) -> Iterator[Violation]:
    """Decide a load again; yield its differences from the ledger and the rejects. Skips operators' requests.

    `claim` holds the load's ledger rows with their rules, `before` the watermarks before the load, from the ledger. `tables`
    has `bronze`, `silver` and `rejects`, each at one version.
    """
    decided = [row for row in claim if row["records"] > row[contract.REPLAY]]
    if not decided or claim[0]["kind"] != contract.RECORDS:
        return
    load_seq, rules = claim[0]["load_seq"], Rules.from_json(claim[0]["rules"])
    silver, rejects = tables["silver"].where(F.col("load_seq") < load_seq), as_of(tables["rejects"], load_seq - 1)
    claimed = bronze_range.by_offset(after_version=-1, to_version=-1, above=before.last_offsets, rows=decided)
    records = bronze_range.within(from_bytes(tables["bronze"]), claimed)
    rules = with_schemas(spark, run, records, rules)
    known = KnownRecords(
        lambda wanted: comparable(silver.where(pruning.sequence_filter(wanted)), rules),
        lambda wanted: rejects.where(pruning.sequence_filter(wanted, of="first_sequence")),
    )
    counted = sum(row["records"] for row in decided)
    chunks = bronze_range.keys_in_chunks(narrow(records, rules), model.LIMITS.records, counted=counted)
    found = planner.classify(chunks, records, rules, load_seq=load_seq, resolve=lambda _: before, known=known)
    segments = found.segments.filter(pc.field("class") != contract.REPLAY)
    loads = stream_loads(segments, found.jumps, {}, before)
    again = {stream_of(row): row for row in ledger_rows(loads, before, dict.fromkeys(("load_seq",), load_seq), rules)}
    yield from _other_outcomes(load_seq, {stream_of(row): row for row in decided}, again)
    of_load = as_of(tables["rejects"], load_seq).where(F.col("load_seq") == load_seq)
    yield from other_rejects(load_seq, of_load.toArrow().to_pylist(), found.rejects.to_pylist())


def _other_outcomes(
    load_seq: int, claimed: Mapping[Stream, Row], again: Mapping[Stream, Mapping[str, Any]]
) -> Iterator[Violation]:
    for stream in sorted({**claimed, **again}, key=str):
        where = f"{SILVER_LOADS}, load {load_seq}, {stream_text(stream)}"
        row, other = claimed.get(stream), again.get(stream)
        if row is None or other is None:
            yield Violation(where, "a row" if row else "no row", "none: Bronze has no record of it" if row else "a row of it")
            continue
        differing = [name for name in _OUTCOME if row[name] != other[name]]
        if differing:
            observed, expected = (", ".join(f"{name} {each[name]}" for name in differing) for each in (row, other))
            yield Violation(where, observed, f"{expected}, as Bronze decides it")


def other_rejects(load_seq: int, listed: Iterable[Row], again: Iterable[Row]) -> Iterator[Violation]:
    """Compare the load's rows of `silver_rejects`, in their state after the load, with the rows decided now.

    Compares the total of all blocks of a class, because an offset that Bronze held twice splits a block.
    """
    found, expected = ({tuple(row[name] for name in _REJECT): row for row in rows} for rows in (listed, again))
    by_kind: defaultdict[tuple[object, ...], tuple[list[Row], list[Row]]] = defaultdict(lambda: ([], []))
    for side, (these, others) in enumerate(((found, expected), (expected, found))):
        for key in these.keys() - others.keys():
            by_kind[tuple(these[key][name] for name in _SHARED)][side].append(these[key])
    for sides in by_kind.values():
        if _sum(sides[0]) == _sum(sides[1]):
            continue
        for kind, rows in zip(("listed", "not listed"), sides, strict=True):
            for row in sorted(rows, key=itemgetter("first_offset")):
                where = f"{SILVER_REJECTS}, load {load_seq}, {stream_text(stream_of(row))}, offset {row['first_offset']}"
                shown = f"{row['class']}, {row['records']} records, up to offset {row['last_offset']}"
                yield Violation(where, f"{kind}: {shown}", "what Bronze decides it to be")


def _sum(blocks: list[Row]) -> tuple[object, ...] | None:
    """Return the range that blocks cover together: first and last offset and sequence, and the number of records."""
    if not blocks:
        return None
    first, last = min(blocks, key=itemgetter("first_offset")), max(blocks, key=itemgetter("last_offset"))
    ends = (first["first_offset"], first["first_sequence"], last["last_offset"], last["last_sequence"])
    return *ends, sum(row["records"] for row in blocks)
