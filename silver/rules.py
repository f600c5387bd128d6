"""The rules that decide a load: where sequences are read from, and the policies. A claim pins them; a retry uses those."""

from __future__ import annotations

import json
from dataclasses import asdict, astuple, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from lakehouse.contracts.bronze import plain_topic
from lakehouse.escape import shortened
from lakehouse.extract.sources import Source, Sources, alike
from lakehouse.extract.written import Written
from lakehouse.settings import payload_schema
from lakehouse.settings.extractor import describe

if TYPE_CHECKING:
    from lakehouse.settings.pipeline import Settings

Late = Literal["quarantine", "accept", "drop"]
Undecodable = Literal["quarantine", "accept"]

_LONGEST = 250
"""Characters shown of an extractor."""
_NONE = Source("offset")
_ADDED = ("written", "own")
"""What a claim says only where there is some: claims of versions that did not know it are as they were."""


@dataclass(frozen=True)
class Payload:
    """How a record's value is decoded.

    Attributes:
        format: text, json, avro or protobuf.
        schema: The DDL of the fields; empty for text.
        max_bytes: The longest value that is decoded; None for no limit, as in claims from before there was one.
        undecodable: What happens to a record whose value cannot be decoded: quarantine (invalid) or accept (null payload).
    """

    format: Literal["text", "json", "avro", "protobuf"]
    schema: str = ""
    max_bytes: int | None = None
    undecodable: Undecodable = "accept"


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
class Decoding:
    """How values are decoded.

    Attributes:
        payload: Into what; None if they are not.
        written: How their bytes are written; None for text, and for JSON alone.
    """

    payload: Payload | None
    written: Written | None

    @property
    def judges(self) -> bool:
        """Whether a value that cannot be decoded keeps its record out of Silver."""
        return self.payload is not None and self.payload.undecodable == "quarantine"


@dataclass(frozen=True)
class OfTopic:
    """How the records of a topic are read, where that is not how the others are; as the attributes of `Rules`."""

    sequence: Source
    producer: Source | None = None
    epoch: Source | None = None
    payload: Payload | None = None
    written: Written | None = None

    @classmethod
    def of(cls, settings: Settings) -> OfTopic:
        """Build it from the config, without what single topics have of their own."""
        value, sources = settings.value, Sources.of(settings)
        payload = Payload(value.format, value.schema_ or "", value.max_bytes, value.undecodable) if value else None
        return cls(sources.sequence, sources.producer, sources.epoch, payload, sources.written)

    @classmethod
    def from_pinned(cls, found: dict[str, Any]) -> OfTopic:
        """What a claim has kept."""
        return cls(
            sequence=Source(**found["sequence"]),
            producer=Source(**found["producer"]) if found["producer"] else None,
            epoch=Source(**found["epoch"]) if found["epoch"] else None,
            payload=Payload(**found["payload"]) if found["payload"] else None,
            written=Written.from_pinned(found["written"]) if found.get("written") else None,
        )

    def pinned(self) -> dict[str, Any]:
        """What a claim keeps of it."""
        kept = asdict(self) | {"written": self.written and self.written.pinned()}
        return {name: value for name, value in kept.items() if name != "written" or value}


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
        own: The topics that are read otherwise, each once, by name; the sources, `payload` and `written` are for all others.
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
    own: tuple[tuple[str, OfTopic], ...] = ()

    @classmethod
    def of(cls, settings: Settings) -> Rules:
        """Build the rules from the config."""
        policies, default = settings.policies, OfTopic.of(settings)
        own = ((topic, OfTopic.of(settings.of_topic(topic))) for topic in sorted(settings.topics))
        return cls(
            **vars(default),
            own=tuple((topic, each) for topic, each in own if each != default),
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

    def of_topic(self, topic: str) -> Rules:
        """The rules as they are for the records of a topic, in any incarnation: without `own`.

        >>> rules = Rules(Source("header", "seq"), own=(("orders", OfTopic(Source("json", "$.id"))),))
        >>> rules.of_topic("orders@2").sequence.argument, rules.of_topic("payments").sequence.argument
        ('$.id', 'seq')
        """
        plain = plain_topic(topic)
        own = next((vars(each) for name, each in self.own if name == plain), {})
        return replace(self, own=(), **own)

    def keeping(self, before: Rules | None) -> Rules:
        """The rules with those that an earlier load had for topics which are not decided any more.

        Silver still holds their records, streams and fields of the payload.
        """
        decided = self.decided_topics
        if before is None or decided is None:
            return self
        left = [(topic, each) for topic, each in before.own if topic not in decided]
        return replace(self, own=tuple(sorted({**dict(left), **dict(self.own)}.items())))

    @property
    def sources(self) -> Sources:
        """Where sequence, producer and epoch are read from."""
        own = ((topic, Sources(each.sequence, each.producer, each.epoch, each.written)) for topic, each in self.own)
        default = Sources(self.sequence, self.producer, self.epoch, self.written)
        return replace(default, own=tuple((topic, each) for topic, each in own if each != default))

    @property
    def kinds(self) -> list[tuple[OfTopic, list[str]]]:
        """How records are read, each way once, with the topics that it is for: first that of all topics not named."""
        return alike(OfTopic(self.sequence, self.producer, self.epoch, self.payload, self.written), self.own)

    @property
    def decodings(self) -> list[tuple[Decoding, list[str]]]:
        """How values are decoded, as `kinds` has it."""
        own = [(topic, Decoding(each.payload, each.written)) for topic, each in self.own]
        return alike(Decoding(self.payload, self.written), own)

    @property
    def payload_type(self) -> payload_schema.Type | None:
        """The type of the column `payload`, with the fields of all topics; None if no value is decoded.

        Raises:
            SchemaError: A payload cannot have this schema, or two topics contradict each other.
        """
        own = [(f"topics.{topic}.value", payload_schema.of(each.payload.schema)) for topic, each in self.own if each.payload]
        return payload_schema.union(payload_schema.of(self.payload.schema) if self.payload else None, own)

    @property
    def decodes(self) -> bool:
        """Whether values are decoded, in any topic."""
        return any(each.payload for each, _ in self.decodings)

    @property
    def judges_values(self) -> bool:
        """Whether a value that cannot be decoded keeps its record out of Silver, in any topic."""
        return any(each.judges for each, _ in self.decodings)

    @property
    def of_values(self) -> Rules:
        """How values are decoded, as rules that say nothing else."""
        own = ((topic, OfTopic(_NONE, payload=each.payload, written=each.written)) for topic, each in self.own)
        return Rules(_NONE, payload=self.payload, written=self.written, own=tuple(own))

    @property
    def of_sequences(self) -> Rules:
        """The rules without the payload: enough to read producer, epoch and sequence, without decoding values."""
        return replace(self, payload=None, own=tuple((topic, replace(each, payload=None)) for topic, each in self.own))

    @property
    def has_producers(self) -> bool:
        """Whether any topic has streams of producers."""
        return any(each.producer for each, _ in self.kinds)

    @property
    def has_epochs(self) -> bool:
        """Whether any topic has epochs that are read."""
        return any(each.epoch for each, _ in self.kinds)

    @property
    def fingerprint(self) -> str:
        """Identifies what a sequence means: rules with the same fingerprint make comparable watermarks.

        It is that of the topics that are not named in `own`: take `of_topic` first.
        Policies and the payload are not part of it; they may change from load to load.
        """
        return self.sources.fingerprint

    @property
    def extractors(self) -> str:
        """Where sequence, producer and epoch are read from, in words, each of bounded length; for topics see `fingerprint`.

        >>> Rules(Source("header", "seq"), producer=Source("json", "$.p")).extractors
        'sequence: header "seq" (utf8), producer: json $.p (utf8)'
        """
        shown = {role: describe(*astuple(source)) for role, source in self.sources.by_role.items()}
        return ", ".join(f"{role}: {shortened(text, _LONGEST)}" for role, text in shown.items())

    def to_json(self) -> str:
        """The rules as the JSON that the ledger stores."""
        own = [[topic, each.pinned()] for topic, each in self.own]
        pinned = asdict(self) | {"written": self.written and self.written.pinned(), "own": own}
        return json.dumps({name: value for name, value in pinned.items() if name not in _ADDED or value}, sort_keys=True)

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
            **vars(OfTopic.from_pinned(found)),
            max_jump=found["max_jump"],
            late=found["late"],
            contiguous=found.get("contiguous", False),
            topics=tuple((topic, Policy(**own)) for topic, own in found.get("topics", ())),
            decided_topics=None if found.get("decided_topics") is None else tuple(found["decided_topics"]),
            own=tuple((topic, OfTopic.from_pinned(each)) for topic, each in found.get("own", ())),
        )
