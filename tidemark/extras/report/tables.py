"""The tables of a report, below the charts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakehouse.contracts.silver import CLASSES, DUPLICATE, LATE
from tidemark.extras.report.text import classes, count, loads_of, moment, seconds, share, text
from tidemark.runner.summary import STAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Row = dict[str, Any]


@dataclass(frozen=True)
class Column:
    """A column of a table on the page: its heading, and how to take and format a row's value.

    It is hidden when the class `shown_with`, which it counts, is filtered out.
    """

    label: str
    of: Callable[[Row], Any]
    write: Callable[[Any], str] = text
    shown_with: str | None = None

    @property
    def kind(self) -> str:
        """The layout of its cells: n for a right-aligned number, t for a time on one line; else text."""
        return "" if self.write is text else "t" if self.write is moment else "n"


@dataclass(frozen=True)
class Table:
    """A table on the page. A row has its cells, and what the filters match: topic, producer and classes."""

    caption: str
    columns: tuple[Column, ...]
    rows: list[Row] = field(default_factory=list)
    note: str = ""


def _text(label: str, name: str) -> Column:
    return Column(label, lambda row: row[name])


def _texts(*names: str) -> list[Column]:
    return [_text(name.capitalize(), name) for name in names]


def _counts(**labels: str) -> list[Column]:
    return [_count(label, name) for name, label in labels.items()]


def _count(label: str, name: str, *, shown_with: str | None = None) -> Column:
    return Column(label, lambda row: row[name], count, shown_with=shown_with)


def _time(label: str, name: str) -> Column:
    return Column(label, lambda row: row[name], moment)


_STREAM = (_text("Topic", "topic"), _count("Partition", "partition"), _text("Producer", "producer"))


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


def _by_class(found: Row) -> list[Column]:
    return [_count(name.capitalize(), name, shown_with=name) for name in classes(found)]


def _made(caption: str, columns: Iterable[Column], rows: Iterable[Row], note: str = "") -> Table:
    columns = tuple(columns)
    made = [
        {
            "topic": text(row["topic"]) if "topic" in row else None,
            "producer": text(row["producer"]) if row.get("producer") is not None else "",
            "classes": " ".join(_classes_of(row)),
            "cells": [column.write(column.of(row)) for column in columns],
        }
        for row in rows
    ]
    return Table(caption, columns, made, note)


def _classes_of(row: Row) -> list[str]:
    return [row["class"]] if "class" in row else [name for name in CLASSES if row.get(name)]


def _ask(view: str) -> str:
    return f'tidemark sql "FROM {view}"'


def _cut(found: Row, name: str, what: str, unit: str) -> str:
    rows, total = found[f"{name}_rows"], found[f"{name}_total"]
    if not total or sum(row[unit] for row in rows) == total[unit]:
        return ""
    return f"The first {len(rows):,}; all: {_ask(what)}."


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
    columns = (*_STREAM, *numbers, _time("Moved at", "updated_at"))
    streams.sort(key=lambda row: -(row["lag"] or 0))
    return _made("Streams, the furthest behind first", columns, streams, _others(found))


def _others(found: Row) -> str:
    if found["stream_count"] <= len(found["streams"]):
        return ""
    return (
        f"{len(found['streams']):,} of {found['stream_count']:,} streams, those with the most records kept out; "
        f"all: {_ask('watermark_status')}."
    )


def _loads(found: Row) -> Table:
    sums: list[Row] = [dict.fromkeys(CLASSES, 0) for _ in found["slices"]]
    for row in found["history"]:
        for name in CLASSES:
            sums[row["slice"]][name] += row[name]
    rows = [{**row, **counts} for row, counts in zip(found["slices"], sums, strict=True)]
    columns = (Column("Load", loads_of), _time("Claimed at", "last_claimed_at"), *_by_class(found))
    return _made("Records by load and class, the latest first", columns, reversed(rows))


def _classes(found: Row) -> Table:
    columns = [*_STREAM, _count("Records", "records")]
    for column in _by_class(found):
        columns.append(column)
        if column.shown_with in (DUPLICATE, LATE):
            columns.append(_share(column.shown_with))
    rows = [row for row in found["streams"] if row["records"]]
    return _made("Records by stream and class, the most kept out first", columns, rows, _others(found))


def _share(name: str) -> Column:
    return Column("Share", lambda row: row[name] / row["records"], share, shown_with=name)


def _quarantine(found: Row) -> Table:
    numbers = _counts(records="Records", first_offset="First offset")
    columns = (*_STREAM, *_texts("class", "reason"), *numbers, _time("Oldest kept out at", "oldest"))
    note = _cut(found, "quarantine", "quarantine_open", "records")
    return _made("Records that wait for a decision", columns, found["quarantine_rows"], note)


def _missing(found: Row) -> Table:
    numbers = _counts(epoch="Epoch", first_sequence="First", last_sequence="Last", sequences="Sequences", load_seq="Load")
    note = _cut(found, "missing", "silver_missing", "sequences")
    return _made("Missing ranges of contiguous streams, the longest first", (*_STREAM, *numbers), found["missing_rows"], note)


def _jumps(found: Row) -> Table:
    names = ("jumps_forward", "jumps_backward", "missing", "jump")
    rows = [row for row in found["streams"] if any(row[name] for name in names)]
    numbers = _counts(jumps_forward="Forward", jumps_backward="Backward", missing="Gaps (sequences)", jump="Kept out as jump")
    rows.sort(key=lambda row: -(row["jumps_backward"] or 0))
    return _made("Streams that jumped", (*_STREAM, *numbers), rows, _others(found))


def _gate(found: Row) -> Table:
    columns = (
        _time("Evaluated at", "evaluated_at"),
        Column("Loads", loads_of),
        *_texts("expectation", "column", "severity", "outcome", "observed", "expected"),
    )
    return _made("The last gate run, and what earlier ones did not find met", columns, found["gate_results"])


def _runs(found: Row) -> Table:
    def stage(name: str) -> Column:
        return Column(name.capitalize(), lambda row: row["stages"].get(name), seconds)

    columns = (
        _time("Started at", "started_at"),
        _text("Run", "run_id"),
        Column("Seconds", lambda row: row["seconds"], seconds),
        *(stage(name) for name in STAGES),
        _count("Records decided", "records"),
        Column("Ended", lambda row: f"{row['error']} ({row['exit_code']})" if row["error"] else "done"),
    )
    return _made("Runs, the latest first", columns, found["runs"])
