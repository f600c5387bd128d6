"""What an article prints of its test runs, and the numbers that a consumer must have read to print it.

The article is "Testing Producer Deduplication in Apache Kafka and Apache Pulsar". Where a jump starts and lands says which
numbers were read in between. Rebuilt, with deduplication off, are the runs of Kafka whose jumps are printed; of Pulsar three of
46 with killed connections, each one block, and one of 13 with a killed owner, whose block has a guessed place; and the example.
For two runs the CSV has more duplicates than the log shows: 13,263 and 8,232 with killed connections; 819 and 791. Both first
runs of Kafka start with a jump backward to a number not read before: the jump forward before it is in `unlogged`.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple


class Jumps(NamedTuple):
    """The last columns of a run's row in the CSV: messages that came twice, and the jumps of each kind."""

    duplicates: int
    djf: int
    djb: int
    jf: int
    jb: int


@dataclass(frozen=True)
class Published:
    name: str  # the test, and the run's number in it
    row: Jumps  # its row in the CSV
    log: tuple[str, ...]  # its jumps, as printed
    unlogged: tuple[str, ...]  # jumps before them that it must have had
    duplicates: int  # numbers that came twice, as far as its jumps say
    sent: int = 1_000_000  # the highest number that was sent; the lowest is 1

    @property
    def jumps(self) -> tuple[str, ...]:
        return (*self.unlogged, *self.log)

    def spans(self, *, below: int | None = None, again: int | None = None) -> list[tuple[int, int]]:
        """The numbers as read, in spans that rise by one; `below` and `again` say how many come before and after the jumps."""
        turns = [(int(before), int(read)) for before, read in re.findall(r"\((\d+) -> (\d+)\)", " ".join(self.jumps))]
        lowest, landed = min(map(min, turns), default=1), turns[-1][1] if turns else 1
        first = 1 if below is None else max(1, lowest - below)
        last = self.sent if again is None else min(self.sent, landed + again - 1)
        return list(zip([first, *(read for _, read in turns)], [*(before for before, _ in turns), last], strict=True))


_PRINTED = {"JF": "JUMP FORWARDS", "JB": "JUMP BACKWARDS", "DJB": "DUPLICATE BLOCK - JUMP BACKWARDS"}


def _log(jumps: str) -> tuple[str, ...]:
    parts = [(kind, int(before), int(read)) for kind, before, _, read in map(str.split, jumps.split(", "))]
    return tuple(f"{_PRINTED[kind]} {abs(read - before)} ({before} -> {read})" for kind, before, read in parts)


def _block(name: str, size: int, end: int) -> Published:
    return Published(name, Jumps(size, 0, 1, 0, 0), _log(f"DJB {end} -> {end - size + 1}"), (), size)


PULSAR = [
    _block("Pulsar, connections killed, 1", 9_000, 228_805),
    _block("Pulsar, connections killed, 2", 10_000, 151_567),
    _block("Pulsar, connections killed, 10", 2_873, 197_106),
    _block("Pulsar, topic owner killed, 43", 430, 60_000),
]

KAFKA_CONNECTIONS_KILLED = Published(
    "Kafka, connections killed, 1",
    Jumps(13_263, 0, 10, 9, 10),
    _log(
        "JB 87108 -> 85327, JB 86236 -> 84455, DJB 85326 -> 83545, DJB 84454 -> 82673, JF 83544 -> 87109, "
        "JF 102087 -> 103706, JB 104512 -> 102887, JB 103705 -> 102088, DJB 102886 -> 101269, "
        "DJB 102087 -> 100478, JF 101268 -> 104513, JF 131979 -> 133593, JB 134386 -> 132774, "
        "JB 133592 -> 131980, DJB 132773 -> 131161, DJB 131979 -> 130367, JF 131160 -> 134387, "
        "JF 164249 -> 165888, JB 166681 -> 165069, JB 165887 -> 164250, DJB 165068 -> 163455, "
        "DJB 164249 -> 162636, JF 163454 -> 166682, JF 188496 -> 190110, JB 190903 -> 189291, "
        "JB 190109 -> 188497, DJB 189290 -> 187678, DJB 188496 -> 186884, JF 187677 -> 190904"
    ),
    _log("JF 84454 -> 86237"),
    8_232,
)

KAFKA_LEADER_KILLED = [
    Published(
        "Kafka, leader killed, 1",
        Jumps(819, 0, 1, 1, 3),
        _log("JB 108110 -> 106473, JB 107291 -> 105654, JB 106472 -> 104843, DJB 105653 -> 104024, JF 104842 -> 108111"),
        _log("JF 104842 -> 107292"),
        819,
    ),
    Published(
        "Kafka, leader killed, 2",
        Jumps(819, 0, 1, 2, 3),
        _log(
            "JF 101446 -> 103884, JB 104702 -> 103065, JB 103883 -> 102266, JB 103064 -> 101447, "
            "DJB 102265 -> 100656, JF 101446 -> 104703"
        ),
        (),
        791,
    ),
]

IN_ORDER = Published("in order", Jumps(0, 0, 0, 0, 0), (), (), 0)

EXAMPLE = Published(
    "the example",
    Jumps(9, 0, 2, 2, 2),
    _log("JF 10 -> 30, JB 40 -> 15, JB 29 -> 11, DJB 14 -> 5, DJB 10 -> 2, JF 4 -> 41"),
    (),
    9,
    sent=44,
)  # printed next to the numbers in other words; it has no row of the CSV, so this one is counted from its numbers

KAFKA = [KAFKA_CONNECTIONS_KILLED, *KAFKA_LEADER_KILLED]
PUBLISHED = [*KAFKA, *PULSAR, IN_ORDER, EXAMPLE]
