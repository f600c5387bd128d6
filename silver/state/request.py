"""What a person asks for, of records, of a topic or of all tables. The claim pins it."""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

from lakehouse.contracts.bronze import LostRange, plain_topic

if TYPE_CHECKING:
    from silver.model import Stream

Kind = Literal["release", "discard", "reset", "accept", "erase", "restore", "rebuild", "retire"]


@dataclass(frozen=True)
class Wanted:
    """Which records of the quarantine are meant; None for any.

    Attributes:
        kind: Their class; `unmet` for what an expectation kept out of Gold.
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

    @property
    def stream(self) -> Stream:
        """The stream whose watermark it is."""
        return self.topic, self.partition, self.producer


@dataclass(frozen=True)
class Swap:
    """What takes the place of Silver's state; see `silver.load.cutover`.

    Attributes:
        keep_to: The last load that stays; 0 where none does.
        undo_to: The last load that goes.
        shadow: The shadow whose loads come instead, numbered on from `undo_to`; None where none do.
    """

    keep_to: int
    undo_to: int
    shadow: str | None = None


@dataclass(frozen=True)
class Accepted:
    """A break of a topic that is gone on from.

    Attributes:
        topic: Kafka topic.
        stored_as: Its name in the tables before the break.
        cause: recreated or expired.
        incarnation: Its incarnation from now on.
        goes_on_as: Its name in the tables from now on.
        old_topic_id: Kafka's id of it before; None where that is not known.
        new_topic_id: Kafka's id of it from now on.
        lost: The offsets that are given up.
    """

    topic: str
    stored_as: str
    cause: str
    incarnation: int
    goes_on_as: str
    old_topic_id: str | None
    new_topic_id: str | None
    lost: tuple[LostRange, ...] = ()


@dataclass(frozen=True)
class Erase:
    """Whose records are erased.

    Attributes:
        topic: Kafka topic.
        key_sha256: SHA-256 of the salt and the records' key, hexadecimal: the ledger must not hold what it erases.
        load_seq: The load that erased them in Bronze, where this is its replay by a rebuild.
        salt: What the key was hashed behind, hexadecimal; empty in requests of version 0.1.
        is_of_all_incarnations: Whether the topic is meant each time that it was created, not only as it is named here. Requests
            of version 0.1 are repeated as they were meant.
    """

    topic: str
    key_sha256: str
    load_seq: int | None = None
    salt: str = ""
    is_of_all_incarnations: bool = False

    @classmethod
    def of(cls, topic: str, key: bytes) -> Erase:
        """The request to erase a key, under a salt of its own."""
        salt = secrets.token_bytes(16)
        digest = hashlib.sha256(salt + key).hexdigest()
        return cls(plain_topic(topic), digest, salt=salt.hex(), is_of_all_incarnations=True)

    def is_of(self, topic: str) -> bool:
        """Whether a topic, as the tables name it, is meant.

        >>> Erase.of("t", b"k").is_of("t@2"), Erase.of("t", b"k").is_of("tt"), Erase("t", "").is_of("t@2")
        (True, False, False)
        """
        return topic == self.topic or (self.is_of_all_incarnations and plain_topic(topic) == self.topic)


@dataclass(frozen=True)
class Request:
    """A person's request.

    Attributes:
        kind: release, discard, reset, accept, erase, restore, rebuild or retire.
        reason: Why, in their words.
        requested_by: Who they are.
        wanted: The records of a release or discard; of a retirement how many days its streams were quiet.
        up_to_load_seq: The last load whose records are meant, pinned when the load is planned; None for any.
        reset: The watermark of a reset.
        swap: What a restore or rebuild puts in place of what.
        accepted: The break of an accept.
        erase: The key of an erasure.
        published_to: Of a release or discard the last load that Gold had published: what was kept out of Gold up to there may
            be meant, too. None where nothing of it is.
    """

    kind: Kind
    reason: str
    requested_by: str
    wanted: Wanted | None = None
    up_to_load_seq: int | None = None
    reset: Reset | None = None
    swap: Swap | None = None
    accepted: Accepted | None = None
    erase: Erase | None = None
    published_to: int | None = None

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
        if found.get("accepted"):
            found["accepted"]["lost"] = tuple(LostRange(**each) for each in found["accepted"]["lost"])
        of = {"wanted": Wanted, "reset": Reset, "swap": Swap, "accepted": Accepted, "erase": Erase}
        asked = {name: kind(**parts) for name, kind in of.items() if (parts := found.pop(name, None))}
        return cls(**found, **asked)
