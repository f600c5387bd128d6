"""The rows of `silver.model.SEGMENT` as segments, to be compared with those of the fold."""

import pyarrow as pa

from lakehouse.contracts.silver import stream_of
from silver.model import SPAN, Segment


def segments_of(found: pa.Table) -> list[Segment]:
    names = ("epoch", "class", "reason", *SPAN, "records", "jumps_forward", "jumps_backward")
    return [Segment(stream_of(row), *(row[name] for name in names)) for row in found.to_pylist()]
