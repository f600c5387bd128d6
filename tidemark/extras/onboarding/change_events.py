"""Change events that Debezium wrote: their database, the fields that become columns, and the types of these. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from lakehouse.extract.on_driver import Digits, Object
from lakehouse.settings.payload_schema import MOST_DIGITS, Type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_DATABASES = {"postgresql": "postgres", "mysql": "mysql", "mariadb": "mysql", "sqlserver": "sqlserver", "mongodb": "mongodb"}
_MARKS = {"lsn": "postgres", "sequence": "postgres", "file": "mysql", "commit_lsn": "sqlserver", "ord": "mongodb"}
"""Fields of `source` that one database alone has."""
_BY_TRANSFORM = ("__op", "__deleted", "__lsn", "__source_")
_OF_ROW = re.compile(r"(?:\$\.)?(?:payload\.)?(?:before|after)(?![\w-])")
_ADDED = re.compile(r"(?:\$\.)?(?:payload\.)?__")
_OF_CONNECTOR = re.compile(r"(?:source\.|__source_|__)(?:name|rs)$")
_MOST_LEVELS = 20
_NUMBERS = {"int8": "TINYINT", "int16": "SMALLINT", "int32": "INT", "int64": "BIGINT", "float": "FLOAT", "double": "DOUBLE"}
_TYPES = _NUMBERS | {"boolean": "BOOLEAN", "string": "STRING", "bytes": "BINARY"}
_NAMED = {"io.debezium.time.ZonedTimestamp": "TIMESTAMP"}
"""Types and names of Kafka Connect's schemas, and the type that holds their JSON. Other times are numbers there."""


class Event(NamedTuple):
    """A change event: an envelope, or a row after the unwrap transform. `schema` is what `schemas.enable` writes before it.

    `database` is None for a connector that the config cannot name.
    """

    body: Object
    schema: Object | None
    is_envelope: bool
    database: str | None

    @classmethod
    def of(cls, document: Any) -> Event | None:
        """Read a change event; None if the document is none.

        >>> event = Event.of(Object([("op", "c"), ("after", None), ("source", Object([("connector", "mariadb")]))]))
        >>> event and (event.database, list(event.row))
        ('mysql', ['after', 'op'])
        >>> event = Event.of(Object([("id", "a"), ("__op", "c"), ("__source_lsn", "5")]))
        >>> event and (event.database, list(event.row))
        ('postgres', ['__op', 'id'])
        """
        schema = document.get("schema") if isinstance(document, Object) else None
        schema = schema if isinstance(schema, Object) and schema.get("type") == "struct" else None
        body = document.get("payload") if schema else document
        if not isinstance(body, Object):
            return None
        source = body.get("source")
        is_envelope = "op" in body and (isinstance(source, Object) or "before" in body or "after" in body)
        added = {name.removeprefix("__").removeprefix("source_"): each for name, each in body.items() if name.startswith("__")}
        found = (source if isinstance(source, Object) else {}) if is_envelope else added
        database = next((each for name, each in _MARKS.items() if name in found), None)
        if not is_envelope and not any(name.startswith(_BY_TRANSFORM) for name in body):
            return None
        connector = found.get("connector")
        return cls(body, schema, is_envelope, _DATABASES.get(str(connector)) if is_envelope or connector else database)

    @property
    def row(self) -> Object:
        """The fields that become columns: the change and the row after it."""
        names = ("op", "after") if self.is_envelope else reversed(self.body)
        row = Object([(name, self.body[name]) for name in names if name in self.body and self.has_column(name)])
        return Object([("payload", row)]) if self.schema else row

    def has_column(self, name: str) -> bool:
        """Whether a field becomes a column."""
        if self.is_envelope:
            return name in ("op", "after")
        return name in ("__op", "__deleted") or not name.startswith("__")

    def is_column(self, path: str) -> bool:
        """Whether a path leads into the changed row."""
        return bool(_OF_ROW.match(path) if self.is_envelope else not _ADDED.match(path))


def among(documents: Iterable[Any]) -> list[Event]:
    """Return the change events among documents, if they are more than half of them."""
    found = [Event.of(each) for each in documents if each is not None]
    events = [each for each in found if each is not None]
    return events if len(events) > len(found) / 2 else []


def is_connector(path: str) -> bool:
    """Whether a path leads to the name of the connector, or of MongoDB's shard."""
    return _OF_CONNECTOR.search(path) is not None


def scalars_of(schema: Object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Object]]:
    """Yield what a schema of Kafka Connect says of each scalar, with its path; `[]` for the items of an array."""
    fields, items = schema.get("fields"), schema.get("items")
    inner = [(str(each.get("field")), each) for each in fields if isinstance(each, Object)] if isinstance(fields, list) else []
    inner += [("[]", items)] if isinstance(items, Object) else []
    for name, each in inner if len(path) < _MOST_LEVELS else ():
        yield from scalars_of(each, (*path, name))
    if not inner:
        yield path, schema


def declared(schema: Object, values: Sequence[Any]) -> Type | None:
    """Return the type that a schema of Kafka Connect gives a scalar, as JSON holds these values."""
    kind, name, given = (schema.get(key) for key in ("type", "name", "parameters"))
    if name != "org.apache.kafka.connect.data.Decimal":
        found = _NAMED.get(str(name)) or _TYPES.get(str(kind))
        return Type("scalar", found) if found else None
    if not any(isinstance(each, Digits) for each in values):
        return Type("scalar", "STRING")  # base64 of its bytes
    numbers = [str(given.get(key)) if isinstance(given, Object) else "" for key in ("connect.decimal.precision", "scale")]
    precision, scale = (int(each) if each.isdecimal() else MOST_DIGITS for each in numbers)
    return Type("scalar", "DECIMAL", (min(max(precision, scale), MOST_DIGITS), scale)) if scale < MOST_DIGITS else None
