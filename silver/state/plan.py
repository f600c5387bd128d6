"""A planned load: everything that its commits need, and the Bronze range that it was decided from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from lakehouse.contracts.silver import UNDECODABLE
from lakehouse.protocol.gold_rejects import ROW
from silver.model import REJECT

if TYPE_CHECKING:
    import pyarrow as pa

    from lakehouse.contracts.silver import Partition
    from silver.rules import Rules
    from silver.state.request import Request
    from silver.state.watermarks import Watermarks


@dataclass(frozen=True)
class BronzeRange:
    """The Bronze versions after `after_version` up to `to_version`, above each partition's last decided offset.

    `appended` counts the records that the versions added, by their commits; None if a commit does not say. `up_to` has the last
    offset of each partition if the versions can no longer be read. `joined` are topics that the previous load did not decide;
    the versions do not count their records. `is_current`: Bronze extracted all of the range's records by the load's rules.
    """

    after_version: int
    to_version: int
    above: Mapping[Partition, int]
    appended: int | None
    up_to: Mapping[Partition, int] | None = None
    topics: Sequence[str] | None = None
    joined: Collection[str] = ()
    is_cut: bool = False
    is_current: bool = False

    @property
    def counted(self) -> int | None:
        """The number of the range's records, including those already decided; None if unknown."""
        return None if self.joined else self.appended


@dataclass(frozen=True)
class Settled:
    """The earlier rows of `silver_rejects` and `gold_rejects` that a request settles; `left` counts the others by reason."""

    rows: pa.Table = field(default_factory=REJECT.empty_table)
    in_gold: pa.Table = field(default_factory=ROW.empty_table)
    left: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """A load before it is written: everything that its commits need. The rejects of all chunks but the last are on disk.

    `watermarks` are those before the load, including retired streams that occur again. `out` are offsets that Silver does not
    get, as `lakehouse.spark.bitmaps.blocks`; `late` accepted late ones; `replayed` those that occur twice in the range.
    `counts_replays`: whether `replay` counts repeated ingests, which is unknown once those versions are gone.
    """

    load_seq: int
    rules: Rules
    watermarks: Watermarks
    range: BronzeRange
    ledger: list[dict[str, Any]]
    rejects: pa.Table
    out: pa.Table | None = None
    late: pa.Table | None = None
    replayed: pa.Table | None = None
    settled: Settled = field(default_factory=Settled)
    request: Request | None = None
    counts_replays: bool = True

    def count(self, name: str) -> int:
        """Sum one of the ledger's counts over all streams."""
        return sum(map(itemgetter(name), self.ledger))

    @property
    def undecodable(self) -> int:
        """The invalid records that only lack a decodable value."""
        found: int | None = pc.sum(self.rejects.filter(pc.equal(self.rejects["reason"], UNDECODABLE))["records"]).as_py()
        return found or 0
