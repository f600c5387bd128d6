"""Retire: streams that have been quiet for long leave the watermark table, as a load of its own. Pure.

The ledger's rows of the load say where each of them stood (`silver.state.streams` asks it when one comes back). A row for each
partition concerned stays in the table: it carries the partition's last decided offset and the load's number, which are read
from there. So a partition's own row, that of no producer, is never retired.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from silver.state.ledger import StreamLoad

if TYPE_CHECKING:
    from silver.model import Stream
    from silver.state.watermarks import Watermarks


def stream_loads(up_to_load_seq: int, watermarks: Watermarks) -> dict[Stream, StreamLoad]:
    """The ledger's rows: one for each stream that no load has moved since one, and one for each of their partitions.

    A stream whose epoch a person declared stays: the records of such a stream are read under that epoch.

    Args:
        up_to_load_seq: The last load that does not count as recent.
        watermarks: The watermarks before.
    """
    quiet: dict[Stream, StreamLoad] = {
        stream: StreamLoad(mark.ordinal, last_offset=mark.last_offset)
        for stream, mark in watermarks.rows.items()
        if stream[2] is not None and mark.load_seq <= up_to_load_seq and mark.declared_epoch is None
    }
    last_offsets = watermarks.last_offsets()
    carriers: list[Stream] = [(topic, partition, None) for topic, partition in {stream[:2] for stream in quiet}]
    kept = {stream: StreamLoad(watermarks.ordinals.get(stream), last_offset=last_offsets[stream[:2]]) for stream in carriers}
    return {**quiet, **kept}
