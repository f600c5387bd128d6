"""The values of a sample as documents, whatever their format, and the fields of all of them.

JSON is read as it is, Avro by the schemas of a registry. Of Debezium's change events the fields are the change and its row.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from lakehouse.errors import RegistryError
from lakehouse.escape import shortened
from lakehouse.extract.on_driver import Digits, Object, Record
from lakehouse.extract.written import PREFIX_BYTES
from lakehouse.settings import formats, payload_schema
from lakehouse.settings.payload_schema import MOST_DIGITS, Field, Type
from tidemark.extras.formats import avro_schema, avro_values
from tidemark.extras.formats.avro_schema import AvroSchemaError
from tidemark.extras.formats.prefixes import schema_id
from tidemark.extras.formats.registry_client import SchemaRegistry

if TYPE_CHECKING:
    from lakehouse.settings.pipeline import Registry
    from tidemark.extras.onboarding.sample import Sampled

Path = tuple[str | None, ...]  # the keys that lead to a part of a document; None for an element of a list
Documents = dict[tuple[str, int, int], Object | None]  # by topic, partition and offset

_MOST_LEVELS, _MOST_FIELDS = 20, 1_000  # of a payload
_LARGEST = 2**63 - 1

TEXT, TRUTH, WHOLE, FRACTION = "text", "true and false", "whole numbers", "fractions"
_OBJECT, _LIST = "objects", "lists"
_LONG, _INFINITE = "whole numbers beyond BIGINT", "numbers beyond DOUBLE"
_KINDS = {bool: TRUTH, Object: _OBJECT, list: _LIST}
_TAKES = {"BOOLEAN": {TRUTH}, "BIGINT": {WHOLE}, "DOUBLE": {WHOLE, FRACTION}, "STRING": {TEXT, TRUTH, WHOLE, _LONG}}
"""What a type holds without loss: Spark does not keep fractions as text the way they are written."""

_DATABASES = {"postgresql": "postgres", "mysql": "mysql", "mariadb": "mysql", "sqlserver": "sqlserver", "mongodb": "mongodb"}
_MARKS = {"lsn": "postgres", "sequence": "postgres", "file": "mysql", "commit_lsn": "sqlserver", "ord": "mongodb"}
"""Fields of `source` that one database alone has."""
_BY_TRANSFORM = ("__op", "__deleted", "__lsn", "__source_")
_CONNECTOR = re.compile(r"(?:source\.|__source_|__)(?:name|rs)$")
_NUMBERS = {"int8": "TINYINT", "int16": "SMALLINT", "int32": "INT", "int64": "BIGINT", "float": "FLOAT", "double": "DOUBLE"}
_OTHERS = {"boolean": "BOOLEAN", "string": "STRING", "bytes": "BINARY", "io.debezium.time.ZonedTimestamp": "TIMESTAMP"}
_CONNECT = _NUMBERS | _OTHERS
"""The type that holds the JSON of a scalar, by the type or name in Kafka Connect's schema. Other times are numbers there."""

_MOST_UNASKED = 20  # ids of values that look like a registry's, if no registry is named
_MOST_IDS = 256  # of a load
_SHARE = 0.95  # of a topic's values: if more have ids, the others are a producer's mistakes


def parts(found: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield each part of a document with its path, down to 20 levels: (), ("a",) and ("a", None) of {"a": [7]}."""
    yield path, found
    if len(path) < _MOST_LEVELS and isinstance(found, dict | list):
        # An `Object` has its fields from last to first.
        inner = reversed(found.items()) if isinstance(found, dict) else ((None, part) for part in found)
        for step, part in inner:
            yield from parts(part, (*path, step))


class Event(NamedTuple):
    """A change event of Debezium: an envelope, or a row after the unwrap transform. `schema` is what `schemas.enable` adds.

    `database` is None for a connector that the config cannot name.
    """

    body: Object
    schema: Object | None
    is_envelope: bool
    database: str | None

    @classmethod
    def of(cls, document: Any) -> Event | None:
        """Read a change event; None if the document is none."""
        schema = document.get("schema") if isinstance(document, Object) else None
        schema = schema if isinstance(schema, Object) and schema.get("type") == "struct" else None
        body = document.get("payload") if schema else document
        if not isinstance(body, Object):
            return None
        source = body.get("source")
        is_envelope = "op" in body and (isinstance(source, Object) or "before" in body or "after" in body)
        if not is_envelope and not any(name.startswith(_BY_TRANSFORM) for name in body):
            return None
        if is_envelope:
            about = source if isinstance(source, Object) else {}
        else:
            about = {name[2:].removeprefix("source_"): each for name, each in body.items() if name.startswith("__")}
        if is_envelope or about.get("connector"):
            return cls(body, schema, is_envelope, _DATABASES.get(str(about.get("connector"))))
        return cls(body, schema, is_envelope, next((each for name, each in _MARKS.items() if name in about), None))

    @property
    def row(self) -> Object:
        """The fields that become columns: the change and the row after it."""
        names = ("op", "after") if self.is_envelope else reversed(self.body)
        row = Object([(name, self.body[name]) for name in names if name in self.body and self.has_column(name)])
        return Object([("payload", row)]) if self.schema else row

    def has_column(self, name: str) -> bool:
        """Whether a field becomes a column."""
        is_added = name.startswith("__") and name not in ("__op", "__deleted")
        return name in ("op", "after") if self.is_envelope else not is_added

    def is_column(self, path: str) -> bool:
        """Whether a path leads into the changed row."""
        name = re.sub(r"^(\$\.)?(payload\.)?", "", path)
        return re.match(r"(before|after)(?![\w-])", name) is not None if self.is_envelope else not name.startswith("__")


def among(documents: Iterable[Any]) -> list[Event]:
    """Return the change events among documents, if they are more than half of them."""
    found = [Event.of(each) for each in documents if each is not None]
    events = [each for each in found if each is not None]
    return events if len(events) > len(found) / 2 else []


def is_connector(path: str) -> bool:
    """Whether a path leads to the name of the connector, or of MongoDB's shard."""
    return _CONNECTOR.search(path) is not None


class Payload(NamedTuple):
    """The fields that values have in common, and what is not among them, with the reason."""

    fields: Type
    left_out: Mapping[str, str]

    @classmethod
    def of(cls, fields: Iterable[Field], left_out: Mapping[str, str]) -> Payload:
        """Leave out what no table can hold."""
        stored, odd = payload_schema.storable(Type("struct", fields=tuple(fields)))
        why = "no name of a column, or one that differs from another in its case only"
        return cls(stored or Type("struct"), {**dict.fromkeys(odd, why), **left_out})

    @property
    def schema(self) -> str:
        """The fields as `value.schema` has them."""
        return payload_schema.ddl(self.fields)


def payload(documents: Iterable[Any]) -> Payload:
    """The fields into which all objects among documents decode without loss; of change events, the change and the row."""
    values, blocks = dict[Path, list[Any]](), dict[str, Object]()
    for document in documents:
        event = Event.of(document)
        if event and event.schema:
            blocks[json.dumps(event.schema)] = event.schema
        for path, part in parts(event.row if event else document) if isinstance(document, Object) else ():
            values.setdefault(path, []).append(part)
    found = _Fields(values, blocks.values())
    return Payload.of(found.below(()), found.left_out)


class _Fields:
    """Finds types. `values` has what the documents hold, by path, and `blocks` the schemas of Kafka Connect in them."""

    def __init__(self, values: Mapping[Path, Sequence[Any]], blocks: Iterable[Object]) -> None:
        self.values, self.left_out = values, dict[str, str]()
        self.inner, self.described = dict[Path, list[Path]](), dict[Path, list[Object]]()
        for path in values:
            if path:
                self.inner.setdefault(path[:-1], []).append(path)
        for block in blocks:
            for path, scalar in _described(block, ("payload",)):
                self.described.setdefault(path, []).append(scalar)
        named = [path for path in values if path and path[-1] is not None]
        objects = [(path, each) for path, found in values.items() for each in found if isinstance(each, Object)]
        self.refused = dict.fromkeys(named[_MOST_FIELDS:], f"beyond {_MOST_FIELDS:,} fields")
        self.refused |= {(*path, name): "a key that an object has twice" for path, each in objects for name in each.repeated}

    def below(self, path: Path) -> tuple[Field, ...]:
        found = ((inner[-1] or "", self.type_at(inner)) for inner in self.inner.get(path, ()))
        return tuple(Field(name, kind) for name, kind in found if kind)

    def type_at(self, path: Path) -> Type | None:
        there = [each for each in self.values[path] if each is not None]
        held = {_kind(each) for each in there}
        why = self.refused.get(path)
        if why is None and path in self.inner and held in ({_OBJECT}, {_LIST}):
            fields = self.below(path)
            if not fields:
                return None
            return Type("struct", fields=fields) if held == {_OBJECT} else Type("array", of=fields[0].type)
        if why is None:
            known = {_declared(each, there) for each in self.described.get(path, ())}
            if len(known) == 1 and (found := known.pop()):
                return found
            if name := next((name for name, kinds in _TAKES.items() if held and held <= kinds), None):
                return Type("scalar", name)
            why = " and ".join(sorted(held)) or "always null"
            why += ", empty or too deep" if why in (_OBJECT, _LIST) else ""
        self.left_out[".".join("[]" if step is None else step for step in path)] = why
        return None


def _kind(part: Any) -> str:
    if isinstance(part, Digits):
        if part.removeprefix("-").isdigit() and part != "-0":
            return WHOLE if -_LARGEST <= int(part) <= _LARGEST else _LONG
        return FRACTION if math.isfinite(float(part)) else _INFINITE
    return _KINDS.get(type(part), TEXT)


def _described(schema: Object, path: Path) -> Iterator[tuple[Path, Object]]:
    """Yield what a schema of Kafka Connect says of each scalar, with its path."""
    fields, items = schema.get("fields"), schema.get("items")
    inner = [(str(each.get("field")), each) for each in fields if isinstance(each, Object)] if isinstance(fields, list) else []
    steps: list[tuple[str | None, Object]] = [*inner, *([(None, items)] if isinstance(items, Object) else [])]
    for step, each in steps if len(path) < _MOST_LEVELS else ():
        yield from _described(each, (*path, step))
    if not steps:
        yield path, schema


def _declared(schema: Object, values: Sequence[Any]) -> Type | None:
    """Return the type that a schema of Kafka Connect gives a scalar, as JSON holds these values."""
    kind, name, given = (schema.get(key) for key in ("type", "name", "parameters"))
    if name != "org.apache.kafka.connect.data.Decimal":
        found = _CONNECT.get(str(name)) or _CONNECT.get(str(kind))
        return Type("scalar", found) if found else None
    if not any(isinstance(each, Digits) for each in values):
        return Type("scalar", "STRING")  # base64 of its bytes
    numbers = [str(given.get(key)) if isinstance(given, Object) else "" for key in ("connect.decimal.precision", "scale")]
    precision, scale = (int(each) if each.isdecimal() else MOST_DIGITS for each in numbers)
    return Type("scalar", "DECIMAL", (min(max(precision, scale), MOST_DIGITS), scale)) if scale < MOST_DIGITS else None


class Schema:
    """A schema, with the fields that a payload can have of Avro values. `why` says why none is looked at; None if they are."""

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        self.why = None if kind in ("AVRO", "JSON") else f"fields of {kind} values are not looked at"
        self.fields, self.left_out = Type("struct"), dict[str, str]()
        if kind == "AVRO":
            formats.schemas("avro")  # raises if fastavro is not installed
            try:
                self.writer = avro_schema.writer(text)
                self.fields, self.left_out = avro_schema.fields(self.writer)
                self.decoded = avro_values.decoder(self.writer)
            except AvroSchemaError as error:
                self.why = f"nothing can be decoded by its schema: {error}"

    def document(self, body: bytes) -> Object | None:
        """Decode a value: JSON, or the records and scalars of Avro; None if it cannot be decoded."""
        found = Record(body).json if self.kind == "JSON" else _as_json(self.decoded(body), self.fields)
        return found if isinstance(found, Object) else None


def _as_json(value: Any, kind: Type) -> Any:
    """A decoded value as JSON has it; None for lists, maps and bytes."""
    if kind.kind == "struct" and isinstance(value, dict):
        inner = ((each.name, _as_json(value[each.name], each.type)) for each in kind.fields)
        return Object([(name, part) for name, part in inner if part is not None])
    if isinstance(value, bool | str):
        return value
    return Digits(value) if isinstance(value, int | float) and math.isfinite(value) else None


def schema_ids(sample: Sequence[Sampled], share: float = 1, most: int = _MOST_UNASKED) -> dict[str, list[int]]:
    """The ids at the begin of values, by topic, where at least a share of a topic's values have one of at most so many ids."""
    found: dict[str, Counter[int]] = {}
    for each in sample:
        if each.value is not None:
            found.setdefault(each.topic, Counter())[schema_id(each.value) or 0] += 1
    # A small number in eight bytes begins with the id 0; and many ids are numbers too, or random bytes.
    return {
        topic: sorted(each for each in ids if each)
        for topic, ids in found.items()
        if ids[0] <= (1 - share) * ids.total() and len(ids) - (0 in ids) <= most
    }


def with_long_ids(sample: Sequence[Sampled]) -> list[str]:
    """The topics whose values look as those of a registry with ids of eight bytes, which are not read."""
    # Without the upper half of a small id they look as all others do.
    short = [each.value and each.value[4:] * each.value.startswith(bytes(PREFIX_BYTES)) for each in sample]
    return list(schema_ids([each._replace(value=value) for each, value in zip(sample, short, strict=True)]))


@dataclass(frozen=True)
class Registered:
    """What a registry knows of a sample's values.

    `ids` and `formats` are by topic. `refused` has the ids without a schema, and what the registry said. `payloads` has the
    fields by format, and `documents` each decoded value by topic, partition and offset; None if it cannot be decoded.
    """

    ids: Mapping[str, Sequence[int]] = field(default_factory=dict)
    schemas: Mapping[int, Schema] = field(default_factory=dict)
    refused: Mapping[int, RegistryError] = field(default_factory=dict)
    formats: Mapping[str, str] = field(default_factory=dict)
    payloads: Mapping[str, Payload] = field(default_factory=dict)
    documents: Documents = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """What was found out, in sentences for a terminal."""
        if not self.ids:
            yield "The registry was not asked: the values do not begin with a zero byte and the id of a schema."
            return
        listed = [f"{number} ({shortened(each.kind, 40)})" for number, each in self.schemas.items()]
        yield f"The registry has the schemas of these values: {', '.join(listed)}."
        yield from (f"{number}: {shortened(each.why)}." for number, each in self.schemas.items() if each.why)
        for number, error in self.refused.items():
            yield f"{number}: {error.what} It answered {error.observed}. {error.next_step}"

    def to_json(self) -> dict[str, Any]:
        """What was found out, as plain data."""
        return {
            "schemas": [{"id": number, "kind": each.kind, "why_not": each.why} for number, each in self.schemas.items()],
            "refused": [{"id": number, "what": each.what} for number, each in self.refused.items()],
            "formats": dict(self.formats),
            "payloads": {name: {"schema": each.schema, "left_out": each.left_out} for name, each in self.payloads.items()},
            "undecoded": list(self.documents.values()).count(None),
        }


def ask_registry(settings: Registry, sample: Sequence[Sampled]) -> Registered:
    """Ask a registry for a sample's schemas, and decode its values; a RegistryError if it refuses or gives none of them."""
    ids, places = schema_ids(sample, _SHARE, _MOST_IDS), dict[int, str]()
    for each in sample:
        if each.topic in ids and (number := schema_id(each.value or b"")):
            places.setdefault(number, each.place)
    if not places:
        return Registered(ids)
    client, schemas, refused = SchemaRegistry(settings), dict[int, Schema](), dict[int, RegistryError]()
    client.require_answer()
    for number, place in sorted(places.items()):
        try:
            schemas[number] = Schema(*client.schema(number, met_at=place))
        except RegistryError as error:
            client.require_answer()  # of one that is gone by now, nothing more is asked
            refused[number] = error
    if not schemas:
        raise next(iter(refused.values()))
    readable = {number: each for number, each in sorted(schemas.items(), reverse=True) if each.why is None}
    newest = {topic: next((number for number in readable if number in of_topic), None) for topic, of_topic in ids.items()}
    formats = {topic: readable[number].kind.lower() for topic, number in newest.items() if number is not None}
    documents: Documents = {}
    for each in sample:
        if each.value is not None and each.topic in formats:
            schema = readable.get(schema_id(each.value) or 0)
            is_of_format = schema is not None and schema.kind.lower() == formats[each.topic]
            documents[each[:3]] = schema.document(each.value[PREFIX_BYTES:]) if schema and is_of_format else None
    payloads = _payloads(formats, documents, [each for each in readable.values() if each.kind == "AVRO"])
    formats = {topic: each for topic, each in formats.items() if payloads[each].schema}
    documents = {place: each for place, each in documents.items() if place[0] in formats}
    return Registered(ids, schemas, refused, formats, payloads, documents)


def _payloads(formats: Mapping[str, str], documents: Documents, schemas: Sequence[Schema]) -> dict[str, Payload]:
    """The fields of each format. All topics share one payload: a field has one type."""
    payloads: dict[str, Payload] = {}
    for written in dict.fromkeys(formats.values()):
        found = [document for place, document in documents.items() if formats[place[0]] == written]
        # A JSON Schema is not followed: the fields and their types are those of the sample.
        fields, left_out = _common(schemas, among(found)) if written == "avro" else payload(found)
        known = {each.name.lower(): each for other in payloads.values() for each in other.fields.fields}
        kept = [each for each in fields.fields if known.get(each.name.lower(), each) == each]
        gone = {each.name: "of another type in other topics" for each in fields.fields if each not in kept}
        payloads[written] = Payload(Type("struct", fields=tuple(kept)), {**left_out, **gone})
    return payloads


def _common(schemas: Sequence[Schema], events: Sequence[Event]) -> Payload:
    """The fields of all schemas, each of the first type that takes what every schema writes."""
    left_out = {path: why for each in schemas for path, why in each.left_out.items()}
    kept: dict[str, Field] = {}
    for one in (one for each in schemas for one in each.fields.fields if not events or events[0].has_column(one.name)):
        if any(avro_schema.misfit(each.writer, Type("struct", fields=(one,))) for each in schemas):
            left_out[one.name] = "of several types"
        else:
            kept.setdefault(one.name, one)
    return Payload.of(kept.values(), {path: why for path, why in left_out.items() if path not in kept})
