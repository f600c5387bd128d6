"""The errors of the kit. Each says what happened and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidemark_producer.records import Position

_MOST_NAMED = 5
_LONGEST_VALUE = 200


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
