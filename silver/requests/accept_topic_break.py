"""Accept: a person has a topic go on after a break, as a load of its own that moves no watermark. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from silver.state.ledger import StreamLoad

if TYPE_CHECKING:
    from collections.abc import Mapping

    from silver.model import Stream
    from silver.state.request import Accepted
    from silver.state.watermarks import Watermarks


def stream_loads(accepted: Accepted, watermarks: Watermarks) -> Mapping[Stream, StreamLoad]:
    """The ledger's rows of the break: one for each partition concerned, with its watermark as it is.

    Of lost offsets those partitions that lost some; of a topic that was created anew all partitions that Silver knows of the
    one that ended. Where Silver knows none, the row names what was accepted, and no offset.
    """
    last_offsets = watermarks.last_offsets()
    known = sorted(partition for topic, partition in last_offsets if topic == accepted.stored_as)
    concerned = [lost.partition for lost in accepted.lost] or known or [0]
    loads: dict[Stream, StreamLoad] = {}
    for partition in concerned:
        stream = (accepted.stored_as, partition, None)
        mark = watermarks.rows.get(stream)
        last = mark.last_offset if mark is not None else last_offsets.get(stream[:2], -1)
        loads[stream] = StreamLoad(watermarks.ordinals.get(stream), last_offset=last)
    return loads
