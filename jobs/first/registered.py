"""What a schema registry says of a sample: the schemas of its values, their fields for the config, and the values decoded."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from jobs.first import objects
from jobs.first.objects import MOST_BYTES, MOST_FIELDS, ODD, Decoder, Payload, Steps
from lakehouse.errors import RegistryError
from lakehouse.escape import printable, shortened
from lakehouse.extract.on_driver import Object, Record
from lakehouse.extract.written import PREFIX_BYTES, schema_id, without_prefix
from lakehouse.run.schema_registry import SchemaRegistry
from lakehouse.settings import avro_schema, payload_schema
from lakehouse.settings.avro_schema import AvroSchemaError, Writer
from lakehouse.settings.payload_schema import Field, Type

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bronze.kafka.sample import Sampled
    from lakehouse.extract.sources import Form
    from lakehouse.settings.registry import Registry

Format = Literal["avro", "json"]
_FORMATS: dict[str, Format] = {"AVRO": "avro", "JSON": "json"}
_FORMS: dict[str | None, Form] = {"avro": "field", "json": "prefixed_json"}
_MOST_UNASKED = 20
"""The ids of values that look as a registry's do, where nobody has named one."""
_MOST_IDS, _MOST_ASKED = 256, 100
"""The ids of a load, and those that are asked for here."""
_LONGEST_KIND = 40
_SHARE = 0.95
"""The share of a topic's values from which on its values are those of a registry: others are a producer's mistakes."""

Place = tuple[str, int, int]


def schema_ids(sample: Sequence[Sampled], share: float = 1, most: int = _MOST_UNASKED) -> dict[str, list[int]]:
    """The ids that the values of a topic begin with, for each topic whose values look as a schema registry's do.

    A share of its values has to begin so, with at most `most` different ids.
    """
    found: dict[str, Counter[int]] = {}
    for each in sample:
        if each.value is not None:
            found.setdefault(each.topic, Counter())[schema_id(each.value) or 0] += 1
    # A small number in eight bytes begins with the id 0; and many ids are numbers too, or random bytes.
    counted = {topic: (ids.total(), ids) for topic, ids in found.items()}
    return {
        topic: sorted(each for each in ids if each)
        for topic, (total, ids) in counted.items()
        if ids[0] <= (1 - share) * total and len(ids) - (0 in ids) <= most
    }


def with_long_ids(sample: Sequence[Sampled]) -> list[str]:
    """The topics whose values look as those of a registry with ids of eight bytes, which are not read."""
    # Without the upper half of a small id they look as all others do.
    short = [each.value and each.value[4:] * each.value.startswith(bytes(PREFIX_BYTES)) for each in sample]
    return list(schema_ids([each._replace(value=value) for each, value in zip(sample, short, strict=True)]))


class Schema(NamedTuple):
    """A schema of the registry.

    Attributes:
        kind: AVRO, JSON, PROTOBUF or another word of the registry's.
        fields: The fields of a payload by it.
        left_out: What cannot be one, by its path, with the reason.
        why: Why no field is looked at by it; None if they are.
        written: For Avro: the schema of records with one of the fields only, by its name.
    """

    kind: str
    fields: Type = Type("struct")
    left_out: Mapping[str, str] = {}
    why: str | None = None
    written: Mapping[str, Writer] = {}
    decoder: Decoder | None = None


@dataclass(frozen=True)
class Registered:
    """What was found out about the values of a sample.

    Attributes:
        ids: The ids of each topic whose values are of the registry.
        schemas: The schemas that the registry has.
        refused: The ids of which it gave no schema, with what it said.
        formats: Of each topic whose fields are looked at: how its values are written.
        payloads: The fields, by format; perhaps none.
        undecoded: How many values of those topics could not be decoded.
    """

    ids: Mapping[str, Sequence[int]]
    schemas: Mapping[int, Schema] = field(default_factory=dict)
    refused: Mapping[int, RegistryError] = field(default_factory=dict)
    formats: Mapping[str, Format] = field(default_factory=dict)
    payloads: Mapping[Format, Payload] = field(default_factory=dict)
    undecoded: int = 0
    _documents: Mapping[Place, Object | None] = field(default_factory=dict)

    def record(self, each: Sampled) -> Record:
        """A record as extractors read it, with its decoded value."""
        return Record(each.value, each.headers or (), each.offset, self._documents.get(each[:3]))

    def lines(self) -> Iterator[str]:
        """What was found out, in sentences for a terminal."""
        if not self.ids:
            yield "The registry was not asked: the values do not begin with a zero byte and the id of a schema."
            return
        kinds = [f"{number} ({printable(shortened(each.kind, _LONGEST_KIND))})" for number, each in self.schemas.items()]
        yield f"The registry has the schemas of these values: {', '.join(kinds)}."
        for number, each in self.schemas.items():
            if each.why is not None:
                yield f"{number}: {printable(shortened(each.why))}."
        for number, error in self.refused.items():
            yield f"{number}: " + printable(f"{error.what} It answered {error.observed}. {error.next_step or ''}").strip()
        if self.undecoded:
            yield f"{self.undecoded:,} value{'s' if self.undecoded > 1 else ''} could not be decoded by their schema."
        for written, payload in self.payloads.items():
            if payload.left_out:
                yield f"Left out of the fields of {written}: {payload.listed()}."

    def to_json(self) -> dict[str, Any]:
        """What was found out, as plain data."""
        return {
            "schemas": [{"id": number, "kind": each.kind, "why_not": each.why} for number, each in self.schemas.items()],
            "refused": [{"id": number, "what": each.what} for number, each in self.refused.items()],
            "formats": dict(self.formats),
            "payloads": {
                name: {"schema": each.schema, "left_out": dict(each.left_out)} for name, each in self.payloads.items()
            },
            "undecoded": self.undecoded,
        }

    def form(self, topic: str) -> Form:
        """The form of the extractors that read the decoded values of a topic; `json` where none are decoded."""
        return _FORMS.get(self.formats.get(topic), "json")


def look(settings: Registry, sample: Sequence[Sampled]) -> Registered:
    """Ask a registry for the schemas of a sample, and decode its values.

    Raises:
        RegistryError: The registry cannot be reached, refuses, or gives none of the schemas.
    """
    ids = schema_ids(sample, _SHARE, _MOST_IDS)
    met = _met(sample, ids)
    if not met:
        return Registered(ids)
    asked = SchemaRegistry(settings)
    asked.require_answer()
    schemas: dict[int, Schema] = {}
    refused: dict[int, RegistryError] = {}
    for number, place in sorted(met.items()):
        try:
            schemas[number] = _schema(*asked.schema(number, met_at=place))
        except RegistryError as error:
            asked.require_answer()  # of one that is gone by now, nothing more is asked
            refused[number] = error
    if not schemas:
        raise next(iter(refused.values()))
    return _decoded(Registered(ids, schemas, refused), sample)


def _met(sample: Sequence[Sampled], ids: Mapping[str, Sequence[int]]) -> dict[int, str]:
    """Where each id is first met."""
    met: dict[int, str] = {}
    for each in sample:
        number = schema_id(each.value or b"")
        if number and number in ids.get(each.topic, ()):
            met.setdefault(number, each.place)
    return dict(list(met.items())[:_MOST_ASKED])


def _schema(kind: str, text: str) -> Schema:
    try:
        match kind:
            case "AVRO":
                return _avro(text)
            case "JSON":
                return Schema(kind)
            case "PROTOBUF":
                return Schema(kind, why="fields of Protobuf values are not looked at")
            case _:
                return Schema(kind, why="values of this kind are not read")
    except AvroSchemaError as error:
        return Schema(kind, why=f"nothing can be decoded by its schema: {error}")


def _avro(text: str) -> Schema:
    writer = avro_schema.writer(text)
    fields, left_out = avro_schema.fields(writer)
    stored, odd = payload_schema.storable(fields)
    left_out |= dict.fromkeys(odd, ODD)
    # Of each field by itself: a record of a thousand would be gone through for every one of them.
    alone = {each["name"]: Writer({**writer.schema, "fields": [each]}, writer.named) for each in writer.schema["fields"]}
    return Schema("AVRO", stored or Type("struct"), left_out, None, alone, Decoder.of(writer))


def _decoded(found: Registered, sample: Sequence[Sampled]) -> Registered:
    """Find each topic's format and fields, and decode its values."""
    formats = {topic: each for topic in found.ids if (each := _format(found, topic, sample)) is not None}
    steps, documents = Steps(), dict[Place, Object | None]()
    for record in sample:
        if record.value is not None and record.topic in formats:
            documents[record[:3]] = _document(record.value, formats[record.topic], found.schemas, steps)
    # A JSON Schema is not followed: the fields and their types are those of the sample.
    json = objects.payload(objects.kinds(each for place, each in documents.items() if formats[place[0]] == "json"))
    avro = _avro_payload(found, {topic for topic, each in formats.items() if each == "avro"})
    payloads = {each: avro if each == "avro" else json for each in dict.fromkeys(formats.values())}
    _without_conflicts(payloads)
    formats = {topic: each for topic, each in formats.items() if payloads[each].schema}
    documents = {place: each for place, each in documents.items() if place[0] in formats}
    undecoded = sum(each is None for each in documents.values())
    return replace(found, formats=formats, payloads=payloads, undecoded=undecoded, _documents=documents)


def _document(value: bytes, written: Format, schemas: Mapping[int, Schema], steps: Steps) -> Object | None:
    """The object that follows the prefix of a value; None if there is none, or it would take too long to look at."""
    if written == "avro":
        schema = schemas.get(schema_id(value) or 0)
        return schema.decoder.document(without_prefix(value) or b"", steps) if schema and schema.decoder else None
    found = Record(value).behind_prefix.json if len(value) <= MOST_BYTES else None
    return found if isinstance(found, Object) else None


def _format(found: Registered, topic: str, sample: Sequence[Sampled]) -> Format | None:
    """How most values of a topic are written, of which fields can be looked at."""
    numbers = Counter(schema_id(each.value) or 0 for each in sample if each.topic == topic and each.value is not None)
    counted: Counter[Format] = Counter()
    for number, times in numbers.items():
        schema = found.schemas.get(number)
        if schema is not None and schema.why is None:
            counted[_FORMATS[schema.kind]] += times
    return counted.most_common(1)[0][0] if counted else None


def _avro_payload(found: Registered, topics: set[str]) -> Payload:
    """The fields of all schemas; those of the newest one first."""
    numbers = sorted({number for topic in topics for number in found.ids[topic]}, reverse=True)
    schemas = [
        schema
        for number in numbers
        if (schema := found.schemas.get(number)) is not None and schema.why is None and schema.kind == "AVRO"
    ]
    left_out = {path: why for schema in schemas for path, why in schema.left_out.items()}
    kinds: dict[str, list[Field]] = {}
    for one in (each_field for schema in schemas for each_field in schema.fields.fields):
        kinds.setdefault(one.name.lower(), []).append(one)
    fields = []
    for nth, several in enumerate(kinds.values()):
        named = several[0]
        if nth >= MOST_FIELDS:
            left_out[named.name] = f"beyond {MOST_FIELDS:,} fields"
            continue
        kind = _widest(several, schemas)
        if kind is None or any(one.name != named.name for one in several):
            left_out[named.name] = "of several types or spellings"
        else:
            fields.append(Field(named.name, kind))
    return Payload(payload_schema.ddl(Type("struct", fields=tuple(fields))), left_out)


def _widest(several: Sequence[Field], schemas: Sequence[Schema]) -> Type | None:
    """The first type that takes what every schema writes without loss."""
    writers = [found for each in schemas if (found := each.written.get(several[0].name)) is not None]
    for one in dict.fromkeys(several):
        wanted = Type("struct", fields=(one,))
        if all(avro_schema.misfit(writer, wanted) is None for writer in writers):
            return one.type
    return None


def _without_conflicts(payloads: dict[Format, Payload]) -> None:
    """Take from the second format what the first has by the same name and another type: all topics share one payload."""
    if len(payloads) < len(_FORMATS) or not all(each.schema for each in payloads.values()):
        return
    (_, first), (second, other) = payloads.items()
    known = {each.name.lower(): each for each in payload_schema.parse(first.schema).fields}
    kept, left_out = [], dict(other.left_out)
    for each in payload_schema.parse(other.schema).fields:
        if known.get(each.name.lower(), each) == each:
            kept.append(each)
        else:
            left_out[each.name] = "of another type in other topics"
    payloads[second] = Payload(payload_schema.ddl(Type("struct", fields=tuple(kept))), left_out)
