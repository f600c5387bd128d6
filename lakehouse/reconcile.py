"""Checks that Silver's records and watermarks agree with the ledger. Pure; each check yields the differences.

Rows of Silver are sums of a stream and load: topic, partition, producer, load_seq, rows, first and last (structs of epoch and
sequence: the lowest in-order row or None, and the highest row), and from the gate not_increasing (in-order rows that are not
above the one before them by offset).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakehouse.contracts import silver as contract
from lakehouse.contracts.silver import Ordinal, Stream, stream_of, stream_text
from lakehouse.run.findings import Violation
from lakehouse.table import SILVER_LOADS, SILVER_RECORDS, SILVER_WATERMARKS

Row = Mapping[str, Any]
StreamLoad = tuple[Stream, int | None]


@dataclass(frozen=True)
class Difference(Violation):
    """A stream and load in which two tables differ, by `count` records or rows."""

    stream: tuple[str | None, int | None, str | None] | None  # None for a load without a row
    load_seq: int | None  # None for rows of Silver without a load
    count: int = 1


def loads_are_there(ledger: Iterable[Row], last: int, *, first: int = 1) -> Iterator[Difference]:
    """Check that the ledger has all loads, except those that a restore or rebuild rolled back."""
    kinds = {row["load_seq"]: row["kind"] for row in ledger}
    for load_seq in reversed(contract.lacking(kinds, last, first=first)):
        yield Difference(f"{SILVER_LOADS}, load {load_seq}", "no row", f"a row: load {last} is there", None, load_seq)


def classes_add_up(ledger: Iterable[Row]) -> Iterator[Difference]:
    """Check that each row's classes add up to its records, and that operators' requests have no records of Bronze."""
    for row in ledger:
        classes = sum(row[name] for name in contract.CLASSES)
        if off := abs(classes - row["records"]):
            yield _in_ledger(row, f"{classes} records in all classes", f"{row['records']}, the row's records", off)
        if row["kind"] != contract.RECORDS and row["records"]:
            yield _in_ledger(row, f"{row['records']} records of Bronze", f"none: the load is a {row['kind']}", row["records"])
        asked = {"released": (contract.RELEASE,), "discarded": (contract.DISCARD, contract.ERASE), "erased": (contract.ERASE,)}
        for name, kinds in asked.items():
            if row[name] and row["kind"] not in kinds:
                yield _in_ledger(row, f"{row[name]} {name}", f"none: the load is of kind {row['kind']}", row[name])
        if row["late_accepted"] not in (0, row[contract.LATE]) or min(row[name] for name in (*contract.CLASSES, *asked)) < 0:
            yield _in_ledger(row, "counts below 0, or late_accepted that is neither 0 nor late", "counts of records")
        if row["missing"] < 0:
            what = f"{row['missing']} missing sequences: more records were accepted than the stream has sequences"
            yield _in_ledger(row, what, "0 or more", -row["missing"])


def rows_match(ledger: Iterable[Row], silver: Iterable[Row]) -> Iterator[Difference]:
    """Check that Silver has as many rows of each stream and load as the ledger, and none of other loads."""
    claimed = {(stream_of(row), row["load_seq"]): kept(row) for row in ledger}
    found = {(stream_of(row), row["load_seq"]): row["rows"] for row in silver}
    for key in sorted({**claimed, **found}, key=_by_load):
        observed, expected = found.get(key, 0), claimed.get(key, 0)
        if observed != expected:
            counted = f"{expected:,}, as the ledger counts them"
            yield Difference(_in_silver(key), f"{observed:,} rows", counted, *key, abs(observed - expected))


def sequences_rise(ledger: Iterable[Row], silver: Iterable[Row]) -> Iterator[Difference]:
    """Check that in-order rows rise by offset, above the watermark before their load and all rows since the last reset."""
    claimed = {(stream_of(row), row["load_seq"]): row for row in ledger}
    found = {(stream_of(row), row["load_seq"]): row for row in silver}
    highest: dict[Stream, Ordinal] = {}
    for key in sorted({**claimed, **found}, key=_by_load):
        stream, load_seq = key
        row, load = found.get(key), claimed.get(key)
        if load is not None and load["kind"] == contract.RESET:
            highest.pop(stream, None)
        if row is None:
            continue
        first, last = _struct(row["first"]), _struct(row["last"])
        floor = max(filter(None, (ordinal(load, "before"), highest.get(stream))), default=None)
        if first is not None and floor is not None and load_seq is not None and first <= floor:
            above = f"(epoch, sequence) above {floor}, the highest before the load"
            yield Difference(_in_silver(key), f"{first} in order", above, *key)
        if falls := row.get("not_increasing"):
            observed = f"{falls} places where rows in order fall"
            yield Difference(_in_silver(key), observed, "sequences that rise with the offsets", *key, falls)
        if last is not None and load_seq is not None:
            highest[stream] = max(last, highest.get(stream, last))


def watermarks_are_reached(ledger: Iterable[Row], silver: Iterable[Row]) -> Iterator[Difference]:
    """Check that Silver's highest row is the ledger's watermark, except in a reset, where an operator sets it."""
    highest = {(stream_of(row), row["load_seq"]): _struct(row["last"]) for row in silver}
    for row in ledger:
        key = (stream_of(row), row["load_seq"])
        expected = max(filter(None, (ordinal(row, "before"), highest.get(key))), default=None)
        if row["kind"] != contract.RESET and ordinal(row, "after") != expected:
            after = f"{ordinal(row, 'after')}, the watermark after the load"
            yield Difference(_in_silver(key), f"highest row {highest.get(key)}", after, *key)


def watermarks_match(ledger: Iterable[Row], watermarks: Iterable[Row], *, first: int = 1) -> Iterator[Difference]:
    """Check each watermark against the stream's last ledger row, from load `first` on; retired streams have none."""
    last = {stream_of(row): row for row in sorted(ledger, key=lambda row: row["load_seq"])}
    known = {stream_of(row): row for row in watermarks}
    for stream in sorted({**last, **known}, key=str):
        where = f"{SILVER_WATERMARKS}, {stream_text(stream)}"
        claimed, found = last.get(stream), known.get(stream)
        if claimed is None or contract.is_retired(claimed):
            if found is not None and (claimed is not None or found["load_seq"] >= first):
                yield Difference(where, "a row", "none", stream, (claimed or found)["load_seq"])
        elif found is None:
            yield Difference(where, "no row", f"that of load {claimed['load_seq']}", stream, claimed["load_seq"])
        elif differing := [name for name, other in contract.WATERMARK_IN_LOADS.items() if found[name] != claimed[other]]:
            observed = ", ".join(f"{name} {found[name]}" for name in differing)
            expected = ", ".join(f"{name} {claimed[contract.WATERMARK_IN_LOADS[name]]}" for name in differing)
            left = f"{expected}, as load {claimed['load_seq']} left it"
            yield Difference(where, observed, left, stream, claimed["load_seq"])


def kept(row: Row) -> int:
    """Return the number of records that a ledger row adds to Silver."""
    return sum(row[name] for name in contract.KEPT)


def ordinal(row: Row | None, when: str) -> Ordinal | None:
    """Return the watermark before or after a row of the ledger."""
    if row is None or row[f"high_watermark_{when}"] is None:
        return None
    return row[f"epoch_{when}"], row[f"high_watermark_{when}"]


def _struct(value: Row | None) -> Ordinal | None:
    if value is None or value["epoch"] is None or value["sequence"] is None:
        return None
    return value["epoch"], value["sequence"]


def _in_ledger(row: Row, observed: str, expected: str, count: int = 1) -> Difference:
    stream, load_seq = stream_of(row), row["load_seq"]
    return Difference(f"{SILVER_LOADS}, load {load_seq}, {stream_text(stream)}", observed, expected, stream, load_seq, count)


def _in_silver(key: StreamLoad) -> str:
    stream, load_seq = key
    return f"{SILVER_RECORDS}, load {load_seq}, {stream_text(stream)}"


def _by_load(key: StreamLoad) -> tuple[int, str]:
    return (-1 if key[1] is None else key[1]), str(key[0])
