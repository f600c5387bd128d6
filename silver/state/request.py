"""Requests of an operator for some records, a topic or all tables. The claim pins them."""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

from lakehouse.contracts.bronze import LostRange, plain_topic

if TYPE_CHECKING:
    from lakehouse.contracts.silver import Stream

Kind = Literal["release", "discard", "reset", "accept", "erase", "restore", "rebuild", "retire"]


@dataclass(frozen=True)
class Wanted:
    """A filter on the records in quarantine; a field that is None matches any.

    Attributes:
        kind: Their class; `unmet` for those that an expectation kept out of Gold.
        topic: Kafka topic.
        partition: Kafka partition.
        offset: Kafka offset.
        producer: The stream's producer.
        days: The minimum number of days that they have waited.
    """

    kind: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    producer: str | None = None
    days: float | None = None


@dataclass(frozen=True)
class Reset:
    """Which watermark to move, and where to.

    Attributes:
        topic: Kafka topic.
        partition: Kafka partition.
        producer: The stream's producer; None if none is configured.
        to: The highest sequence that counts as accepted; None leaves that to the first record of a new epoch.
        is_new_epoch: Whether the next records start a new epoch.
    """

    topic: str
    partition: int
    producer: str | None = None
    to: int | None = None
    is_new_epoch: bool = False

    @property
    def stream(self) -> Stream:
        """The stream whose watermark moves."""
        return self.topic, self.partition, self.producer


@dataclass(frozen=True)
class Swap:
    """A cutover: which loads are rolled back, and what replaces them; see `silver.load.cutover`.

    Attributes:
        keep_to: The last load that is kept; 0 if none is.
        undo_to: The last load that is rolled back.
        shadow: The shadow whose loads replace them, numbered from `undo_to` + 1; None if none do.
    """

    keep_to: int
    undo_to: int
    shadow: str | None = None


@dataclass(frozen=True)
class Accepted:
    """A topic break that an operator accepted, so that ingestion goes on.

    Attributes:
        topic: Kafka topic.
        stored_as: Its name in the tables before the break.
        cause: recreated or expired.
        incarnation: Its incarnation from now on.
        goes_on_as: Its name in the tables from now on.
        old_topic_id: Kafka's id of it before the break; None if unknown.
        new_topic_id: Kafka's id of it from now on.
        lost: The offset ranges that are given up.
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
    """The key whose records are erased.

    Attributes:
        topic: Kafka topic.
        key_sha256: SHA-256 of the salt and the records' key, hexadecimal: the ledger must not hold what it erases.
        load_seq: The load that erased them in Bronze, if this is its replay by a rebuild.
        salt: Prefix of the key in the hash, hexadecimal; empty in requests of version 0.1.
        is_of_all_incarnations: Whether all incarnations of the topic are meant, not only the one named here. Requests of
            version 0.1 keep their original meaning.
    """

    topic: str
    key_sha256: str
    load_seq: int | None = None
    salt: str = ""
    is_of_all_incarnations: bool = False

    @classmethod
    def of(cls, topic: str, key: bytes) -> Erase:
        """Build the request to erase a key, with a fresh salt."""
        salt = secrets.token_bytes(16)
        digest = hashlib.sha256(salt + key).hexdigest()
        return cls(plain_topic(topic), digest, salt=salt.hex(), is_of_all_incarnations=True)

    def is_of(self, topic: str) -> bool:
        """Whether the request covers a topic, as the tables name it.

        >>> Erase.of("t", b"k").is_of("t@2"), Erase.of("t", b"k").is_of("tt"), Erase("t", "").is_of("t@2")
        (True, False, False)
        """
        return topic == self.topic or (self.is_of_all_incarnations and plain_topic(topic) == self.topic)


@dataclass(frozen=True)
class Request:
    """An operator's request, or a retirement by maintenance.

    Attributes:
        kind: release, discard, reset, accept, erase, restore, rebuild or retire.
        reason: Why, in the requester's words.
        requested_by: Who requested it.
        wanted: The records of a release or discard; for a retirement, how many days its streams were quiet.
        up_to_load_seq: The last load whose records are meant, pinned when the load is planned; None for any.
        reset: The watermark of a reset.
        swap: The cutover of a restore or rebuild.
        accepted: The topic break of an accept.
        erase: The key of an erasure.
        published_to: For a release or discard, the last load that Gold had published: records kept out of Gold up to it may be
            meant too. None if none of those are.
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
        """The request as the JSON that the ledger stores."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Request:
        """Read the request that a claim pinned.

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
