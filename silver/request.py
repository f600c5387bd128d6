"""What a person asks of Silver: release or discard what waits, reset a watermark, erase a key. The claim pins it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal

Kind = Literal["release", "discard", "reset", "erase"]


@dataclass(frozen=True)
class Wanted:
    """Which records of the quarantine are meant; None for any.

    Attributes:
        kind: Their class.
        topic: Kafka topic.
        partition: Kafka partition.
        offset: Kafka offset.
        producer: The stream's producer.
        days: How many days they have waited at least.
    """

    kind: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    producer: str | None = None
    days: float | None = None


@dataclass(frozen=True)
class Reset:
    """Which watermark is moved, and where to.

    Attributes:
        topic: Kafka topic.
        partition: Kafka partition.
        producer: The stream's producer; None where none is configured.
        to: The highest sequence that counts as accepted; None leaves that to the first record of a new epoch.
        is_new_epoch: Whether the records to come are numbered anew.
    """

    topic: str
    partition: int
    producer: str | None = None
    to: int | None = None
    is_new_epoch: bool = False


@dataclass(frozen=True)
class Erase:
    """Whose records are erased.

    Attributes:
        topic: Kafka topic.
        key_sha256: SHA-256 of the records' key, hexadecimal: the ledger must not hold what it erases.
    """

    topic: str
    key_sha256: str


@dataclass(frozen=True)
class Request:
    """A person's request.

    Attributes:
        kind: release, discard, reset or erase.
        reason: Why, in their words.
        requested_by: Who they are.
        wanted: The records of a release or discard.
        up_to_load_seq: The last load whose records are meant, pinned when the load is planned; None for any.
        reset: The watermark of a reset.
        erase: The key of an erasure.
    """

    kind: Kind
    reason: str
    requested_by: str
    wanted: Wanted | None = None
    up_to_load_seq: int | None = None
    reset: Reset | None = None
    erase: Erase | None = None

    def to_json(self) -> str:
        """The request as the ledger keeps it."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Request:
        """The request that a claim pinned.

        >>> asked = Request("release", "checked with the sender", "ann", wanted=Wanted(kind="late", topic="t"))
        >>> Request.from_json(asked.to_json()) == asked
        True
        """
        found = json.loads(text)
        of = {"wanted": Wanted, "reset": Reset, "erase": Erase}
        asked = {name: kind(**parts) for name, kind in of.items() if (parts := found.pop(name, None))}
        return cls(**found, **asked)
