"""Suspects are told apart alike, however they are parted into chunks."""

import random
from typing import Any

import pyarrow as pa
import pytest

from silver.suspects import compare
from silver.suspects.chunks import in_chunks

CONTENTS = ("a", "b", "erased:20", "erased:20:collision")
PLACE = ("topic", "partition", "producer")


def suspect(offset: int, sequence: int, content: str = "a", *, block: int = 0, producer: str | None = None) -> dict[str, Any]:
    key = dict(zip(compare.KEY, ("t", 0, producer, 0, sequence), strict=True))
    return {**key, "offset": offset, "block": block, "content_sha256": content}


def judged_rows(*chunks: tuple[list[dict[str, Any]], dict[Any, str]]) -> list[tuple[object, ...]]:
    """Class, first and last offset, first and last sequence and records of each row."""
    names = ("class", "first_offset", "last_offset", "first_sequence", "last_sequence", "records")
    return [tuple(row[name] for name in names) for row in compare.judged(chunks)]


def test_blocks_in_two_chunks_stay_two_rows() -> None:
    rows = [suspect(0, 1), suspect(1, 2, block=1), suspect(1, 2, block=1, producer="p")]
    known = {compare.key_of(row): "a" for row in rows}

    assert judged_rows(*(([row], known) for row in rows)) == [
        ("duplicate", 0, 0, 1, 1, 1),
        ("duplicate", 1, 1, 2, 2, 1),
        ("duplicate", 1, 1, 2, 2, 1),
    ]


def test_a_late_record_of_one_chunk_is_known_in_the_next() -> None:
    assert judged_rows(([suspect(0, 7)], {}), ([suspect(1, 7), suspect(2, 7, "b")], {}), ([suspect(3, 7)], {})) == [
        ("late", 0, 0, 7, 7, 1),
        ("duplicate", 1, 1, 7, 7, 1),
        ("collision", 2, 2, 7, 7, 1),
        ("duplicate", 3, 3, 7, 7, 1),
    ]


@pytest.mark.parametrize("seed", range(20))
def test_any_bound_gives_the_rows_of_one_chunk(seed: int) -> None:
    chance = random.Random(seed)
    steps = [1, 1, 1, 3] if seed % 2 else [1]
    streams = [("t", partition, producer) for partition in (0, 1) for producer in (None, "", "p")]
    rows, blocks, known = [], [], {}
    for stream in streams:
        for number in chance.sample(range(6), 3):
            known[(*stream, 0, number)] = chance.choice(CONTENTS)
        offset = 0
        for _ in range(chance.randint(1, 4)):
            offsets = [offset := offset + chance.choice(steps) for _ in range(chance.randint(1, 12))]
            place = dict(zip(compare.KEY, stream, strict=False))
            ends = {"first_offset": offsets[0], "last_offset": offsets[-1]}
            blocks.append({**place, **ends, "records": len(offsets)})
            for each in offsets:
                row = suspect(each, chance.randrange(6), chance.choice(CONTENTS), block=offsets[0])
                rows.append({**row, **place})
            offset += 2
    table = pa.Table.from_pylist(blocks)

    def judged(most: int) -> list[dict[str, Any]]:
        pieces = [chunk.to_pylist() for chunk in in_chunks(table, most)]
        chunks = [_suspects_of(chunk, rows) for chunk in pieces]
        assert sum(map(len, chunks)) == len(rows)
        assert seed % 2 or max(map(len, chunks)) <= most, "more than a chunk may hold, though nothing lies between"
        found = compare.judged(
            (chunk, {key: known[key] for key in map(compare.key_of, chunk) if key in known}) for chunk in chunks
        )
        return list(found)

    whole = judged(1_000)
    assert {row["class"] for row in whole} == {"duplicate", "late", "collision"}
    for most in (1, 2, 3, 7, 20):
        assert judged(most) == whole, most


def _suspects_of(chunk: list[dict[str, Any]], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As Spark gives them: those of a piece have the first offset of the whole block."""
    return [
        {**row, "block": piece["block"]}
        for piece in chunk
        for row in rows
        if all(row[name] == piece[name] for name in PLACE) and piece["first_offset"] <= row["offset"] <= piece["last_offset"]
    ]
