"""The rules that decide a load: where sequences are read from, and the policies. A claim pins them; a retry uses those."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Literal

from lakehouse.contracts.bronze import plain_topic
from lakehouse.extract.sources import Source, Sources
from lakehouse.extract.written import Written
from lakehouse.settings import payload_schema

if TYPE_CHECKING:
    from lakehouse.settings.pipeline import Settings

Late = Literal["quarantine", "accept", "drop"]
Undecodable = Literal["quarantine", "accept"]


@dataclass(frozen=True)
class Payload:
    """How a record's value is decoded.

    Attributes:
        format: text, json or avro.
        schema: The DDL of the fields; empty for text.
        max_bytes: The longest value that is decoded; None for no limit, as in claims from before there was one.
        undecodable: What happens to a record whose value cannot be decoded: quarantine (invalid) or accept (null payload).
    """

    format: Literal["text", "json", "avro"]
    schema: str = ""
    max_bytes: int | None = None
    undecodable: Undecodable = "accept"

    @property
    def sql_type(self) -> str:
        """The payload column's SQL type; every field is nullable.

        Raises:
            SchemaError: A payload cannot have this schema.

        >>> Payload("json", "id STRING NOT NULL, amount DOUBLE").sql_type
        'STRUCT<`id`: STRING, `amount`: DOUBLE>'
        """
        return "STRING" if self.format == "text" else payload_schema.parse(self.schema).sql()


@dataclass(frozen=True)
class Policy:
    """The policies of one topic, as far as a load's outcome depends on them.

    Attributes:
        max_jump: The largest step above the watermark that is plausible; None for no limit.
        late: What happens to late records: quarantine, accept or drop.
        contiguous: Whether sequences should have no gaps, so that missing ones are recorded as ranges.
    """

    max_jump: int | None = None
    late: Late = "quarantine"
    contiguous: bool = False


@dataclass(frozen=True)
class Rules:
    """Everything that a load's outcome depends on, apart from the records and the watermarks.

    Attributes:
        sequence: Where the sequence is read from.
        producer: Where the producer is read from; None if a stream is a whole partition.
        epoch: Where the epoch is read from; None if it is always 0.
        payload: How the value is decoded; None if Silver keeps only the raw value.
        max_jump: The largest step above the watermark that is plausible; None for no limit.
        late: What happens to late records: quarantine, accept or drop.
        contiguous: Whether sequences should have no gaps, so that missing ones are recorded as ranges.
        topics: The topics with policies of their own, each once; the three above apply to all others.
        decided_topics: The topics whose records the load decides, in any incarnation; None for all that Bronze holds.
        written: How the bytes of values are written; None for text, and for JSON alone.
    """

    sequence: Source
    producer: Source | None = None
    epoch: Source | None = None
    payload: Payload | None = None
    max_jump: int | None = None
    late: Late = "quarantine"
    contiguous: bool = False
    topics: tuple[tuple[str, Policy], ...] = ()
    decided_topics: tuple[str, ...] | None = None
    written: Written | None = None

    @classmethod
    def of(cls, settings: Settings) -> Rules:
        """Build the rules from the config."""
        value, policies = settings.value, settings.policies
        return cls(
            **vars(Sources.of(settings)),
            payload=Payload(value.format, value.schema_ or "", value.max_bytes, value.undecodable) if value else None,
            max_jump=policies.max_jump,
            late=policies.late,
            contiguous=policies.contiguous,
            topics=tuple((topic, Policy(own.max_jump, own.late, own.contiguous)) for topic, own in policies.topics.items()),
            decided_topics=tuple(sorted(settings.kafka.topics)),
        )

    def policy(self, topic: str) -> Policy:
        """The policy of a topic, in any incarnation: its own, or the default.

        >>> rules = Rules(Source("header", "seq"), late="drop", topics=(("orders", Policy(max_jump=5)),))
        >>> rules.policy("orders@2"), rules.policy("payments")
        (Policy(max_jump=5, late='quarantine', contiguous=False), Policy(max_jump=None, late='drop', contiguous=False))
        """
        plain = plain_topic(topic)
        return next((own for name, own in self.topics if name == plain), Policy(self.max_jump, self.late, self.contiguous))

    @property
    def sources(self) -> Sources:
        """Where sequence, producer and epoch are read from."""
        return Sources(self.sequence, self.producer, self.epoch, self.written)

    @property
    def judges_values(self) -> bool:
        """Whether a value that cannot be decoded keeps its record out of Silver."""
        return self.payload is not None and self.payload.undecodable == "quarantine"

    @property
    def of_sequences(self) -> Rules:
        """The rules without the payload: enough to read producer, epoch and sequence, without decoding values."""
        return replace(self, payload=None)

    @property
    def fingerprint(self) -> str:
        """Identifies what a sequence means: rules with the same fingerprint make comparable watermarks.

        Policies and the payload are not part of it; they may change from load to load.
        """
        return self.sources.fingerprint

    def to_json(self) -> str:
        """The rules as the JSON that the ledger stores."""
        pinned = asdict(self) | {"written": self.written and self.written.pinned()}
        return json.dumps({name: value for name, value in pinned.items() if name != "written" or value}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Rules:
        """Read the rules that a claim pinned.

        A claim from before topics could have policies of their own names none. One from before undecodable values could be
        quarantined accepts them.

        >>> rules = Rules(Source("header", "seq"), payload=Payload("text"), max_jump=5)
        >>> Rules.from_json(rules.to_json()) == rules
        True
        """
        found = json.loads(text)
        return cls(
            sequence=Source(**found["sequence"]),
            producer=Source(**found["producer"]) if found["producer"] else None,
            epoch=Source(**found["epoch"]) if found["epoch"] else None,
            payload=Payload(**found["payload"]) if found["payload"] else None,
            max_jump=found["max_jump"],
            late=found["late"],
            contiguous=found.get("contiguous", False),
            topics=tuple((topic, Policy(**own)) for topic, own in found.get("topics", ())),
            decided_topics=None if found.get("decided_topics") is None else tuple(found["decided_topics"]),
            written=Written.from_pinned(found["written"]) if found.get("written") else None,
        )
