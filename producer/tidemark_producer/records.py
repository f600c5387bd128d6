"""What a record carries beside its key and value, and where it went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

GREATEST = 2**63 - 1
"""The greatest epoch and sequence: what a reader keeps them in has 64 bits."""

_LONGEST_NAME = 1_024
"""Bytes of a producer's name that Tidemark reads; a longer one makes its records invalid."""


class Position(NamedTuple):
    """A record's place in a producer's numbering. A greater epoch is behind every sequence of a lower one.

    Attributes:
        epoch: Which numbering it is.
        sequence: The number in it.
    """

    epoch: int
    sequence: int


class Sent(NamedTuple):
    """A record that Kafka has.

    Attributes:
        topic: The topic.
        partition: The partition.
        offset: The offset there; None for one that was there before this process, see `Given`.
        epoch: Its epoch.
        sequence: Its sequence.
    """

    topic: str
    partition: int
    offset: int | None
    epoch: int
    sequence: int


@dataclass(frozen=True)
class Headers:
    """The names of the headers that a record gets; None for one that it does not get.

    Attributes:
        producer: The producer's name, as UTF-8.
        epoch: The epoch, in ASCII digits.
        sequence: The sequence, in ASCII digits.
    """

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
        """The headers of one record."""
        made = ((self.producer, name), (self.epoch, b"%d" % position.epoch), (self.sequence, b"%d" % position.sequence))
        return [(header, value) for header, value in made if header is not None]


def name_bytes(name: str) -> bytes:
    """A producer's name as a header has it.

    Raises:
        ValueError: It is empty, longer than 1,024 bytes, or no text that UTF-8 can hold.
    """
    encoded = name.encode()
    if not 0 < len(encoded) <= _LONGEST_NAME:
        raise ValueError(f"A producer's name has 1 to {_LONGEST_NAME} bytes, not {len(encoded)}.")
    return encoded
