"""Check the ledger for consistency, and summaries of Silver's tables against it. Pure."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from lakehouse.contracts.bronze import plain_topic
from lakehouse.contracts.silver import (
    ACCEPTED,
    CLASSES,
    CUTOVERS,
    DISCARD,
    DISCARDED,
    DUPLICATE,
    ERASE,
    HELD,
    IN_ORDER,
    LATE,
    RELEASE,
    RELEASED,
    REPLAY,
    RESET,
    SKIPPED,
    STREAM,
    stream_of,
    stream_text,
)
from lakehouse.reconcile import loads_are_there, ordinal
from lakehouse.run.findings import Violation
from lakehouse.spark.bitmaps import bit, word
from lakehouse.table import SILVER_LOADS, SILVER_RECORDS, SILVER_REJECTS, SILVER_WATERMARKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

    from lakehouse.contracts.silver import Stream

Row = dict[str, Any]

_SETTLED_AS = {RELEASE: RELEASED, DISCARD: DISCARDED, ERASE: DISCARDED}


def claims(ledger: Sequence[Row], finished: int) -> Iterator[Violation]:
    """Check that the last claim is of the last finished load or the one after it, and that finished loads are in the ledger."""
    last = max((row["load_seq"] for row in ledger), default=0)
    if last > finished and any(row["load_seq"] == last and row["kind"] in CUTOVERS for row in ledger):
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
        if row["kind"] != RESET and (after or (-1, -1)) < (before or (-1, -1)):
            yield Violation(where, f"watermark after {after}", f"not below {before}")
    marks.update({stream_of(row): row for row in rows})


def kept(records: DataFrame) -> DataFrame:
    """Sum up Silver's rows by stream and load, in the form that `lakehouse.reconcile` expects."""
    ordinal = F.when(F.col("epoch").isNotNull() & F.col("sequence").isNotNull(), F.struct("epoch", "sequence"))
    return records.groupBy(*STREAM, "load_seq").agg(
        F.count(F.lit(1)).alias("rows"),
        F.min(F.when(F.col("arrival") == IN_ORDER, ordinal)).alias("first"),
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
    return known.withColumns(
        {
            "state": F.when(is_later, F.lit(HELD)).otherwise(F.col("state")),
            "settled_load_seq": F.when(~is_later, F.col("settled_load_seq")),
        }
    )


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
        for name in CLASSES:
            count = row[name] - (row["late_accepted"] if name == LATE else 0)
            if count and name not in (ACCEPTED, REPLAY):
                expected[False, load_seq, f"load {load_seq}, {stream}, class {name}"] = count
        expected[True, load_seq, f"settled by load {load_seq}, {stream}"] = row[RELEASED] + row[DISCARDED]
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
    state, by = row["state"], row["settled_load_seq"]
    if by is None:
        is_decided_away = row["class"] in (DUPLICATE, LATE) or row.get("reason") in SKIPPED
        return state == HELD or (state == DISCARDED and is_decided_away)
    return bool(_SETTLED_AS.get(kinds.get(by, "")) == state)
