"""The rules that decide a load: where sequences are read from, and the policies. A claim stores them; a retry uses those."""

from __future__ import annotations

import json
from dataclasses import asdict, astuple, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from lakehouse.contracts.bronze import plain_topic
from lakehouse.escape import shortened
from lakehouse.extract.sources import Source, Sources, alike
from lakehouse.extract.written import Written  # noqa: TC001 -- pydantic reads the annotation at run time
from lakehouse.settings import payload_schema
from lakehouse.settings.extractor import describe
from lakehouse.settings.formats import Format, Undecodable  # noqa: TC001 -- as above
from lakehouse.settings.policies import Late, Numbering  # noqa: TC001 -- as above

if TYPE_CHECKING:
    from lakehouse.settings.pipeline import Settings

_LONGEST = 250
_NONE = Source("offset")
_COMPARED = {
    "per_topic": "A record whose number another partition has is a duplicate or a collision.",
    "per_partition": "Numbers repeat across partitions, so these are not compared: a keyed record that is sent again may now "
    "lie in another partition, and is kept twice.",
    None: "Nothing shows whether numbers repeat across partitions, so these are not compared: a keyed record that is sent "
    "again may now lie in another partition, and is kept twice. Set policies.numbering.",
}
_OMITTED = ("written", "own", "continues", "grown", "skips_tombstones")
"""Keys that a claim omits when empty, so that old claims serialize unchanged."""


@dataclass(frozen=True)
class Payload:
    """How a value is decoded: into the fields of a DDL `schema` (empty for text) if it has at most `max_bytes`."""

    format: Format
    schema: str = ""
    max_bytes: int | None = None
    undecodable: Undecodable = "accept"


@dataclass(frozen=True)
class Policy:
    """The policies of one topic."""

    max_jump: int | None = None
    late: Late = "quarantine"
    contiguous: bool = False


@dataclass(frozen=True)
class Reading:
    """How the records of a topic are read.

    Without a producer a stream is a whole partition; without an epoch, epoch 0; without a payload Silver keeps the raw value.
    `written` is the format of the bytes; None for text and plain JSON. `skips_tombstones`: records without a value, whose
    sequence is read from it, wait for no decision.
    """

    sequence: Source
    producer: Source | None = None
    epoch: Source | None = None
    payload: Payload | None = None
    written: Written | None = None
    skips_tombstones: bool = False

    @classmethod
    def of_config(cls, settings: Settings) -> Reading:
        """Build the reading from the config, without the overrides of single topics."""
        value, sources = settings.value, Sources.of(settings)
        payload = Payload(value.format, value.schema_ or "", value.max_bytes, value.undecodable) if value else None
        return Reading(sources.sequence, sources.producer, sources.epoch, payload, sources.written, settings.skips_tombstones)

    @property
    def judges(self) -> bool:
        """Whether a value that cannot be decoded keeps its record out of Silver."""
        return self.payload is not None and self.payload.undecodable == "quarantine"

    @property
    def needs_schemas(self) -> bool:
        """Whether a schema registry has the schemas by which values are decoded, or sequence, producer or epoch are read."""
        sources = (self.sequence, self.producer, self.epoch)
        reads_fields = any(source is not None and source.form in ("field", "debezium") for source in sources)
        is_asked = self.written is not None and self.written.has_types and self.written.has_prefix
        return is_asked and (reads_fields or self.payload is not None)

    def as_dict(self) -> dict[str, Any]:
        """Return the form that a claim stores."""
        kept = asdict(self) | {"written": self.written and self.written.pinned()}
        return {name: value for name, value in kept.items() if value or name not in _OMITTED}


@dataclass(frozen=True)
class Grown:
    """A topic that once had `before` partitions. A resent record may be in another one than its first copy. See docs/rule.md.

    Records are compared across partitions only if the `numbering` is known, and per topic. `mark` is the highest (epoch,
    sequence) that is compared; None for no limit. `is_last`: the load decides all records read before the producers knew the
    partitions. The next sets the mark.
    """

    before: int
    partitions: int
    numbering: Numbering | None = None
    mark: tuple[int, int] | None = None
    is_last: bool = False

    @property
    def shown(self) -> dict[str, object]:
        """Return the fields that a run and a status show."""
        counts = {"before": self.before, "partitions": self.partitions}
        return {**counts, "numbering": self.numbering, "compared": _COMPARED[self.numbering]}


@dataclass(frozen=True)
class Rules(Policy, Reading):
    """Everything that a load's outcome depends on, apart from the records and the watermarks.

    `topics` and `own` override policies and readings of single topics. The load decides the records of `decided_topics`, in any
    incarnation; None for all that Bronze holds. `continues` lists each incarnation with the earlier ones whose numbering it
    continues, and `grown` those that got partitions, as the tables name them. `compares_epochs`: whether records of older
    epochs are suspects. Claims of earlier versions lack it: such records were `fenced`.
    """

    topics: tuple[tuple[str, Policy], ...] = ()
    decided_topics: tuple[str, ...] | None = None
    own: tuple[tuple[str, Reading], ...] = ()
    continues: tuple[tuple[str, tuple[str, ...]], ...] = ()
    grown: tuple[tuple[str, Grown], ...] = ()
    compares_epochs: bool = True

    @classmethod
    def of(cls, settings: Settings) -> Rules:
        """Build the rules from the config."""
        policies, default = settings.policies, Reading.of_config(settings)
        own = ((topic, Reading.of_config(settings.of_topic(topic))) for topic in sorted(settings.topics))
        return cls(
            **vars(default),
            own=tuple((topic, each) for topic, each in own if each != default),
            **vars(Policy(policies.max_jump, policies.late, policies.contiguous)),
            topics=tuple((topic, Policy(own.max_jump, own.late, own.contiguous)) for topic, own in policies.topics.items()),
            decided_topics=tuple(sorted(settings.kafka.topics)),
        )

    def policy(self, topic: str) -> Policy:
        """Return the policy of a topic, in any incarnation."""
        plain = plain_topic(topic)
        return next((own for name, own in self.topics if name == plain), Policy(self.max_jump, self.late, self.contiguous))

    def of_topic(self, topic: str) -> Rules:
        """Return the rules for the records of a topic, in any incarnation, without `own`."""
        plain = plain_topic(topic)
        return replace(self, own=(), **next((vars(each) for name, each in self.own if name == plain), {}))

    def linked(self, topic: str) -> frozenset[str]:
        """Return the incarnations that share a topic's numbering, by table name; the topic itself if its partitions share one.

        >>> Rules(_NONE, continues=(("t@2", ("t",)), ("t@4", ("t@3",)))).linked("t")
        frozenset({'t@2'})
        """
        shared = ({later, *earlier} for later, earlier in self.continues)
        others = frozenset().union(*(names for names in shared if topic in names)) - {topic}
        return others | (self.compared.keys() & {topic})

    @property
    def compared(self) -> dict[str, Grown]:
        """The topics whose records are compared across partitions."""
        return {topic: each for topic, each in self.grown if each.numbering == "per_topic"}

    def keeping(self, before: Rules | None) -> Rules:
        """Take over an earlier load's rules for topics that are no longer decided: Silver still holds their records.

        Also keeps what it knew of topics that got partitions, unless the config sets their numbering. Only a plan adds to that.
        """
        if before is None:
            return replace(self, grown=())
        decided = self.decided_topics
        left = {topic: each for topic, each in before.own if decided is not None and topic not in decided}
        numberings = {topic: each.numbering for topic, each in self.grown}
        grown = tuple((topic, replace(each, numbering=numberings.get(topic) or each.numbering)) for topic, each in before.grown)
        return replace(self, own=tuple(sorted({**left, **dict(self.own)}.items())), grown=grown)

    @property
    def sources(self) -> Sources:
        """Where sequence, producer and epoch are read from."""
        own = ((topic, Sources(each.sequence, each.producer, each.epoch, each.written)) for topic, each in self.own)
        default = Sources(self.sequence, self.producer, self.epoch, self.written)
        return replace(default, own=tuple((topic, each) for topic, each in own if each != default))

    @property
    def per_topic(self) -> list[tuple[Reading, list[str]]]:
        """The distinct readings, each with its topics; first that of all other topics."""
        return alike(Reading(**{each.name: getattr(self, each.name) for each in fields(Reading)}), self.own)

    @property
    def decodings(self) -> list[tuple[Reading, list[str]]]:
        """The distinct ways to decode values, each with its topics."""
        return self.of_values.per_topic

    @property
    def payload_type(self) -> payload_schema.Type | None:
        """The type of the column `payload`, with the fields of all topics; None if no value is decoded."""
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
        """The rules reduced to the decoding of values."""
        own = tuple((topic, Reading(_NONE, payload=each.payload, written=each.written)) for topic, each in self.own)
        return Rules(_NONE, payload=self.payload, written=self.written, own=own)

    @property
    def of_sequences(self) -> Rules:
        """The rules without the decoding of values."""
        return replace(self, payload=None, own=tuple((topic, replace(each, payload=None)) for topic, each in self.own))

    @property
    def fingerprint(self) -> str:
        """Hash of the extractors of topics without overrides. Watermarks with the same fingerprint are comparable."""
        return self.sources.fingerprint

    @property
    def extractors(self) -> str:
        """Describe where sequence, producer and epoch are read from."""
        shown = {role: describe(*astuple(source)) for role, source in self.sources.by_role.items()}
        return ", ".join(f"{role}: {shortened(text, _LONGEST)}" for role, text in shown.items())

    def to_json(self) -> str:
        """Return the JSON that the ledger stores."""
        own = [[topic, each.as_dict()] for topic, each in self.own]
        return json.dumps(self.as_dict() | ({"own": own} if own else {}), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Rules:
        """Read the rules of a claim; claims of earlier versions lack some keys."""
        return _ADAPTER.validate_python({"compares_epochs": False, **json.loads(text)})


_ADAPTER = TypeAdapter(Rules)
