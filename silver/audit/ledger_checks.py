"""Silver's own tables reconciled: the ledger with itself, then the other tables with the ledger. Pure, on few rows.

The ledger is the reference. Each of its rows gives a stream's watermark before and after a load and what the load did. So it is
first checked against itself (`chain`, `sums`), and then the watermarks, the records and the rejects against it.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Any

from lakehouse.contracts.silver import (
    CLASSES,
    DISCARD,
    DISCARDED,
    ERASE,
    IN_ORDER,
    KEPT,
    LATE,
    RECORDS,
    RELEASE,
    RELEASED,
    RESET,
    SWAPS,
    WATERMARK_IN_LOADS,
    is_retired,
    lacking,
)
from lakehouse.run.findings import Violation
from lakehouse.table import SILVER_LOADS, SILVER_RECORDS, SILVER_WATERMARKS
from silver.model import stream_of, stream_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from silver.model import Ordinal, Stream

Row = dict[str, Any]
StreamLoad = tuple["Stream", int | None]


def claims(ledger: Sequence[Row], finished: int) -> Iterator[Violation]:
    """Check that the last claim is of the last finished load or the one after it, and that finished loads are in the ledger."""
    last = max((row["load_seq"] for row in ledger), default=0)
    if last > finished and any(row["load_seq"] == last and row["kind"] in SWAPS for row in ledger):
        yield Violation(SILVER_LOADS, f"load {last}, a restore or rebuild, is claimed and not finished", "that it is finished")
    elif last not in (finished, finished + 1):
        yield Violation(
            f"{SILVER_LOADS} and {SILVER_WATERMARKS}",
            f"last claimed load {last}, last finished load {finished}",
            f"last claimed load {finished} or {finished + 1}",
        )


def chain(ledger: Sequence[Row], pipeline: str) -> Iterator[Violation]:
    """Check that all loads are one pipeline's, and that each starts where the one before it ended.

    They are numbered without gaps, except for loads that a restore or rebuild rolled back.

    Args:
        ledger: The ledger's rows, in the order of their loads.
        pipeline: The pipeline's name.
    """
    kinds = {row["load_seq"]: row["kind"] for row in ledger}
    last = max(kinds, default=0)
    for load_seq in reversed(lacking(kinds, last)):
        yield Violation(f"{SILVER_LOADS}, load {load_seq}", "no row", f"a row: load {last} is there")
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
        yield Violation(
            where,
            f"bronze_after_version {first['bronze_after_version']}",
            f"{bronze_version}, where the load before ended (-1 before the first)",
        )
    shared = ("kind", "bronze_after_version", "bronze_to_version", "rules_fingerprint", "run_id")
    if any(row[name] != first[name] for row in rows for name in shared):
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
        stream = stream_of(row)
        where = f"{SILVER_LOADS}, load {row['load_seq']}, {stream_text(stream)}"
        known = marks.get(stream)
        expected = ordinal(known, "after")
        if ordinal(row, "before") != expected:
            yield Violation(where, f"watermark before {ordinal(row, 'before')}", f"{expected}, as the load before left it")
        if row["last_offset_before"] != reached.get(stream[:2]):
            yield Violation(
                where,
                f"last_offset_before {row['last_offset_before']}",
                f"{reached.get(stream[:2])}, as the load before left it",
            )
        if known is not None and row["last_offset"] < known["last_offset"]:
            yield Violation(where, f"last_offset {row['last_offset']}", f"not below {known['last_offset']}")
        if row["kind"] != RESET and (ordinal(row, "after") or (-1, -1)) < (ordinal(row, "before") or (-1, -1)):
            yield Violation(where, f"watermark after {ordinal(row, 'after')}", f"not below {ordinal(row, 'before')}")
    marks.update({stream_of(row): row for row in rows})


def sums(ledger: Iterable[Row]) -> Iterator[Violation]:
    """Check that each row's classes add up to its records, and that operators' requests take no records from Bronze."""
    for row in ledger:
        where = f"{SILVER_LOADS}, load {row['load_seq']}, {stream_text(stream_of(row))}"
        classes = sum(row[name] for name in CLASSES)
        if classes != row["records"]:
            yield Violation(where, f"{classes} records in all classes", f"{row['records']}, the row's records")
        if row["kind"] != RECORDS and row["records"]:
            yield Violation(where, f"{row['records']} records of Bronze", f"none: the load is a {row['kind']}")
        asked = {RELEASED: (RELEASE,), DISCARDED: (DISCARD, ERASE), "erased": (ERASE,)}
        if wrong := [name for name, kinds in asked.items() if row[name] and row["kind"] not in kinds]:
            yield Violation(where, f"{row[wrong[0]]} {wrong[0]}", f"none: the load is of kind {row['kind']}")
        if row["late_accepted"] not in (0, row[LATE]) or min(row[name] for name in (*CLASSES, *asked)) < 0:
            yield Violation(where, "counts below 0, or late_accepted that is neither 0 nor late", "counts of records")
        if row["missing"] < 0:
            what = f"{row['missing']} missing sequences: more records were accepted than the stream has sequences"
            yield Violation(where, what, "0 or more")


def marks(ledger: Iterable[Row], watermarks: Iterable[Row]) -> Iterator[Violation]:
    """Check that each watermark is where the stream's last ledger row left it, and that retired streams have none."""
    last = {stream_of(row): row for row in ledger}
    last = {stream: row for stream, row in last.items() if not is_retired(row)}
    standing = {stream_of(row): row for row in watermarks}
    for stream in sorted({**last, **standing}, key=str):
        where = f"{SILVER_WATERMARKS}, {stream_text(stream)}"
        claimed, found = last.get(stream), standing.get(stream)
        if claimed is None or found is None:
            yield Violation(
                where, *(("a row", "none") if claimed is None else ("no row", f"that of load {claimed['load_seq']}"))
            )
            continue
        differing = [name for name, other in WATERMARK_IN_LOADS.items() if found[name] != claimed[other]]
        if differing:
            yield Violation(
                where,
                ", ".join(f"{name} {found[name]}" for name in differing),
                ", ".join(f"{name} {claimed[WATERMARK_IN_LOADS[name]]}" for name in differing)
                + f", as load {claimed['load_seq']} left it",
            )


def records(ledger: Sequence[Row], silver: Iterable[Row]) -> Iterator[Violation]:
    """Check that Silver has as many rows of each stream and load as the ledger says, and none of other loads.

    Args:
        ledger: The ledger's rows of the finished loads.
        silver: The rows by load of `silver.audit.row_summaries.parted`.
    """
    kept = {(stream_of(row), row["load_seq"]): sum(row[name] for name in KEPT) for row in ledger}
    found: Counter[StreamLoad] = Counter()
    for row in silver:
        found[stream_of(row), row["load_seq"]] += row["rows"]
    for stream, load_seq in sorted({**kept, **found}, key=_by_load):
        observed, expected = found[stream, load_seq], kept.get((stream, load_seq), 0)
        if observed != expected:
            where = f"{SILVER_RECORDS}, load {load_seq}, {stream_text(stream)}"
            yield Violation(where, f"{observed:,} rows", f"{expected:,}, as the ledger counts them")


def reach(ledger: Sequence[Row], silver: Iterable[Row]) -> Iterator[Violation]:
    """Check Silver's rows against the watermarks before and after their load.

    In-order rows lie above the one before and rise by offset; the highest row is the one after, except in a reset, where an
    operator says what it is.
    """
    lowest: dict[StreamLoad, Ordinal] = {}
    highest: dict[StreamLoad, Ordinal] = {}
    falling: Counter[StreamLoad] = Counter()
    for row in silver:
        key = (stream_of(row), row["load_seq"])
        last = (row["epoch"], row["last_sequence"])
        highest[key] = max(last, highest.get(key, last))
        if row["arrival"] == IN_ORDER:
            first = (row["epoch"], row["first_sequence"])
            lowest[key] = min(first, lowest.get(key, first))
            falling[key] += row["falls"]
    for row in ledger:
        key = (stream_of(row), row["load_seq"])
        where = f"{SILVER_RECORDS}, load {row['load_seq']}, {stream_text(key[0])}"
        before, after = ordinal(row, "before"), ordinal(row, "after")
        if key in lowest and before is not None and lowest[key] <= before:
            yield Violation(
                where, f"{lowest[key]} in order", f"(epoch, sequence) above {before}, the watermark before the load"
            )
        if falling[key]:
            yield Violation(where, f"{falling[key]} places where rows in order fall", "sequences that rise with the offsets")
        expected = max((each for each in (before, highest.get(key)) if each is not None), default=None)
        if row["kind"] != RESET and after != expected:
            yield Violation(where, f"highest row {highest.get(key)}", f"{after}, the watermark after the load")


def repeats(rows: Iterable[Row]) -> Iterator[Violation]:
    """Check that no (stream, epoch, sequence) occurs twice. Takes the repeated sequences of `row_summaries.parted`."""
    for row in rows:
        where = f"{SILVER_RECORDS}, {stream_text(stream_of(row))}, epoch {row['epoch']}"
        places = f"sequences {row['first_sequence']} to {row['last_sequence']}"
        yield Violation(f"{where}, {places}", f"{row['rows']} rows", f"{row['sequences']}, one for each sequence")


def ordinal(row: Mapping[str, Any] | None, when: str) -> Ordinal | None:
    """The watermark before or after a row of the ledger."""
    if row is None or row[f"high_watermark_{when}"] is None:
        return None
    return row[f"epoch_{when}"], row[f"high_watermark_{when}"]


def _by_load(key: StreamLoad) -> tuple[int, str]:
    return (-1 if key[1] is None else key[1]), str(key[0])
