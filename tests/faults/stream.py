"""The stream of the long run: resends, late records, collisions and records without a sequence, from one seed."""

import random
from collections.abc import Iterator

from tidemark.extras.demo.producer import BAD_KINDS, EVENTS_HEADER, Outgoing, bad_headers

PARTITIONS = 8

_KEYS = 125
_IN_ORDER, _RESENT = (20, 200), (10, 250)
_ACTIONS = {"in order": 70, "resent": 22, "held back": 4, "sent late": 2, "collision": 1, "bad": 1}


class Stream:
    """Yields a share at a time. Each partition has one sequence, and continues where it stopped."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._next = dict.fromkeys(range(PARTITIONS), 1)
        self._held: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}

    def take(self, records: int) -> list[Outgoing]:
        taken: list[Outgoing] = []
        while len(taken) < records:
            partition = self._random.randrange(PARTITIONS)
            action = self._random.choices(list(_ACTIONS), list(_ACTIONS.values()))[0]
            taken += self._records(action, partition)
        return taken[:records]

    def _records(self, action: str, partition: int) -> Iterator[Outgoing]:
        reached, held = self._next[partition], self._held[partition]
        if action == "in order" or reached == 1:
            self._next[partition] += self._random.randint(*_IN_ORDER)
            yield from (record(partition, number) for number in range(reached, self._next[partition]))
        elif action == "resent":
            first = max(1, reached - self._random.randint(*_RESENT))
            yield from (record(partition, number) for number in range(first, reached) if number not in held)
        elif action == "held back":
            held.append(reached)
            self._next[partition] += 1
        elif action == "sent late" and held:
            yield record(partition, held.pop(0))
        elif action == "collision":
            yield record(partition, reached - 1)._replace(value=b"another value")
        elif action == "bad":
            kind = self._random.randrange(BAD_KINDS)
            yield record(partition, reached)._replace(headers=bad_headers(kind, reached))


def record(partition: int, sequence: int) -> Outgoing:
    noise = sequence * 2_654_435_761 % 2**32  # Knuth's hash
    value = b"%d/%d/%032x" % (partition, sequence, noise * noise)
    return Outgoing(partition, b"key-%d-%03d" % (partition, sequence % _KEYS), value, [(EVENTS_HEADER, b"%d" % sequence)])
