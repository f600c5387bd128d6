"""Where sequence, producer and epoch of a record are read from, and the fingerprint of these sources."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from lakehouse.contracts.bronze import plain_topic
from lakehouse.extract.written import Written
from lakehouse.settings.extractor import Encoding, SourceForm  # noqa: TC001 -- pydantic reads the annotations at run time

if TYPE_CHECKING:
    from lakehouse.settings.pipeline import Extractor, Settings

Way = TypeVar("Way")


@dataclass(frozen=True)
class Source:
    """Where a sequence, producer or epoch is read from: digits (utf8) or a big-endian integer.

    The argument is the header's name, the JSON path, the path of fields, the byte range `start:end`, `module:function`, or the
    database of Debezium's connector.
    """

    form: SourceForm
    argument: str = ""
    encoding: Encoding = "utf8"

    @classmethod
    def of(cls, extractor: Extractor, written: Written | None = None) -> Source:
        """Build the source from an extractor of the config."""
        is_prefixed = extractor.form == "json" and written is not None and written.has_prefix
        return cls("prefixed_json" if is_prefixed else extractor.form, extractor.argument, extractor.encoding)


def alike(default: Way, own: Iterable[tuple[str, Way]]) -> list[tuple[Way, list[str]]]:
    """Return each different value once, with its topics; the first is for all topics not named.

    >>> alike("a", [("t", "b"), ("u", "a"), ("v", "b")])
    [('a', ['u']), ('b', ['t', 'v'])]
    """
    found: dict[Way, list[str]] = {default: []}
    for topic, each in own:
        found.setdefault(each, []).append(topic)
    return list(found.items())


@dataclass(frozen=True)
class Sources:
    """Where a record's sequence, producer and epoch are read from. `own` has the topics with other sources, without `own`."""

    sequence: Source
    producer: Source | None = None
    epoch: Source | None = None
    written: Written | None = None
    own: tuple[tuple[str, Sources], ...] = ()

    @classmethod
    def of(cls, settings: Settings) -> Sources:
        """Build the sources from the config."""
        written = Written.of(settings.value)
        sequence = Source.of(settings.sequence, written)
        epoch = Source("debezium_epoch", sequence.argument) if sequence.form == "debezium" else None
        found = cls(
            sequence,
            Source.of(settings.producer, written) if settings.producer else None,
            Source.of(settings.epoch, written) if settings.epoch else epoch,
            written,
        )
        own = ((topic, cls.of(settings.of_topic(topic))) for topic in sorted(settings.topics))
        return replace(found, own=tuple((topic, each) for topic, each in own if each != found))

    def of_topic(self, topic: str) -> Sources:
        """Return the sources of a topic, in any incarnation.

        >>> sources = Sources(Source("offset"), own=(("orders", Sources(Source("header", "seq"))),))
        >>> sources.of_topic("orders@2").sequence.form, sources.of_topic("others").sequence.form
        ('header', 'offset')
        """
        plain = plain_topic(topic)
        return next((each for name, each in self.own if name == plain), replace(self, own=()))

    @property
    def kinds(self) -> list[tuple[Sources, list[str]]]:
        """The different sources, each once, with their topics; the first are for all topics not named."""
        return alike(replace(self, own=()), self.own)

    @property
    def by_role(self) -> Mapping[str, Source]:
        """The sources under `sequence`, `producer` and `epoch`, in this order, without those of `own`."""
        sources = {"sequence": self.sequence, "producer": self.producer, "epoch": self.epoch}
        return {role: source for role, source in sources.items() if source is not None}

    @property
    def is_left_to_silver(self) -> bool:
        """Whether Silver extracts all records, not Bronze, because a failing function or registry must not stop the ingest."""
        kinds = (each for each, _ in self.kinds)
        return all(
            each.decoded_event or any(source.form in ("custom", "field") for source in each.by_role.values()) for each in kinds
        )

    @property
    def decoded_event(self) -> Written | None:
        """The format of change events that are decoded by a schema; None for JSON and other records."""
        is_decoded = self.sequence.form == "debezium" and self.written is not None and self.written.has_types
        return self.written if is_decoded else None

    @property
    def fingerprint(self) -> str:
        """Sequences with equal fingerprints can be compared. Take `of_topic` first: `own` is left out."""
        meaning = [asdict(source) if source else None for source in (self.sequence, self.producer, self.epoch)]
        return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()[:16]
