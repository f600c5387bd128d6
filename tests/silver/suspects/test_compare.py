"""Suspects are compared in columns as one after another, however they are parted into chunks."""

import random
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from silver.suspects.compare import ERASED, KEY, compare, merge_blocks

Row = dict[str, Any]

CONTENTS = ("a", "b", "erased:20", "erased:20:collision")
PLACE = ("topic", "partition", "producer")
_TEXT, _NUMBER = pa.string(), pa.int64()
_KEY = [("topic", _TEXT), ("partition", pa.int32()), ("producer", _TEXT), ("epoch", _NUMBER), ("sequence", _NUMBER)]
_SUSPECT = pa.schema([*_KEY, ("offset", _NUMBER), ("block", _NUMBER), ("is_older", pa.bool_()), ("content_sha256", _TEXT)])
_KNOWN = pa.schema([*_KEY, ("content_sha256", _TEXT), ("rank", _NUMBER)])


def suspect(offset: int, sequence: int, content: str = "a", *, block: int = 0, is_older: bool = False) -> Row:
    key = dict(zip(KEY, ("t", 0, None, 0, sequence), strict=True))
    return {**key, "offset": offset, "block": block, "is_older": is_older, "content_sha256": content}


def compared(*chunks: tuple[Sequence[Row], Iterable[Row]]) -> list[Row]:
    found: list[tuple[pa.Table, pa.Table]] = []
    for suspects, known in chunks:
        late = [each for _, each in found]
        found.append(compare(pa.Table.from_pylist(suspects, _SUSPECT), pa.Table.from_pylist(list(known), _KNOWN), *late))
    return list(merge_blocks(pa.concat_tables([each for each, _ in found])).to_pylist())


def by_the_rule(suspects: Iterable[Row], known: Iterable[Row]) -> list[Row]:
    first = {_key(row): row["content_sha256"] for row in sorted(known, key=lambda row: -row["rank"])}
    rows: list[Row] = []
    for row in suspects:
        content = first.get(_key(row))
        if content is None and row["is_older"]:
            kind = "fenced"
        elif content is None:
            kind, first[_key(row)] = "late", row["content_sha256"]
        else:
            is_later = content.startswith(ERASED) and row["offset"] > int(content.split(":")[1])
            kind = "duplicate" if content == row["content_sha256"] or is_later else "collision"
        place = {name: row[name] for name in (*PLACE, "epoch", "block")}
        if rows and kind == "duplicate" == rows[-1]["class"] and place.items() <= rows[-1].items():
            rows[-1]["records"] += 1
            rows[-1]["last_offset"] = row["offset"]
            rows[-1]["first_sequence"] = min(rows[-1]["first_sequence"], row["sequence"])
            rows[-1]["last_sequence"] = max(rows[-1]["last_sequence"], row["sequence"])
            continue
        spans = {f"{end}_{of}": row[of] for end in ("first", "last") for of in ("offset", "sequence")}
        content = row["content_sha256"] if kind in ("late", "collision") else None
        rows.append({**place, **spans, "class": kind, "records": 1, "content_sha256": content})
    return rows


def _key(row: Row) -> tuple[object, ...]:
    return tuple(row[name] for name in KEY)


@pytest.mark.parametrize("seed", range(20))
def test_any_bound_gives_the_rows_of_one_after_another(seed: int) -> None:
    chance = random.Random(seed)
    steps = [1, 1, 1, 3] if seed % 2 else [1]
    streams = [("t", partition, producer) for partition in (0, 1) for producer in ("", "p", None)]
    rows: list[Row] = []
    known: list[Row] = []
    for stream in streams:
        place = dict(zip(PLACE, stream, strict=True))
        for number in chance.choices(range(6), k=4):
            known.append({**suspect(0, number, chance.choice(CONTENTS)), **place, "rank": len(known)})
        offset, first_older = 0, chance.randint(3, 12)
        for _ in range(chance.randint(1, 4)):
            offsets = [offset := offset + chance.choice(steps) for _ in range(chance.randint(1, 12))]
            for each in offsets:
                is_older = each >= first_older
                row = suspect(each, chance.randrange(9), chance.choice(CONTENTS), block=offsets[0], is_older=is_older)
                rows.append({**row, **place})
            offset += 2
    expected = by_the_rule(rows, known)
    assert {row["class"] for row in expected} == {"duplicate", "late", "collision", "fenced"}

    for most in (1, 2, 3, 7, 20, 1_000):
        chunks = [rows[first : first + most] for first in range(0, len(rows), most)]
        keys = [set(map(_key, chunk)) for chunk in chunks]
        found = compared(*((chunk, [row for row in known if _key(row) in of]) for chunk, of in zip(chunks, keys, strict=True)))
        assert found == [{name: row[name] for name in found[0]} for row in expected], most
