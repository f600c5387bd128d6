"""What an article prints of its test runs, and the numbers that a consumer must have read to print it.

The article is "Testing Producer Deduplication in Apache Kafka and Apache Pulsar". Where a jump starts and where it lands says
which numbers were read in between, so the numbers follow from the log. Rebuilt, with deduplication off, are:

- all runs whose jumps are printed: 46 in which Pulsar's TCP connections were killed, the first in which Kafka's were, and the
  first two in which Kafka's partition leader was;
- the 13 in which Pulsar's topic owner was killed: only the size of their one block is printed, so its place is a guess;
- one for the 246 runs in which nothing deviated, and the seed's example of a log.

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

    def spans(self) -> list[tuple[int, int]]:
        """The numbers in the order of reading, as spans from a first to a last that rise by one."""
        turns = [(int(before), int(read)) for before, read in re.findall(r"\((\d+) -> (\d+)\)", " ".join(self.jumps))]
        return list(zip([1, *(read for _, read in turns)], [*(before for before, _ in turns), self.sent], strict=True))


_PRINTED = {"JF": "JUMP FORWARDS", "JB": "JUMP BACKWARDS", "DJB": "DUPLICATE BLOCK - JUMP BACKWARDS"}


def _log(jumps: str) -> tuple[str, ...]:
    """Jumps as they are printed, each with its distance, which is that of its two numbers."""
    parts = [(kind, int(before), int(read)) for kind, before, _, read in map(str.split, jumps.split(", "))]
    return tuple(f"{_PRINTED[kind]} {abs(read - before)} ({before} -> {read})" for kind, before, read in parts)


def _block(name: str, size: int, end: int) -> Published:
    """A run in which one block came twice, its size as in the CSV; `end` is its last number."""
    return Published(name, Jumps(size, 0, 1, 0, 0), _log(f"DJB {end} -> {end - size + 1}"), (), size)


# The run's number, the size of its block, and the number from which it jumped back.
_CONNECTIONS_KILLED = (
    *((1, 9_000, 228_805), (2, 10_000, 151_567), (5, 9_568, 207_085), (6, 10_000, 217_489), (7, 9_752, 143_315)),
    *((8, 10_000, 78_359), (9, 10_000, 101_000), (10, 2_873, 197_106), (11, 10_000, 81_429), (12, 9_280, 87_028)),
    *((13, 9_702, 104_074), (14, 10_000, 107_760), (15, 10_000, 81_000), (16, 8_953, 102_506), (17, 10_000, 94_765)),
    *((18, 10_000, 95_849), (19, 8_357, 108_283), (20, 10_000, 91_714), (21, 10_000, 148_915), (22, 10_000, 112_040)),
    *((23, 10_000, 85_598), (24, 10_000, 103_000), (25, 10_000, 91_277), (26, 8_627, 204_176), (27, 8_000, 79_000)),
    *((28, 10_000, 160_167), (29, 9_269, 102_269), (30, 10_000, 104_000), (31, 10_000, 125_000), (32, 9_450, 124_450)),
    *((33, 10_000, 80_000), (35, 8_638, 213_984), (36, 8_448, 92_448), (37, 9_000, 113_000), (38, 10_000, 80_000)),
    *((39, 10_000, 93_000), (40, 8_597, 83_607), (41, 3_000, 74_000), (42, 7_577, 95_519), (43, 10_000, 89_860)),
    *((44, 10_000, 125_907), (45, 10_000, 134_941), (46, 10_000, 105_456)),
    *((47, 10_000, 86_397), (49, 6_117, 120_117), (50, 8_249, 92_249)),
)
PULSAR_CONNECTIONS_KILLED = [_block(f"Pulsar, connections killed, {run}", size, end) for run, size, end in _CONNECTIONS_KILLED]

_OWNER_KILLED = (
    *((1, 3_571), (3, 917), (4, 1_802), (10, 1_000), (16, 2_000), (17, 929), (18, 10_000), (21, 1_000)),
    *((29, 1_143), (30, 828), (42, 1_000), (43, 430), (49, 990)),
)
PULSAR_OWNER_KILLED = [_block(f"Pulsar, topic owner killed, {run}", size, 60_000) for run, size in _OWNER_KILLED]
"""The size is published; that the block ended at 60,000 is not: the failure came at 50,000, at most 10,000 were in flight."""

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
)  # printed beside the numbers, in slightly other words; it has no row of the CSV: this one is counted from its numbers

KAFKA = [KAFKA_CONNECTIONS_KILLED, *KAFKA_LEADER_KILLED]
PULSAR = [*PULSAR_CONNECTIONS_KILLED, *PULSAR_OWNER_KILLED]
PUBLISHED = [*KAFKA, *PULSAR, IN_ORDER, EXAMPLE]
