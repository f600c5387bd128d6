"""The format of values that are not text: Avro or Protobuf, or with the prefix of a schema registry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from lakehouse.settings import formats
from lakehouse.settings.payload_schema import Field, Type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakehouse.settings.pipeline import ValueFormat

PREFIX_BYTES = 5
"""The Confluent wire format's prefix: a zero byte, and the schema's id in four bytes, big-endian."""
KEY = Type("scalar", "KEY")
"""What a sequence, producer or epoch can be read from: a whole number or text."""


def without_prefix(value: bytes) -> bytes | None:
    r"""Return the bytes after the prefix; None if there is no prefix.

    >>> without_prefix(b"\x00\x00\x00\x00\x07{}"), without_prefix(b"{}"), without_prefix(b"\x00\x00")
    (b'{}', None, None)
    """
    return value[PREFIX_BYTES:] if len(value) >= PREFIX_BYTES and value.startswith(b"\x00") else None


def at_path(*paths: str, leaf: Callable[[str], Type] = lambda _: KEY) -> Type:
    """Return the fields that lead to parts of a sequence, producer or epoch, such as `meta.seq`. `leaf` gives a part's type."""
    inner: dict[str, list[str]] = {}
    for path in paths:
        name, _, rest = path.partition(".")
        inner.setdefault(name, []).extend([rest] if rest else [])
    fields = (Field(name, at_path(*rests, leaf=leaf) if rests else leaf(name)) for name, rests in inner.items())
    return Type("struct", fields=tuple(fields))


class Decoder(Protocol):
    """The part of a format in `EXTRAS` that reads values with Spark."""

    def require_decoder(self, spark: SparkSession) -> None:
        """Raise a `ToolError` that says what to add if the session cannot decode such values."""

    def decode(self, value: Column, written: Written, wanted: Type) -> Column:
        """Decode values to a struct of the wanted fields, a KEY as text, and CORRUPT: false if it was decoded, otherwise null.

        `written` must have the schema of every id in the values: another id fails the query.
        """

    def content(self, value: Column, written: Written, left_out: str, /) -> Column:
        """Return a value's fields, except those whose names match `left_out`, as bytes; the value if its schema is unknown."""

    def misfits(self, records: DataFrame, schemas: Sequence[tuple[int, str]], wanted: Type, /) -> Sequence[tuple[int, str]]:
        """Return the ids of schemas by which no value of the records can be decoded into the wanted fields, each with why."""


@dataclass(frozen=True)
class Written:
    """The format of the bytes of values.

    `schema` is the Avro schema or base64 descriptor set of all values, `message` their Protobuf message; empty if each value
    names its own. Values with `undecodable_ids` have no schema. `schemas` has each known id's schema, empty if of another kind.
    """

    format: formats.WrittenFormat
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
        schema = "" if value.format == "json" else formats.schemas(value.format).pinned(value)
        return cls(value.format, schema, registry is not None, ids, message=value.message or "")

    @property
    def has_types(self) -> bool:
        """Whether values are of a schema, and so have fields of types."""
        return self.format in formats.EXTRAS

    @property
    def decoder(self) -> Decoder:
        """What reads the values if they are of a schema; raises a `ToolError` if its library is not installed."""
        return cast("Decoder", formats.load(self.format))

    def pinned(self) -> dict[str, Any]:
        """Return the part that a claim keeps. An id keeps its meaning, so its schema is not needed."""
        return {name: value for name, value in vars(self).items() if name != "schemas" and (name != "message" or value)}
