"""The streams and loads in which Bronze, the ledger, Silver and the watermarks disagree. Pure, on few rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.evidence.reconcile import stream_facts
from lakehouse.contracts.silver import KEPT, STREAM

if TYPE_CHECKING:
    from expectations.evidence.model import Evidence, Row

SHOWN = {
    "unaccounted": ("bronze_records", "ledger_records"),
    "silver_mismatch": ("silver_rows", "ledger_kept"),
    "watermark_mismatch": ("silver_highest", "ledger_watermark", "watermark"),
}
"""What is shown for each fact, next to the stream and the load."""


def differences(evidence: Evidence, fact: str) -> list[Row]:
    """The rows that disagree, by one of the facts that compare tables.

    Args:
        evidence: What the gate run read.
        fact: `unaccounted`, `silver_mismatch` or `watermark_mismatch`.

    Returns:
        A row per stream and load: topic, partition, producer, load_seq, and what each table says, None if nothing. Bronze's
        records are those of the partition. Watermarks are (epoch, sequence).
    """
    ledger = {_key(row): row for row in evidence.ledger}
    silver = {_key(row): row for row in evidence.silver}
    standing = {tuple(row[name] for name in STREAM): row for row in evidence.watermarks}
    found = []
    for each in stream_facts(evidence):
        if getattr(each, fact):
            key = (each.topic, each.partition, each.producer, each.load_seq)
            told = {**_of_ledger(ledger.get(key)), **_of_silver(silver.get(key)), "watermark": _mark(standing.get(key[:3]))}
            told["bronze_records"] = evidence.bronze.records.get((each.topic, each.partition, each.load_seq))
            names = dict(zip((*STREAM, "load_seq"), key, strict=True))
            found.append({**names, **{name: told.get(name) for name in SHOWN[fact]}})
    return found


def _key(row: Row) -> tuple[object, ...]:
    return tuple(row[name] for name in (*STREAM, "load_seq"))


def _of_ledger(row: Row | None) -> Row:
    if row is None:
        return {}
    kept = sum(row[name] for name in KEPT)
    return {"ledger_records": row["records"], "ledger_kept": kept, "ledger_watermark": _mark(row, "_after")}


def _of_silver(row: Row | None) -> Row:
    if row is None:
        return {}
    last = row["last"]
    return {"silver_rows": row["rows"], "silver_highest": last and [last["epoch"], last["sequence"]]}


def _mark(row: Row | None, when: str = "") -> list[int] | None:
    if row is None or row[f"high_watermark{when}"] is None:
        return None
    return [row[f"epoch{when}"], row[f"high_watermark{when}"]]
