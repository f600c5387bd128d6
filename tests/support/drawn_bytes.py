"""Bytes that are drawn, the same each time: most of them are no value of any format."""

from __future__ import annotations

import random


def drawn_bytes(whole: bytes) -> list[bytes]:
    """300 texts of up to 39 bytes, and 300 times a value with up to three bytes changed, cut off somewhere."""
    chance = random.Random(7)
    values = [chance.randbytes(chance.randrange(40)) for _ in range(300)]
    for _ in range(300):
        changed = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        values.append(bytes(changed[: chance.randrange(len(changed) + 1)]))
    return values
