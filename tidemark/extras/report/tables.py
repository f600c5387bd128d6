"""The tables of a report, below the charts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from lakehouse.contracts.silver import CLASSES, DUPLICATE, LATE
from tidemark.extras.report.text import classes, count, loads_of, moment, seconds, share, text
from tidemark.runner.summary import STAGES

Row = dict[str, Any]


class Column(NamedTuple):
    """A column of a table on the page: its heading, its key in a row, and how to format its values.

    It is hidden when the class `shown_with`, which it counts, is filtered out.
    """

    label: str
    key: str
    write: Callable[[Any], str] = text
    shown_with: str | None = None

    @property
    def kind(self) -> str:
        """The layout of its cells: n for a right-aligned number, t for a time on one line; else text."""
        return "" if self.write is text else "t" if self.write is moment else "n"


class Table(NamedTuple):
    """A table on the page. A row has its cells, and what the filters match: topic, producer and classes."""

    caption: str
    columns: list[Column]
    rows: list[Row]
    note: str


def _texts(*names: str) -> list[Column]:
    return [Column(name.capitalize(), name) for name in names]


def _counts(**labels: str) -> list[Column]:
    return [Column(label, name, count) for name, label in labels.items()]


_STREAM = (*_texts("topic"), *_counts(partition="Partition"), *_texts("producer"))


def tables(found: Row) -> dict[str, Table]:
    """Return the tables by their names in the template."""
    return {
        "streams": _streams(found),
        "loads": _loads(found),
        "classes": _classes(found),
        "quarantine": _quarantine(found),
        "missing": _missing(found),
        "jumps": _jumps(found),
        "gate": _gate(found),
        "runs": _runs(found),
    }


def _made(caption: str, columns: Iterable[Column], rows: Iterable[Row], note: str = "") -> Table:
    columns = list(columns)
    made = [
        {
            "topic": text(row["topic"]) if "topic" in row else None,
            "producer": text(row["producer"]) if row.get("producer") is not None else "",
            "classes": row["class"] if "class" in row else " ".join(name for name in CLASSES if row.get(name)),
            "cells": [column.write(row[column.key]) for column in columns],
        }
        for row in rows
    ]
    return Table(caption, columns, made, note)


def _by_class(found: Row) -> list[Column]:
    return [Column(name.capitalize(), name, count, name) for name in classes(found)]


def _ask(view: str) -> str:
    return f'tidemark sql "FROM {view}"'


def _cut(found: Row, name: str, view: str, unit: str) -> str:
    rows, total = found[f"{name}_rows"], found[f"{name}_total"]
    if not total or sum(row[unit] for row in rows) == total[unit]:
        return ""
    return f"The first {len(rows):,}; all: {_ask(view)}."


def _others(found: Row) -> str:
    listed, total = len(found["streams"]), found["stream_count"]
    how = "those with the most records kept out"
    return f"{listed:,} of {total:,} streams, {how}; all: {_ask('watermark_status')}." if listed < total else ""


def _streams(found: Row) -> Table:
    places = {(row["topic"], row["partition"]): row for row in found["partitions"]}
    unknown = {"bronze_offset": None, "end_offset": None, "lag": None}
    streams = [{**places.get((row["topic"], row["partition"]), unknown), **row} for row in found["streams"]]
    known = {(row["topic"], row["partition"]) for row in streams}
    new = dict.fromkeys(("producer", "epoch", "high_watermark", "last_offset", "updated_at"))
    streams += [{**new, **row} for place, row in places.items() if place not in known]
    numbers = _counts(
        epoch="Epoch",
        high_watermark="Watermark",
        last_offset="Last offset",
        bronze_offset="Bronze's last offset",
        end_offset="Kafka's end",
        lag="Lag",
    )
    columns = (*_STREAM, *numbers, Column("Moved at", "updated_at", moment))
    streams.sort(key=lambda row: -(row["lag"] or 0))
    return _made("Streams, the furthest behind first", columns, streams, _others(found))


def _loads(found: Row) -> Table:
    sums: list[Row] = [dict.fromkeys(CLASSES, 0) for _ in found["slices"]]
    for row in found["history"]:
        for name in CLASSES:
            sums[row["slice"]][name] += row[name]
    rows = [{**row, "loads": loads_of(row), **counts} for row, counts in zip(found["slices"], sums, strict=True)]
    columns = (Column("Load", "loads"), Column("Claimed at", "last_claimed_at", moment), *_by_class(found))
    return _made("Records by load and class, the latest first", columns, reversed(rows))


def _classes(found: Row) -> Table:
    columns = [*_STREAM, *_counts(records="Records")]
    for column in _by_class(found):
        columns.append(column)
        if column.key in (DUPLICATE, LATE):
            columns.append(Column("Share", f"{column.key}_share", share, column.key))
    rows = [row for row in found["streams"] if row["records"]]
    rows = [{**row, **{f"{name}_share": row[name] / row["records"] for name in (DUPLICATE, LATE)}} for row in rows]
    return _made("Records by stream and class, the most kept out first", columns, rows, _others(found))


def _quarantine(found: Row) -> Table:
    numbers = _counts(records="Records", first_offset="First offset")
    columns = (*_STREAM, *_texts("class", "reason"), *numbers, Column("Oldest kept out at", "oldest", moment))
    note = _cut(found, "quarantine", "quarantine_open", "records")
    return _made("Records that wait for a decision", columns, found["quarantine_rows"], note)


def _missing(found: Row) -> Table:
    numbers = _counts(epoch="Epoch", first_sequence="First", last_sequence="Last", sequences="Sequences", load_seq="Load")
    note = _cut(found, "missing", "silver_missing", "sequences")
    return _made("Missing ranges of contiguous streams, the longest first", (*_STREAM, *numbers), found["missing_rows"], note)


def _jumps(found: Row) -> Table:
    numbers = _counts(jumps_forward="Forward", jumps_backward="Backward", missing="Gaps (sequences)", jump="Kept out as jump")
    rows = [row for row in found["streams"] if any(row[column.key] for column in numbers)]
    rows.sort(key=lambda row: -(row["jumps_backward"] or 0))
    return _made("Streams that jumped", (*_STREAM, *numbers), rows, _others(found))


def _gate(found: Row) -> Table:
    texts = _texts("loads", "expectation", "column", "severity", "outcome", "observed", "expected")
    rows = [{**row, "loads": loads_of(row)} for row in found["gate_results"]]
    columns = (Column("Evaluated at", "evaluated_at", moment), *texts)
    return _made("The last gate run, and what earlier ones did not find met", columns, rows)


def _runs(found: Row) -> Table:
    rows = []
    for run in found["runs"]:
        ended = f"{run['error']} ({run['exit_code']})" if run["error"] else "done"
        rows.append({**run, **{stage: run["stages"].get(stage) for stage in STAGES}, "ended": ended})
    columns = (
        Column("Started at", "started_at", moment),
        Column("Run", "run_id"),
        *(Column(name.capitalize(), name, seconds) for name in ("seconds", *STAGES)),
        *_counts(records="Records decided"),
        *_texts("ended"),
    )
    return _made("Runs, the latest first", columns, rows)
