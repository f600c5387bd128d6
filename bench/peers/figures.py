"""The table of peers: a row for each peer, with medians over the rounds and what its results hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from bench.markdown import table
from bench.peers.registry import CHECKED, FROM_BRONZE, FROM_KAFKA, PEERS, TIMED, TO_DELTA, TO_TOPIC, with_copy

if TYPE_CHECKING:
    from bench.peers.registry import Peer
    from bench.truth import Counts


@dataclass(frozen=True)
class Outcome:
    """One run of a peer on one input.

    Attributes:
        round: From 1; 0 for the small runs whose results alone count.
        late: Records that come once, below one that their partition had before.
        cpu_seconds: CPU time of the peer and the broker; None where it cannot be known.
        peak_bytes: The most resident memory of the peer's process tree, the broker's not included.
        written_bytes: Bytes on disk afterwards, state and logs included.
        state_bytes: The most that the peer held of what it needs to continue.
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


SHOWN: Mapping[str, Peer] = {
    each.name: each for peer in PEERS for each in ((peer, with_copy(peer)) if peer.way == TO_TOPIC else (peer,))
}
"""Every peer, and each peer from topic to topic also with the copy of its topic to Delta."""

_MEGABYTE = 1e6
_STARTS = {FROM_BRONZE: "Bronze", FROM_KAFKA: "Kafka"}


def peers_table(outcomes: Sequence[Outcome], failures: Mapping[str, str]) -> str:
    """The peers that end in a Delta table: throughput by input, memory, state, and the worst of the counted results."""
    lines = []
    for start in _STARTS:
        for peer in SHOWN.values():
            timed = [each for each in outcomes if each.round and each.peer == peer.name]
            counted = {
                each.input: each for each in outcomes if not each.round and each.peer == peer.name.removesuffix(TO_DELTA)
            }
            if peer.way == start and timed:
                lines.append(
                    _line(peer, timed, {each.name: counted[each.name].counts for each in CHECKED if each.name in counted})
                )
    for name, why in failures.items():
        lines.append((f"{SHOWN[name].title}: failed, {_cell(why)}", *[""] * (len(TIMED) + 4)))
    rates = [f"records/s, {each.name}" for each in TIMED]
    head = ("peer", "from", "each record once, in order", *rates, "memory MB", "state MB")
    return table(head, lines, words=3)


def _line(peer: Peer, timed: Sequence[Outcome], results: Mapping[str, Counts]) -> tuple[str, ...]:
    on_first = [each for each in timed if each.input == TIMED[0].name] or timed
    return (
        *(peer.title, _STARTS[peer.way], exactness(results)),
        *(_rate([each for each in timed if each.input == one.name]) for one in TIMED),
        f"{median(each.peak_bytes for each in on_first) / _MEGABYTE:,.0f}",
        f"{median(each.state_bytes for each in on_first) / _MEGABYTE:.2f}",
    )


def _rate(runs: Iterable[Outcome]) -> str:
    rates = [each.records / each.seconds for each in runs]
    return f"{median(rates):,.0f}" if rates else ""


def exactness(results: Mapping[str, Counts]) -> str:
    """Whether all results are exact, and the result that is furthest from the input.

    >>> from bench.truth import Counts
    >>> exactness({"clean": Counts(9, 0, 0, 0), "reordered": Counts(8, lost=1, doubled=0, out_of_order=0)})
    '**no**: 1 lost (reordered)'
    >>> exactness({"reordered": Counts(8, 0, 0, 0, held=1)})
    'yes: 1 held (reordered)'
    """
    if not results:
        return "not counted"
    answer = "yes" if all(each.is_exact for each in results.values()) else "**no**"
    name, worst = max(results.items(), key=lambda each: sum(_deviations(each[1]).values()))
    found = ", ".join(f"{number:,} {what}" for what, number in _deviations(worst).items() if number)
    return f"{answer}: {found} ({name})" if found else answer


def _deviations(counts: Counts) -> dict[str, int]:
    return {"lost": counts.lost, "doubled": counts.doubled, "out of order": counts.out_of_order, "held": counts.held}


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
