"""The ledger checked against itself, before the other tables are reconciled with it. Pure, on few rows.

Each of its rows gives a stream's watermark before and after a load and what the load did: see `lakehouse.reconcile`.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Any

from lakehouse.contracts.bronze import plain_topic
from lakehouse.contracts.silver import CUTOVERS, RESET, stream_of, stream_text
from lakehouse.reconcile import loads_are_there, ordinal
from lakehouse.run.findings import Violation
from lakehouse.table import SILVER_LOADS, SILVER_RECORDS, SILVER_WATERMARKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lakehouse.contracts.silver import Stream

Row = dict[str, Any]


def claims(ledger: Sequence[Row], finished: int) -> Iterator[Violation]:
    """Check that the last claim is of the last finished load or the one after it, and that finished loads are in the ledger."""
    last = max((row["load_seq"] for row in ledger), default=0)
    if last > finished and any(row["load_seq"] == last and row["kind"] in CUTOVERS for row in ledger):
        yield Violation(SILVER_LOADS, f"load {last}, a restore or rebuild, is claimed and not finished", "that it is finished")
    elif last not in (finished, finished + 1):
        yield Violation(
            f"{SILVER_LOADS} and {SILVER_WATERMARKS}",
            f"last claimed load {last}, last finished load {finished}",
            f"last claimed load {finished} or {finished + 1}",
        )


def chain(ledger: Sequence[Row], pipeline: str, *, first: int = 1) -> Iterator[Violation]:
    """Check that all loads are one pipeline's, and that each starts where the one before it ended.

    They are numbered without gaps, except for loads that a restore or rebuild rolled back.

    Args:
        ledger: The ledger's rows, in the order of their loads.
        pipeline: The pipeline's name.
        first: The first load of the ledger, see `lakehouse.contracts.silver.first_load`; 1 if all of the ledger is given.
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
        yield Violation(
            where,
            f"bronze_after_version {first['bronze_after_version']}",
            f"{bronze_version}, where the load before ended (-1 before the first)",
        )
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


def repeats(rows: Iterable[Row]) -> Iterator[Violation]:
    """Check that no (stream, epoch, sequence) occurs twice. Takes the repeated sequences of `row_summaries.parted`."""
    for row in rows:
        where = f"{SILVER_RECORDS}, {stream_text(stream_of(row))}, epoch {row['epoch']}"
        places = f"sequences {row['first_sequence']} to {row['last_sequence']}"
        yield Violation(f"{where}, {places}", f"{row['rows']} rows", f"{row['sequences']}, one for each sequence")
