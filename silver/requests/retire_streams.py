"""Retire: remove streams that have been quiet for long from the watermark table, as a load of its own. Pure.

The load's ledger rows keep the last position of each (`silver.state.streams` reads it when a stream comes back). One row per
affected partition stays in the table: it carries the partition's last decided offset and the load's number, which are read
from there. So a partition's own row, the one without a producer, is never retired.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from silver.state.ledger import StreamLoad

if TYPE_CHECKING:
    from lakehouse.contracts.silver import Stream
    from silver.state.watermarks import Watermarks


def stream_loads(up_to_load_seq: int, watermarks: Watermarks) -> dict[Stream, StreamLoad]:
    """Return the ledger's rows: one per stream that no later load has moved, and one for each of their partitions.

    A stream with a declared epoch stays: its records are read under that epoch.

    Args:
        up_to_load_seq: The last load that does not count as recent.
        watermarks: The watermarks before.
    """
    quiet: dict[Stream, StreamLoad] = {
        stream: StreamLoad(mark.ordinal, last_offset=mark.last_offset)
        for stream, mark in watermarks.rows.items()
        if stream[2] is not None and mark.load_seq <= up_to_load_seq and mark.declared_epoch is None
    }
    last_offsets = watermarks.last_offsets
    carriers: list[Stream] = [(topic, partition, None) for topic, partition in {stream[:2] for stream in quiet}]
    kept = {stream: StreamLoad(watermarks.ordinals.get(stream), last_offset=last_offsets[stream[:2]]) for stream in carriers}
    return {**quiet, **kept}
