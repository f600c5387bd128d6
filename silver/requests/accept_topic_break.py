"""Accept: an operator lets a topic go on after a break, as a load of its own that moves no watermark. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from silver.state.ledger import StreamLoad

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehouse.contracts.silver import Stream
    from silver.state.request import Accepted
    from silver.state.watermarks import Watermarks


def stream_loads(accepted: Accepted, watermarks: Watermarks) -> Mapping[Stream, StreamLoad]:
    """Return the ledger's rows of the break: one per affected partition, with its watermark unchanged.

    After lost offsets these are the partitions that lost some; for a recreated topic, all partitions that Silver knows of the
    old incarnation. If Silver knows none, one row for partition 0 records what was accepted, without an offset.
    """
    last_offsets = watermarks.last_offsets
    known = sorted(partition for topic, partition in last_offsets if topic == accepted.stored_as)
    concerned = [lost.partition for lost in accepted.lost] or known or [0]
    loads: dict[Stream, StreamLoad] = {}
    for partition in concerned:
        stream = (accepted.stored_as, partition, None)
        mark = watermarks.rows.get(stream)
        last = mark.last_offset if mark is not None else last_offsets.get(stream[:2], -1)
        loads[stream] = StreamLoad(watermarks.ordinals.get(stream), last_offset=last)
    return loads
