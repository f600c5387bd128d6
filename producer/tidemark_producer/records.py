"""A record's position, the headers that carry it, and where the record went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

GREATEST = 2**63 - 1
"""The greatest epoch and sequence: readers keep them in signed 64-bit numbers."""

_LONGEST_NAME = 1_024
"""Bytes of a producer's name that Tidemark reads; a longer one makes its records invalid."""


class Position(NamedTuple):
    """A record's place in a producer's numbering. A greater epoch is behind every sequence of a lower one."""

    epoch: int
    sequence: int


class Sent(NamedTuple):
    """A record that Kafka has. `offset` is None if Kafka had it before this process, see `Given`."""

    topic: str
    partition: int
    offset: int | None
    epoch: int
    sequence: int


@dataclass(frozen=True)
class Headers:
    """The names of the headers that a record gets; None for none. Numbers are sent in ASCII digits, the producer as UTF-8."""

    producer: str | None = "producer"
    epoch: str | None = "epoch"
    sequence: str | None = "seq"

    def __post_init__(self) -> None:
        names = self.names
        if "" in names or len(set(names)) != len(names):
            raise ValueError(f"Headers need names that differ and are not empty, not {names}.")

    @property
    def names(self) -> tuple[str, ...]:
        """The names in use."""
        return tuple(name for name in (self.producer, self.epoch, self.sequence) if name is not None)

    def of(self, name: bytes, position: Position) -> list[tuple[str, str | bytes | None]]:
        """Return the headers of one record."""
        made = ((self.producer, name), (self.epoch, b"%d" % position.epoch), (self.sequence, b"%d" % position.sequence))
        return [(header, value) for header, value in made if header is not None]


def name_bytes(name: str) -> bytes:
    """Encode a producer's name; raise a `ValueError` unless it has 1 to 1,024 bytes of UTF-8."""
    encoded = name.encode()
    if not 0 < len(encoded) <= _LONGEST_NAME:
        raise ValueError(f"A producer's name has 1 to {_LONGEST_NAME} bytes, not {len(encoded)}.")
    return encoded
