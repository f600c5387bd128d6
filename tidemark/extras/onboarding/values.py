"""The values of a sample as objects: JSON, or Avro decoded by the schemas of a registry; and the fields of all of them."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from lakehouse.errors import RegistryError
from lakehouse.escape import shortened
from lakehouse.extract.on_driver import Digits, Object, Record
from lakehouse.extract.written import PREFIX_BYTES, without_prefix
from lakehouse.settings import formats, payload_schema
from lakehouse.settings.payload_schema import Field, Type
from tidemark.extras.formats import avro_schema, avro_values
from tidemark.extras.formats.avro_schema import AvroSchemaError
from tidemark.extras.formats.prefixes import schema_id
from tidemark.extras.formats.registry_client import SchemaRegistry
from tidemark.extras.onboarding.change_events import Event, among, declared, scalars_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lakehouse.settings.extractor import SourceForm
    from lakehouse.settings.pipeline import Registry
    from tidemark.extras.onboarding.sample import Sampled

_MOST_LEVELS, _MOST_FIELDS = 20, 1_000  # of a payload
_MOST_STEPS_OF_A_PATH = 4
_LARGEST = 2**63 - 1

TEXT, TRUTH, WHOLE, FRACTION = "text", "true and false", "whole numbers", "fractions"
_OBJECT, _LIST, _NULL = "objects", "lists", "null"
_LONG, _INFINITE = "whole numbers beyond BIGINT", "numbers beyond DOUBLE"
_TAKES = {"BOOLEAN": {TRUTH}, "BIGINT": {WHOLE}, "DOUBLE": {WHOLE, FRACTION}, "STRING": {TEXT, TRUTH, WHOLE, _LONG}}
"""What a type holds without loss: Spark does not keep fractions as text the way they are written."""

Path = tuple[str | None, ...]  # the keys that lead to a part of a document; None for an element of a list
_FORMS: dict[str | None, SourceForm] = {"avro": "field", "json": "prefixed_json"}
_MOST_UNASKED = 20  # ids of values that look like a registry's, if no registry is named
_MOST_IDS = 256  # of a load
_SHARE = 0.95  # of a topic's values: if more have ids, the others are a producer's mistakes


def scalars(found: Any, above: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the path and the value of each part of a document that is no object and no list, down to 4 levels.

    >>> list(scalars({"a": {"b": [7]}}))
    [(('a', 'b', None), 7)]
    """
    if not isinstance(found, dict | list):
        yield above, found
    elif len(above) < _MOST_STEPS_OF_A_PATH:
        # An `Object` has its fields from last to first.
        steps = reversed(found.items()) if isinstance(found, dict) else ((None, part) for part in found)
        for step, part in steps:
            yield from scalars(part, (*above, step))


class Payload(NamedTuple):
    """The fields that values have in common, and what is not among them, with the reason."""

    fields: Type
    left_out: Mapping[str, str]

    @classmethod
    def of(cls, fields: Type | None, left_out: Mapping[str, str]) -> Payload:
        """Leave out what no table can hold."""
        stored, odd = payload_schema.storable(fields) if fields else (None, [])
        why = "no name of a column, or one that differs from another in its case only"
        return cls(stored or Type("struct"), {**dict.fromkeys(odd, why), **left_out})

    @property
    def schema(self) -> str:
        """The fields as `value.schema` has them."""
        return payload_schema.ddl(self.fields)


def payload(documents: Iterable[Any]) -> Payload:
    """The fields into which all objects among documents decode without loss; of change events, the change and the row."""
    fields, objects = _Fields(), [each for each in documents if isinstance(each, Object)]
    events = [Event.of(each) for each in objects]
    rows = [event.row if event else each for event, each in zip(events, objects, strict=True)]
    blocks = {json.dumps(event.schema): event.schema for event in events if event and event.schema}
    for block in blocks.values():
        for path, schema in scalars_of(block, ("payload",)):
            fields.schemas.setdefault(path, []).append(schema)
    return Payload.of(fields.struct(rows, ()), fields.left_out)


@dataclass
class _Fields:
    left_out: dict[str, str] = field(default_factory=dict)
    count: int = 0
    schemas: dict[tuple[str, ...], list[Object]] = field(default_factory=dict)
    """What Kafka Connect says of scalars, by path."""

    def struct(self, objects: Sequence[Object], path: tuple[str, ...]) -> Type | None:
        repeated = {name for each in objects for name in each.repeated}
        fields = []
        for name in dict.fromkeys(name for each in objects for name in reversed(each)):
            self.count += 1
            if self.count > _MOST_FIELDS or name in repeated:
                why = "a key that an object has twice" if name in repeated else f"beyond {_MOST_FIELDS:,} fields"
                self.left_out[".".join((*path, name))] = why
            elif kind := self.type_of([each.get(name) for each in objects], (*path, name)):
                fields.append(Field(name, kind))
        return Type("struct", fields=tuple(fields)) if fields else None

    def type_of(self, values: Sequence[Any], path: tuple[str, ...]) -> Type | None:
        there = [each for each in values if each is not None]
        held = {_kind(each) for each in there}
        if held == {_OBJECT} and any(there) and len(path) < _MOST_LEVELS:
            return self.struct(there, path)
        if held == {_LIST} and any(there) and len(path) < _MOST_LEVELS:
            of = self.type_of([part for each in there for part in each], (*path, "[]"))
            return Type("array", of=of) if of else None
        known = {declared(each, there) for each in self.schemas.get(path, ())}
        if len(known) == 1 and (found := known.pop()):
            return found
        if name := next((name for name, kinds in _TAKES.items() if held and held <= kinds), None):
            return Type("scalar", name)
        why = " and ".join(sorted(held)) or "always null"
        self.left_out[".".join(path)] = f"{why}, empty or too deep" if why in (_OBJECT, _LIST) else why
        return None


def _kind(part: Any) -> str:
    if isinstance(part, Digits):
        if part.removeprefix("-").isdigit() and part != "-0":
            return WHOLE if -_LARGEST <= int(part) <= _LARGEST else _LONG
        return FRACTION if math.isfinite(float(part)) else _INFINITE
    kinds = {bool: TRUTH, Object: _OBJECT, list: _LIST}
    return kinds.get(type(part), TEXT)


class Schema:
    """A schema of values. `why` says why no field is looked at by it; None if they are.

    `fields` are those that a payload can have of Avro values; `left_out` is what cannot be a field, with the reason. Loads are
    decoded by Spark.
    """

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        self.why = None if kind.lower() in _FORMS else f"fields of {kind} values are not looked at"
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
        parts = ((each.name, _as_json(value[each.name], each.type)) for each in kind.fields)
        return Object([(name, part) for name, part in parts if part is not None])
    if isinstance(value, bool | str):
        return value
    return Digits(value) if isinstance(value, int | float) and math.isfinite(value) else None


def schema_ids(sample: Sequence[Sampled], share: float = 1, most: int = _MOST_UNASKED) -> dict[str, list[int]]:
    """The ids that the values of a topic begin with, for each topic whose values look as a schema registry's do.

    A share of its values has to begin so, with at most `most` different ids.
    """
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
    documents: Mapping[tuple[str, int, int], Object | None] = field(default_factory=dict)

    @property
    def undecoded(self) -> int:
        """How many values of those topics could not be decoded."""
        return list(self.documents.values()).count(None)

    def row(self, each: Sampled) -> tuple[Record, SourceForm, Any]:
        """A record as extractors read it, the form of those that read its value, and the value as JSON or decoded from Avro."""
        form = _FORMS.get(self.formats.get(each.topic), "json")
        record = Record(each.value, each.headers or (), each.offset, self.documents.get(each[:3]))
        return record, form, record.json if form == "json" else record.decoded

    def lines(self) -> Iterator[str]:
        """What was found out, in sentences for a terminal."""
        if not self.ids:
            yield "The registry was not asked: the values do not begin with a zero byte and the id of a schema."
            return
        listed = [f"{number} ({shortened(each.kind, 40)})" for number, each in self.schemas.items()]
        yield f"The registry has the schemas of these values: {', '.join(listed)}."
        yield from (f"{number}: {shortened(each.why)}." for number, each in self.schemas.items() if each.why)
        yield from (
            f"{number}: {each.what} It answered {each.observed}. {each.next_step}" for number, each in self.refused.items()
        )
        if self.undecoded:
            yield f"{self.undecoded:,} value{'s' if self.undecoded > 1 else ''} could not be decoded by their schema."

    def to_json(self) -> dict[str, Any]:
        """What was found out, as plain data."""
        return {
            "schemas": [{"id": number, "kind": each.kind, "why_not": each.why} for number, each in self.schemas.items()],
            "refused": [{"id": number, "what": each.what} for number, each in self.refused.items()],
            "formats": dict(self.formats),
            "payloads": {name: {"schema": each.schema, "left_out": each.left_out} for name, each in self.payloads.items()},
            "undecoded": self.undecoded,
        }


def ask_registry(settings: Registry, sample: Sequence[Sampled]) -> Registered:
    """Ask a registry for the schemas of a sample, and decode its values.

    Raises:
        RegistryError: The registry cannot be reached, refuses, or gives none of the schemas.
    """
    ids = schema_ids(sample, _SHARE, _MOST_IDS)
    numbered = ((schema_id(each.value or b"") or 0, each) for each in reversed(sample))
    places = {number: each.place for number, each in numbered if number in ids.get(each.topic, ())}
    if not places:
        return Registered(ids)
    client = SchemaRegistry(settings)
    client.require_answer()
    schemas, refused = dict[int, Schema](), dict[int, RegistryError]()
    for number, place in sorted(places.items()):
        try:
            schemas[number] = Schema(*client.schema(number, met_at=place))
        except RegistryError as error:
            client.require_answer()  # of one that is gone by now, nothing more is asked
            refused[number] = error
    if not schemas:
        raise next(iter(refused.values()))
    return _decoded(Registered(ids, schemas, refused), sample)


def _decoded(found: Registered, sample: Sequence[Sampled]) -> Registered:
    """Find each topic's format and fields, and decode its values."""
    readable = {number: each for number, each in found.schemas.items() if each.why is None}
    newest = {topic: max(readable.keys() & set(ids), default=None) for topic, ids in found.ids.items()}
    formats = {topic: readable[number].kind.lower() for topic, number in newest.items() if number is not None}
    documents: dict[tuple[str, int, int], Object | None] = {}
    for each in sample:
        if each.value is not None and each.topic in formats:
            schema = readable.get(schema_id(each.value) or 0)
            is_of_format = schema and schema.kind.lower() == formats[each.topic]
            documents[each[:3]] = schema.document(without_prefix(each.value) or b"") if schema and is_of_format else None
    payloads: dict[str, Payload] = {}
    for written in dict.fromkeys(formats.values()):
        topics = [topic for topic in formats if formats[topic] == written]
        numbers = sorted({number for topic in topics for number in found.ids[topic]} & readable.keys(), reverse=True)
        # A JSON Schema is not followed: the fields and their types are those of the sample.
        of_sample = payload(each for place, each in documents.items() if place[0] in topics)
        of_schemas = _common([readable[number] for number in numbers if readable[number].kind == "AVRO"])
        fields, left_out = of_schemas if written == "avro" else of_sample
        # All topics share one payload: a field has one type.
        known = {each.name.lower(): each for other in payloads.values() for each in other.fields.fields}
        events = among(each for place, each in documents.items() if place[0] in topics) if written == "avro" else []
        wanted = [each for each in fields.fields if all(event.has_column(each.name) for event in events[:1])]
        kept = tuple(each for each in wanted if known.get(each.name.lower(), each) == each)
        gone = [each.name for each in wanted if each not in kept]
        whys = {**left_out, **dict.fromkeys(gone, "of another type in other topics")}
        payloads[written] = Payload(Type("struct", fields=kept), whys)
    formats = {topic: each for topic, each in formats.items() if payloads[each].schema}
    documents = {place: each for place, each in documents.items() if place[0] in formats}
    return replace(found, formats=formats, payloads=payloads, documents=documents)


def _common(schemas: Sequence[Schema]) -> Payload:
    """The fields of all schemas, each of a type that takes what every schema writes; those of the first schema first."""
    left_out = {path: why for each in schemas for path, why in each.left_out.items()}
    alternatives: dict[str, list[Field]] = {}
    for one in (one for each in schemas for one in each.fields.fields):
        alternatives.setdefault(one.name.lower(), []).append(one)
    kept = []
    for several in alternatives.values():
        wanted = [(one, Type("struct", fields=(one,))) for one in several]
        fitting = [one for one, kind in wanted if not any(avro_schema.misfit(each.writer, kind) for each in schemas)]
        if fitting and len({one.name for one in several}) == 1:
            kept.append(fitting[0])
        else:
            left_out[several[0].name] = "of several types or spellings"
    return Payload.of(Type("struct", fields=tuple(kept)), left_out)
