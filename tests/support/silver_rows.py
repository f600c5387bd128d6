"""Literal rows of Silver's tables: loads of ten records of stream t/0, seven of them accepted, three duplicates."""

from collections.abc import Iterable
from typing import Any

from lakehouse.contracts.silver import CLASSES
from lakehouse.run.findings import Violation

Row = dict[str, Any]

STREAM = {"topic": "t", "partition": 0, "producer": None}


def claim(load_seq: int, **named: Any) -> Row:
    first = load_seq == 1
    row = {
        **STREAM,
        "load_seq": load_seq,
        "kind": "records",
        "pipeline": "tests",
        "bronze_after_version": -1 if first else load_seq - 1,
        "bronze_to_version": load_seq,
        "records": 10,
        **dict.fromkeys((*CLASSES, "late_accepted", "released", "discarded", "erased", "missing"), 0),
        "accepted": 7,
        "duplicate": 3,
        "epoch_before": None if first else 0,
        "high_watermark_before": None if first else 7 * (load_seq - 1),
        "epoch_after": 0,
        "high_watermark_after": 7 * load_seq,
        "last_offset_before": None if first else 10 * (load_seq - 1) - 1,
        "last_offset": 10 * load_seq - 1,
        "declared_epoch": None,
        "rules_fingerprint": "f",
        "run_id": f"run-{load_seq}",
    }
    return row | named


def mark(**named: Any) -> Row:
    row = {"epoch": 0, "high_watermark": 14, "last_offset": 19, "declared_epoch": None, "load_seq": 2, "rules_fingerprint": "f"}
    return {**STREAM, **row, **named}


def kept(load_seq: int | None, first: int, last: int, **named: Any) -> Row:
    ends = {"first": {"epoch": 0, "sequence": first}, "last": {"epoch": 0, "sequence": last}}
    return {**STREAM, "load_seq": load_seq, "rows": last - first + 1, "not_increasing": 0, **ends, **named}


LEDGER = [claim(1), claim(2)]
KEPT = [kept(1, 1, 7), kept(2, 8, 14)]


def as_lines(violations: Iterable[Violation]) -> list[str]:
    return [f"{each.where}: {each.observed} / {each.expected}" for each in violations]
