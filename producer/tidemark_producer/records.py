"""A record's position, the headers that carry it, where the record went, and the errors of the kit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

GREATEST = 2**63 - 1
"""The greatest epoch and sequence: readers keep them in signed 64-bit numbers."""

_LONGEST_NAME = 1_024
"""Bytes of a producer's name that Tidemark reads; a longer one makes its records invalid."""

_MOST_NAMED = 5
_LONGEST_VALUE = 200


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


class ProducerError(Exception):
    """Base class of the kit's errors."""


class InUse(ProducerError):
    """Another process sends under this name, or has taken it over. It continues; this one has to end."""


class StateLost(ProducerError):
    """A store's state is gone or damaged, so the next number is unknown."""


class OutOfOrder(ProducerError):
    """A given sequence does not rise. The record was not sent."""


class Exhausted(ProducerError):
    """The numbers end at 2^63-1. The record was not sent."""


class Forked(ProducerError):
    """Another process created the sender: a fork has neither its connection nor its thread. Create one after the fork."""


class UnsafeSetting(ProducerError):
    """A setting of the client breaks what the kit guarantees."""

    def __init__(self, setting: str, value: object, why: str) -> None:
        self.setting, self.value, self._why = setting, value, why
        super().__init__(setting, value, why)

    def __str__(self) -> str:
        return f"{self.setting}={str(self.value)[:_LONGEST_VALUE]!r}: {self._why}"


class Failure(NamedTuple):
    """A record that Kafka refused, with all others of its batch. `partition` is None if it never had one."""

    position: Position
    topic: str
    partition: int | None
    reason: str


class Stopped(ProducerError):
    """A delivery failed for good, and nothing is sent until `recover`: a record behind a gap would make its resend late.

    `failures` are the refused records in the order of sending. `open` are the positions that Kafka has not acknowledged, those
    included; it may have some of the others.
    """

    def __init__(self, what: str, failures: Sequence[Failure] = (), still_open: Sequence[Position] = ()) -> None:
        self.failures, self.open = tuple(failures), tuple(still_open)
        named = "; ".join(
            f"epoch {each.position.epoch}, sequence {each.position.sequence} for {each.topic}: {each.reason}"
            for each in self.failures[:_MOST_NAMED]
        )
        more = f"; and {len(self.failures) - _MOST_NAMED} more" if len(self.failures) > _MOST_NAMED else ""
        super().__init__(f"{what}{' Refused: ' if named else ''}{named}{more}")
