"""The format of values that are not text: Avro or Protobuf, or with the prefix of a schema registry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from lakehouse.settings import avro_schema, protobuf_schema

if TYPE_CHECKING:
    from lakehouse.settings.pipeline import ValueFormat

PREFIX_BYTES = 5
"""The Confluent wire format's prefix: a zero byte, and the schema's id in four bytes, big-endian."""
_MOST_INDEXES = 100
_HEADERS = (
    ((b"\x00",), PREFIX_BYTES, "the prefix of a schema registry"),
    ((b"\x03\x00", b"\x03\x05"), 18, "the header of AWS Glue's registry"),
    ((b"\xc3\x01",), 10, "the header of Avro's single-object encoding"),
)
"""A header's first bytes, its length in bytes, and its name."""


def without_prefix(value: bytes) -> bytes | None:
    r"""Return the bytes after the prefix; None if there is no prefix.

    >>> without_prefix(b"\x00\x00\x00\x00\x07{}"), without_prefix(b"{}"), without_prefix(b"\x00\x00")
    (b'{}', None, None)
    """
    return value[PREFIX_BYTES:] if len(value) >= PREFIX_BYTES and value.startswith(b"\x00") else None


def schema_id(value: bytes) -> int | None:
    r"""Return the id of the schema that the prefix names; None if there is no prefix.

    >>> schema_id(b"\x00\x00\x00\x01\x07{}"), schema_id(b"{}")
    (263, None)
    """
    return None if without_prefix(value) is None else int.from_bytes(value[1:PREFIX_BYTES])


def framing(value: bytes) -> str | None:
    r"""Return the name of the header that a serializer puts before a value; None if the header is unknown.

    >>> framing(b"\x00\x00\x00\x00\x07{}"), framing(b"\x03\x05" + bytes(16)), framing(b"{}")
    ('the prefix of a schema registry', "the header of AWS Glue's registry", None)
    >>> framing(b"\xc3\x01" + bytes(8))
    "the header of Avro's single-object encoding"
    """
    return next((name for begins, size, name in _HEADERS if len(value) >= size and value.startswith(begins)), None)


def message_path(value: bytes) -> str | None:
    r"""Return the message indexes of a Protobuf value after the prefix, joined by points; None if there are none.

    >>> message_path(b"\x00\x00\x00\x00\x07\x00"), message_path(b"\x00\x00\x00\x00\x07\x04\x02\x00..."), message_path(b"\x00")
    ('0', '1.0', None)
    """
    body = without_prefix(value) or b""
    numbers: list[int] = []
    found = shift = 0
    for byte in body:
        found |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:  # noqa: PLR2004 -- the last byte of a number
            numbers.append(found >> 1 ^ -(found & 1))
            found = shift = 0
            if not 0 <= numbers[0] <= _MOST_INDEXES:
                return None
            if len(numbers) > numbers[0]:
                return ".".join(map(str, numbers[1:] or [0]))
    return None


@dataclass(frozen=True)
class Written:
    """The format of the bytes of values.

    `schema` is the Avro schema or the base64 descriptor set of all values, and `message` their Protobuf message. Both are empty
    if each value names its own. Values with `undecodable_ids` have no schema. `schemas` maps each known id to its schema, empty
    if that is of another kind. Claims do not pin it, because an id keeps its meaning.
    """

    format: Literal["json", "avro", "protobuf"]
    schema: str = ""
    has_prefix: bool = False
    undecodable_ids: tuple[int, ...] = ()
    schemas: tuple[tuple[int, str], ...] = ()
    message: str = ""

    @classmethod
    def of(cls, value: ValueFormat | None) -> Written | None:
        """Build the format from the config's `value`; None if values are text or are not decoded."""
        if value is None or value.format == "text" or (value.format == "json" and value.registry is None):
            return None
        registry = value.registry
        ids = tuple(sorted(set(registry.undecodable_ids))) if registry else ()
        schema = avro_schema.writer(value.avro_schema).text if value.avro_schema else ""
        if value.descriptor and value.message:
            schema = protobuf_schema.read(value.descriptor).of(value.message).text
        return cls(value.format, schema, registry is not None, ids, message=value.message or "")

    @property
    def names_schemas(self) -> bool:
        """Whether a schema registry has the schemas that the values were written with."""
        return self.format in ("avro", "protobuf") and self.has_prefix

    def pinned(self) -> dict[str, Any]:
        """Return the part that a claim keeps."""
        return {name: value for name, value in vars(self).items() if name != "schemas" and (name != "message" or value)}

    @classmethod
    def from_pinned(cls, found: dict[str, Any]) -> Written:
        """Build the format from the result of `pinned`."""
        return cls(**{**found, "undecodable_ids": tuple(found["undecodable_ids"])})
