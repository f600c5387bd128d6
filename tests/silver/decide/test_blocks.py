"""The blocks that the sequential decision makes of suspects and replays."""

from lakehouse.extract.sources import Source
from silver.decide.sequential import fold
from silver.model import Island
from silver.rules import Rules

STREAM = ("t", 0, None)
RULES = Rules(Source("header", "seq"))


def blocks(*islands: tuple[int, int, int]) -> list[tuple[str, int, int, int | None, int | None]]:
    """Class, offsets and sequences of the blocks behind a watermark of 9; each island is (offsets from, to, sequence)."""
    given = [Island(STREAM, first, last, 0, sequence, None) for first, last, sequence in islands]
    found = fold(given, {STREAM: (0, 9)}, RULES)
    return [(s.kind, s.first_offset, s.last_offset, s.first_sequence, s.last_sequence) for s in found]


def test_suspects_that_rise_are_one_block() -> None:
    assert blocks((0, 1, 2), (2, 3, 6)) == [("suspect", 0, 3, 2, 7)]


def test_suspects_that_fall_or_repeat_are_separate_blocks() -> None:
    assert blocks((0, 1, 6), (2, 3, 2), (4, 4, 3)) == [
        ("suspect", 0, 1, 6, 7),
        ("suspect", 2, 3, 2, 3),
        ("suspect", 4, 4, 3, 3),
    ]


def test_an_accepted_record_ends_a_block() -> None:
    assert blocks((0, 0, 2), (1, 1, 10), (2, 2, 3)) == [
        ("suspect", 0, 0, 2, 2),
        ("suspect", 2, 2, 3, 3),
        ("accepted", 1, 1, 10, 10),
    ]


def test_consecutive_replays_are_one_block_without_a_sequence() -> None:
    assert blocks((0, 0, 10), (0, 0, 10), (0, 0, 10)) == [("replay", 0, 0, None, None), ("accepted", 0, 0, 10, 10)]
