"""How the bytes of values are written, where they are not the text itself: as Avro, or with the prefix of a schema registry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from lakehouse.settings import avro_schema

if TYPE_CHECKING:
    from lakehouse.settings.pipeline import ValueFormat

PREFIX_BYTES = 5
"""What the Confluent wire format puts before a value: a zero byte, and the schema's id in four bytes, big-endian."""


def without_prefix(value: bytes) -> bytes | None:
    r"""What follows the prefix; None where there is none.

    >>> without_prefix(b"\x00\x00\x00\x00\x07{}"), without_prefix(b"{}"), without_prefix(b"\x00\x00")
    (b'{}', None, None)
    """
    return value[PREFIX_BYTES:] if len(value) >= PREFIX_BYTES and value.startswith(b"\x00") else None


def schema_id(value: bytes) -> int | None:
    r"""The id of the schema that the prefix names; None where there is none.

    >>> schema_id(b"\x00\x00\x00\x01\x07{}"), schema_id(b"{}")
    (263, None)
    """
    return None if without_prefix(value) is None else int.from_bytes(value[1:PREFIX_BYTES])


@dataclass(frozen=True)
class Written:
    """How the bytes of values are written.

    Attributes:
        format: json or avro.
        schema: The Avro schema of all values; empty if each names its own.
        has_prefix: Whether each value has the wire format's prefix, and so the id of its schema.
        undecodable_ids: Ids that no schema has: values with them are undecodable.
        schemas: The Avro schema of each id that the records at hand carry; empty if an id's schema is none of Avro. Never
            pinned: what an id stands for does not change.
    """

    format: Literal["json", "avro"]
    schema: str = ""
    has_prefix: bool = False
    undecodable_ids: tuple[int, ...] = ()
    schemas: tuple[tuple[int, str], ...] = ()

    @classmethod
    def of(cls, value: ValueFormat | None) -> Written | None:
        """Build it from the config's `value`; None where a value is the text itself, or is not decoded at all."""
        if value is None or value.format == "text" or (value.format == "json" and value.registry is None):
            return None
        registry = value.registry
        ids = tuple(sorted(set(registry.undecodable_ids))) if registry else ()
        schema = avro_schema.writer(value.avro_schema).text if value.avro_schema else ""
        return cls(value.format, schema, registry is not None, ids)

    @property
    def names_schemas(self) -> bool:
        """Whether a schema registry has to be asked what the values were written with."""
        return self.format == "avro" and self.has_prefix

    def pinned(self) -> dict[str, Any]:
        """What a claim keeps of it."""
        return {name: value for name, value in vars(self).items() if name != "schemas"}

    @classmethod
    def from_pinned(cls, found: dict[str, Any]) -> Written:
        """What a claim has kept."""
        return cls(**{**found, "undecodable_ids": tuple(found["undecodable_ids"])})
