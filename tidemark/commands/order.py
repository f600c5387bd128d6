"""`tidemark order`: jumps and duplicate blocks of each stream.

In the terms and columns of the article "Testing Producer Deduplication in Apache Kafka and Apache Pulsar".
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lakehouse.escape import printable, shortened
from silver.audit.arrival_order import diagnose
from tidemark.process import output

if TYPE_CHECKING:
    from silver.audit.arrival_order import Order

COLUMNS = ("Layer", "Topic", "Partition", "Producer", "Received", "MsgsWithDups", "DJF", "DJB", "JF", "JB")
_MOST_JUMPS, _MOST_STREAMS = 20, 100
_COLUMNS_MEAN = (
    "MsgsWithDups are records whose number was read before. A jump is where the next number does not follow: JF forward\n"
    "and JB backward to a number that was not read before, DJF and DJB to one that was, where a block of duplicates begins."
)


def rows(found: dict[str, list[Order]]) -> list[list[Any]]:
    """Return a row per layer and stream, with the columns `COLUMNS`."""
    return [
        [layer, *order.stream, order.received, order.duplicates, *(order.count(kind) for kind in ("DJF", "DJB", "JF", "JB"))]
        for layer, orders in found.items()
        for order in orders
    ]


def write_order(found: dict[str, list[Order]], form: str) -> None:
    """Print arrival orders on stdout: a table with the first jumps of each stream, CSV, or JSON with all of them."""
    if form == "json":
        output.write_json({layer: [_plain(order, layer) for order in orders] for layer, orders in found.items()})
    elif form == "csv":
        output.write_csv(COLUMNS, rows(found))
    else:
        _write_text(found)


def _plain(order: Order, layer: str) -> dict[str, Any]:
    findings = diagnose(order) if layer == "bronze" else []
    return {**asdict(order), "diagnosis": [finding._asdict() for finding in findings]}


def _write_text(found: dict[str, list[Order]]) -> None:
    gaps = 0
    for layer, orders in found.items():
        listed = [(order, [jump for jump in order.jumps if order.is_contiguous or not jump.is_gap]) for order in orders]
        gaps += sum(len(order.jumps) - len(jumps) for order, jumps in listed)
        jumping = [(order, jumps) for order, jumps in listed if jumps]
        for order, jumps in jumping[:_MOST_STREAMS]:
            named = _named(order)
            for jump in jumps[:_MOST_JUMPS]:
                output.write(printable(f"{layer}: {named}, offset {jump.offset}: {jump}"))
            if len(jumps) > _MOST_JUMPS:
                output.write(printable(f"{layer}: {named}: {len(jumps) - _MOST_JUMPS} jumps more"))
        if len(jumping) > _MOST_STREAMS:
            output.write(f"{layer}: {len(jumping) - _MOST_STREAMS:,} streams more with jumps; --format json has all")
    output.write_table(COLUMNS, rows(found))
    output.write(_COLUMNS_MEAN)
    if gaps:
        output.write(f"{gaps:,} of the JF only pass gaps, numbers that were never read, and are not listed. JSON has all.")
    findings = [(order, finding) for order in found["bronze"] for finding in diagnose(order)]
    for order, finding in findings[:_MOST_STREAMS]:
        output.write(printable(f"{_named(order)}: {finding.name}: {finding.evidence}.") + f"\n  {finding.cure}")
    if len(findings) > _MOST_STREAMS:
        output.write(f"{len(findings) - _MOST_STREAMS:,} findings more; --format json has all")


def _named(order: Order) -> str:
    topic, partition, producer = order.stream
    return f"{topic}, partition {partition}" + (f", producer {shortened(producer)}" if producer is not None else "")
