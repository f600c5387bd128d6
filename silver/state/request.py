"""Requests of an operator for some records, a topic or all tables. The claim stores them."""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import asdict, dataclass
from typing import Literal

from lakehouse.contracts.bronze import NEW, LostRange, plain_topic
from lakehouse.contracts.silver import DISCARD, DISCARDED, ERASE, RELEASE, RELEASED, Stream

Kind = Literal["release", "discard", "reset", "accept", "erase", "restore", "rebuild", "retire"]
SETTLED_AS = {RELEASE: RELEASED, DISCARD: DISCARDED, ERASE: DISCARDED}
"""The state of the rejects that a request settles."""


@dataclass(frozen=True)
class RecordFilter:
    """A filter on the records in quarantine, by class (`unmet` in Gold), place and days of waiting; None matches any."""

    kind: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    producer: str | None = None
    days: float | None = None


@dataclass(frozen=True)
class Reset:
    """Moves a watermark to the sequence `to`. If None, the first record of a new epoch sets the sequence."""

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
class Cutover:
    """Rolls back the loads after `keep_to`, up to `undo_to`; those of a `shadow` replace them, numbered from `undo_to` + 1."""

    keep_to: int
    undo_to: int
    shadow: str | None = None


@dataclass(frozen=True)
class Accepted:
    """A topic break that an operator accepted. The topic is `stored_as` before it, and `goes_on_as` after it.

    `numbering` is same if the topic continues the numbering of `stored_as`. JSON omits new, so old claims serialize unchanged.
    """

    topic: str
    stored_as: str
    cause: str
    incarnation: int
    goes_on_as: str
    old_topic_id: str | None
    new_topic_id: str | None
    lost: tuple[LostRange, ...] = ()
    numbering: str = NEW


@dataclass(frozen=True)
class Erase:
    """The key whose records are erased, as a salted hash: the ledger must not hold what it erases.

    `load_seq` is the load that erased them in Bronze, in a replay. Requests of 0.1 have no salt and mean one incarnation.
    """

    topic: str
    key_sha256: str
    load_seq: int | None = None
    salt: str = ""
    is_of_all_incarnations: bool = False

    @classmethod
    def of(cls, topic: str, key: bytes) -> Erase:
        """Build a request with a fresh salt."""
        salt = secrets.token_bytes(16)
        digest = hashlib.sha256(salt + key).hexdigest()
        return cls(plain_topic(topic), digest, salt=salt.hex(), is_of_all_incarnations=True)

    def is_of(self, topic: str) -> bool:
        """Whether the request covers a topic, as the tables name it."""
        return topic == self.topic or (self.is_of_all_incarnations and plain_topic(topic) == self.topic)


@dataclass(frozen=True)
class Request:
    """An operator's request, or a retirement by maintenance of streams that were quiet for `wanted.days`.

    A release or discard means records of loads up to `up_to_load_seq`, and those kept out of Gold up to `published_to`. In JSON
    the key of `cutover` is `swap`.
    """

    kind: Kind
    reason: str
    requested_by: str
    wanted: RecordFilter | None = None
    up_to_load_seq: int | None = None
    reset: Reset | None = None
    cutover: Cutover | None = None
    accepted: Accepted | None = None
    erase: Erase | None = None
    published_to: int | None = None

    def to_json(self) -> str:
        """Return the JSON that the ledger stores."""
        found = asdict(self)
        found["swap"] = found.pop("cutover")
        if self.accepted is not None and self.accepted.numbering == NEW:
            del found["accepted"]["numbering"]
        return json.dumps(found, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Request:
        """Read the request of a claim.

        >>> restore = Request("restore", "a wrong release", "ann", cutover=Cutover(1, 2))
        >>> Request.from_json(restore.to_json()) == restore
        True
        """
        from pydantic import TypeAdapter  # late, as `tidemark --help` does not need it

        found = json.loads(text)
        return TypeAdapter(cls).validate_python({**found, "cutover": found.get("swap")})
