"""What one run of a peer took, and what its result holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.truth import Counts


@dataclass(frozen=True)
class Outcome:
    """One run of a peer on one input.

    Attributes:
        peer: The peer's name.
        input: The input's name.
        round: The round from 1; 0 for the small runs whose results alone count.
        records: How many records came in.
        late: Records that come once, below one that their partition had before.
        seconds: Wall time.
        cpu_seconds: CPU time of the peer and the broker; None where it cannot be known.
        peak_bytes: The most resident memory of the peer's process tree, the broker's not included.
        written_bytes: What is on disk afterwards, state and logs included.
        written_files: In how many files.
        state_bytes: What the peer needs to go on: the most that it held.
        counts: What the result holds.
    """

    peer: str
    input: str
    round: int
    records: int
    late: int
    seconds: float
    cpu_seconds: float | None
    peak_bytes: int
    written_bytes: int
    written_files: int
    state_bytes: int
    counts: Counts

    @property
    def is_as_promised(self) -> bool:
        """Whether the result has each record once, in order, and exactly the late ones are held."""
        return self.counts.is_exact and self.counts.held == self.late
