"""What an article prints of its test runs, and the numbers that a consumer must have read to print it.

The article is "Testing Producer Deduplication in Apache Kafka and Apache Pulsar".

Rebuilt are all runs whose jumps are printed, with deduplication off: 46 in which Pulsar's TCP connections were killed, the
first in which Kafka's were, and the first two in which Kafka's partition leader was. Where a jump starts and where it lands
says which numbers were read in between, so the numbers follow from the log. Beside them stand:

- the 13 in which Pulsar's topic owner was killed and a block came twice: printed are its size and that it was one, not where it
  lay, so it is put where it may have been;
- one for the 246 runs in which nothing deviated, deduplication on or off;
- the seed's example of a log.

What cannot be rebuilt:

- Kafka's other runs, 44 with killed connections and 48 with a killed leader: printed is how many jumps of which kind there were
  and how many duplicates, not at which numbers.
- What came before the first printed jump of Kafka's first run with killed connections. The CSV gives it 13,263 duplicates, the
  numbers of the ten printed blocks are 8,232, and the CSV counts just the jumps that the log prints.
- 28 duplicates of the second run with a killed leader: 819 by the CSV, 791 by the one block in its log.
- The sample of what the tests print to the terminal: totals that no order of numbers gives, as many received as sent and 1,376
  duplicates.

In both first runs of Kafka, the log starts with a jump backward to a number not read before, and names numbers below it as read
before. No order of reading prints that: a jump forward before it is missing in the log, and in the CSV. The one that fits the
rest is in `unlogged`.
"""

from __future__ import annotations

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
    """A test run.

    Attributes:
        name: The test, and the run's number in it.
        row: Its row in the CSV.
        log: Its jumps, as printed.
        unlogged: Jumps before them that it must have had.
        duplicates: Numbers that came twice, as far as its jumps say.
        sent: The highest number that was sent; the lowest is 1.
    """

    name: str
    row: Jumps
    log: tuple[str, ...]
    unlogged: tuple[str, ...]
    duplicates: int
    sent: int = 1_000_000

    @property
    def jumps(self) -> tuple[str, ...]:
        """All jumps, in the order of reading."""
        return (*self.unlogged, *self.log)

    def spans(self, *, below: int | None = None, again: int | None = None) -> list[tuple[int, int]]:
        """The numbers in the order of reading, as spans from a first to a last that rise by one.

        Args:
            below: How many numbers come before the lowest one that a jump names; None for all.
            again: How many numbers come from the last landing on; None for all.
        """
        turns = [(int(before), int(read)) for before, read in re.findall(r"\((\d+) -> (\d+)\)", " ".join(self.jumps))]
        lowest, landed = min(map(min, turns), default=1), turns[-1][1] if turns else 1
        first = 1 if below is None else max(1, lowest - below)
        last = self.sent if again is None else min(self.sent, landed + again - 1)
        return list(zip([first, *(read for _, read in turns)], [*(before for before, _ in turns), last], strict=True))


def _block(name: str, size: int, log: str) -> Published:
    """A run in which one block came twice, its size as in the CSV."""
    return Published(name, Jumps(size, 0, 1, 0, 0), (log,), (), size)


PULSAR_CONNECTIONS_KILLED = [
    _block(f"Pulsar, connections killed, {number}", size, log)
    for number, size, log in (
        (1, 9_000, "DUPLICATE BLOCK - JUMP BACKWARDS 8999 (228805 -> 219806)"),
        (2, 10_000, "DUPLICATE BLOCK - JUMP BACKWARDS 9999 (151567 -> 141568)"),
        (5, 9_568, "DUPLICATE BLOCK - JUMP BACKWARDS 9567 (207085 -> 197518)"),
        (6, 10_000, "DUPLICATE BLOCK - JUMP BACKWARDS 9999 (217489 -> 207490)"),
        (7, 9_752, "DUPLICATE BLOCK - JUMP BACKWARDS 9751 (143315 -> 133564)"),
        (8, 10_000, "DUPLICATE BLOCK - JUMP BACKWARDS 9999 (78359 -> 68360)"),
        (9, 10_000, "DUPLICATE BLOCK - JUMP BACKWARDS 9999 (101000 -> 91001)"),
        (10, 2_873, "DUPLICATE BLOCK - JUMP BACKWARDS 2872 (197106 -> 194234)"),
        (11, 10_000, "DUPLICATE BLOCK - JUMP BACKWARDS 9999 (81429 -> 71430)"),
        (12, 9_280, "DUPLICATE BLOCK - JUMP BACKWARDS 9279 (87028 -> 77749)"),
        (13, 9_702, "DUPLICATE BLOCK - JUMP BACKWARDS 9701 (104074 -> 94373)"),
        (14, 10_000, "DUPLICATE BLOCK - JUMP BACKWARDS 9999 (107760 -> 97761)"),
        (15, 10_000, "DUPLICATE BLOCK - JUMP BACKWARDS 9999 (81000 -> 71001)"),
        (16, 8_953, "DUPLICATE BLOCK - JUMP BACKWARDS 8952 (102506 -> 93554)"),
        (17, 10_000, "DUPLICATE BLOCK - JUMP BACKWARDS 9999 (94765 -> 84766)"),
        (18, 10_000, "DUPLICATE BLOCK - JUMP BACKWARDS 9999 (95849 -> 85850)"),
        (19, 8_357, "DUPLICATE BLOCK - JUMP BACKWARDS 8356 (108283 -> 99927)"),
        (20, 10_000, "DUPLICATE BLOCK - JUMP BACKWARDS 9999 (91714 -> 81715)"),
        (21, 10_000, "DUPLICATE BLOCK - JUMP BACKWARDS 9999 (148915 -> 138916)"),
        (22, 10_000, "DUPLICATE BLOCK - JUMP BACKWARDS 9999 (112040 -> 102041)"),
        (23, 10_000, "DUPLICATE BLOCK - JUMP BACKWARDS 9999 (85598 -> 75599)"),
        (24, 10_000, "DUPLICATE BLOCK - JUMP BACKWARDS 9999 (103000 -> 93001)"),
        (25, 10_000, "DUPLICATE BLOCK - JUMP BACKWARDS 9999 (91277 -> 81278)"),
        (26, 8_627, "DUPLICATE BLOCK - JUMP BACKWARDS 8626 (204176 -> 195550)"),
        (27, 8_000, "DUPLICATE BLOCK - JUMP BACKWARDS 7999 (79000 -> 71001)"),
        (28, 10_000, "DUPLICATE BLOCK - JUMP BACKWARDS 9999 (160167 -> 150168)"),
        (29, 9_269, "DUPLICATE BLOCK - JUMP BACKWARDS 9268 (102269 -> 93001)"),
        (30, 10_000, "DUPLICATE BLOCK - JUMP BACKWARDS 9999 (104000 -> 94001)"),
        (31, 10_000, "DUPLICATE BLOCK - JUMP BACKWARDS 9999 (125000 -> 115001)"),
        (32, 9_450, "DUPLICATE BLOCK - JUMP BACKWARDS 9449 (124450 -> 115001)"),
        (33, 10_000, "DUPLICATE BLOCK - JUMP BACKWARDS 9999 (80000 -> 70001)"),
        (35, 8_638, "DUPLICATE BLOCK - JUMP BACKWARDS 8637 (213984 -> 205347)"),
        (36, 8_448, "DUPLICATE BLOCK - JUMP BACKWARDS 8447 (92448 -> 84001)"),
        (37, 9_000, "DUPLICATE BLOCK - JUMP BACKWARDS 8999 (113000 -> 104001)"),
        (38, 10_000, "DUPLICATE BLOCK - JUMP BACKWARDS 9999 (80000 -> 70001)"),
        (39, 10_000, "DUPLICATE BLOCK - JUMP BACKWARDS 9999 (93000 -> 83001)"),
        (40, 8_597, "DUPLICATE BLOCK - JUMP BACKWARDS 8596 (83607 -> 75011)"),
        (41, 3_000, "DUPLICATE BLOCK - JUMP BACKWARDS 2999 (74000 -> 71001)"),
        (42, 7_577, "DUPLICATE BLOCK - JUMP BACKWARDS 7576 (95519 -> 87943)"),
        (43, 10_000, "DUPLICATE BLOCK - JUMP BACKWARDS 9999 (89860 -> 79861)"),
        (44, 10_000, "DUPLICATE BLOCK - JUMP BACKWARDS 9999 (125907 -> 115908)"),
        (45, 10_000, "DUPLICATE BLOCK - JUMP BACKWARDS 9999 (134941 -> 124942)"),
        (46, 10_000, "DUPLICATE BLOCK - JUMP BACKWARDS 9999 (105456 -> 95457)"),
        (47, 10_000, "DUPLICATE BLOCK - JUMP BACKWARDS 9999 (86397 -> 76398)"),
        (49, 6_117, "DUPLICATE BLOCK - JUMP BACKWARDS 6116 (120117 -> 114001)"),
        (50, 8_249, "DUPLICATE BLOCK - JUMP BACKWARDS 8248 (92249 -> 84001)"),
    )
]

PULSAR_OWNER_KILLED = [
    _block(
        f"Pulsar, topic owner killed, {number}",
        size,
        f"DUPLICATE BLOCK - JUMP BACKWARDS {size - 1} (60000 -> {60_001 - size})",
    )
    for number, size in (
        (1, 3_571),
        (3, 917),
        (4, 1_802),
        (10, 1_000),
        (16, 2_000),
        (17, 929),
        (18, 10_000),
        (21, 1_000),
        (29, 1_143),
        (30, 828),
        (42, 1_000),
        (43, 430),
        (49, 990),
    )
]
"""The size is published; that the block ended at 60,000 is not: the failure came at 50,000, at most 10,000 were in flight."""

KAFKA_CONNECTIONS_KILLED = Published(
    "Kafka, connections killed, 1",
    Jumps(13_263, 0, 10, 9, 10),
    (
        "JUMP BACKWARDS 1781 (87108 -> 85327)",
        "JUMP BACKWARDS 1781 (86236 -> 84455)",
        "DUPLICATE BLOCK - JUMP BACKWARDS 1781 (85326 -> 83545)",
        "DUPLICATE BLOCK - JUMP BACKWARDS 1781 (84454 -> 82673)",
        "JUMP FORWARDS 3565 (83544 -> 87109)",
        "JUMP FORWARDS 1619 (102087 -> 103706)",
        "JUMP BACKWARDS 1625 (104512 -> 102887)",
        "JUMP BACKWARDS 1617 (103705 -> 102088)",
        "DUPLICATE BLOCK - JUMP BACKWARDS 1617 (102886 -> 101269)",
        "DUPLICATE BLOCK - JUMP BACKWARDS 1609 (102087 -> 100478)",
        "JUMP FORWARDS 3245 (101268 -> 104513)",
        "JUMP FORWARDS 1614 (131979 -> 133593)",
        "JUMP BACKWARDS 1612 (134386 -> 132774)",
        "JUMP BACKWARDS 1612 (133592 -> 131980)",
        "DUPLICATE BLOCK - JUMP BACKWARDS 1612 (132773 -> 131161)",
        "DUPLICATE BLOCK - JUMP BACKWARDS 1612 (131979 -> 130367)",
        "JUMP FORWARDS 3227 (131160 -> 134387)",
        "JUMP FORWARDS 1639 (164249 -> 165888)",
        "JUMP BACKWARDS 1612 (166681 -> 165069)",
        "JUMP BACKWARDS 1637 (165887 -> 164250)",
        "DUPLICATE BLOCK - JUMP BACKWARDS 1613 (165068 -> 163455)",
        "DUPLICATE BLOCK - JUMP BACKWARDS 1613 (164249 -> 162636)",
        "JUMP FORWARDS 3228 (163454 -> 166682)",
        "JUMP FORWARDS 1614 (188496 -> 190110)",
        "JUMP BACKWARDS 1612 (190903 -> 189291)",
        "JUMP BACKWARDS 1612 (190109 -> 188497)",
        "DUPLICATE BLOCK - JUMP BACKWARDS 1612 (189290 -> 187678)",
        "DUPLICATE BLOCK - JUMP BACKWARDS 1612 (188496 -> 186884)",
        "JUMP FORWARDS 3227 (187677 -> 190904)",
    ),
    ("JUMP FORWARDS 1783 (84454 -> 86237)",),
    8_232,
)

KAFKA_LEADER_KILLED = [
    Published(
        "Kafka, leader killed, 1",
        Jumps(819, 0, 1, 1, 3),
        (
            "JUMP BACKWARDS 1637 (108110 -> 106473)",
            "JUMP BACKWARDS 1637 (107291 -> 105654)",
            "JUMP BACKWARDS 1629 (106472 -> 104843)",
            "DUPLICATE BLOCK - JUMP BACKWARDS 1629 (105653 -> 104024)",
            "JUMP FORWARDS 3269 (104842 -> 108111)",
        ),
        ("JUMP FORWARDS 2450 (104842 -> 107292)",),
        819,
    ),
    Published(
        "Kafka, leader killed, 2",
        Jumps(819, 0, 1, 2, 3),
        (
            "JUMP FORWARDS 2438 (101446 -> 103884)",
            "JUMP BACKWARDS 1637 (104702 -> 103065)",
            "JUMP BACKWARDS 1617 (103883 -> 102266)",
            "JUMP BACKWARDS 1617 (103064 -> 101447)",
            "DUPLICATE BLOCK - JUMP BACKWARDS 1609 (102265 -> 100656)",
            "JUMP FORWARDS 3257 (101446 -> 104703)",
        ),
        (),
        791,
    ),
]

IN_ORDER = Published("in order", Jumps(0, 0, 0, 0, 0), (), (), 0)

EXAMPLE = Published(
    "the example",
    Jumps(9, 0, 2, 2, 2),
    (
        "JUMP FORWARDS 20 (10 -> 30)",
        "JUMP BACKWARDS 25 (40 -> 15)",
        "JUMP BACKWARDS 18 (29 -> 11)",
        "DUPLICATE BLOCK - JUMP BACKWARDS 9 (14 -> 5)",
        "DUPLICATE BLOCK - JUMP BACKWARDS 8 (10 -> 2)",
        "JUMP FORWARDS 37 (4 -> 41)",
    ),
    (),
    9,
    sent=44,
)
"""Printed beside the numbers, in slightly other words; it has no row of the CSV: this one is counted from its numbers."""

KAFKA = [KAFKA_CONNECTIONS_KILLED, *KAFKA_LEADER_KILLED]
PULSAR = [*PULSAR_CONNECTIONS_KILLED, *PULSAR_OWNER_KILLED]
PUBLISHED = [*KAFKA, *PULSAR, IN_ORDER, EXAMPLE]
