"""Where sequence, producer and epoch of a record are read from, and the fingerprint that says what a sequence means."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehouse.settings.pipeline import Extractor, Settings

Form = Literal["header", "value", "json", "bytes", "offset", "custom"]
Encoding = Literal["utf8", "int32", "int64"]


@dataclass(frozen=True)
class Source:
    """Where a sequence, producer or epoch is read from, as one of a fixed set of forms.

    Attributes:
        form: header, value, json, bytes, offset or custom.
        argument: The header's name, the JSON path, the byte range `start:end`, or `module:function`.
        encoding: How the bytes are read: as digits (utf8) or as a big-endian integer.
    """

    form: Form
    argument: str = ""
    encoding: Encoding = "utf8"

    @classmethod
    def of(cls, extractor: Extractor) -> Source:
        """Build the source from an extractor of the config."""
        return cls(extractor.form, extractor.argument, extractor.encoding)


@dataclass(frozen=True)
class Sources:
    """Where the sequence of a record is read from, and its stream's producer and epoch.

    Attributes:
        sequence: Where the sequence is read from.
        producer: Where the producer is read from; None if a stream is a whole partition.
        epoch: Where the epoch is read from; None if it is always 0.
    """

    sequence: Source
    producer: Source | None = None
    epoch: Source | None = None

    @classmethod
    def of(cls, settings: Settings) -> Sources:
        """Build the sources from the config."""
        return cls(
            Source.of(settings.sequence),
            Source.of(settings.producer) if settings.producer else None,
            Source.of(settings.epoch) if settings.epoch else None,
        )

    @property
    def by_role(self) -> Mapping[str, Source]:
        """The sources that there are, under `sequence`, `producer` and `epoch`, in this order."""
        return {role: source for role, source in vars(self).items() if source is not None}

    @property
    def is_custom(self) -> bool:
        """Whether an operator's function reads any of them. Bronze never runs it: its failure must not stop the ingest."""
        return any(source.form == "custom" for source in self.by_role.values())

    @property
    def fingerprint(self) -> str:
        """Identifies what a sequence means: sequences read by sources with the same fingerprint can be compared."""
        meaning = [asdict(source) if source else None for source in (self.sequence, self.producer, self.epoch)]
        return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()[:16]
