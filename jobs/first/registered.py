"""What a schema registry says of a sample: the schemas of its values, their fields for the config, and the values decoded."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from jobs.first import objects
from jobs.first.objects import MOST_BYTES, Budget, Decoder, Payload
from lakehouse.errors import RegistryError
from lakehouse.escape import printable, shortened
from lakehouse.extract.on_driver import Object, Record
from lakehouse.extract.written import PREFIX_BYTES, schema_id, without_prefix
from lakehouse.run.schema_registry import SchemaRegistry
from lakehouse.settings import avro_schema
from lakehouse.settings.avro_schema import AvroSchemaError
from lakehouse.settings.payload_schema import Field, Type

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bronze.kafka.sample import Sampled
    from lakehouse.extract.sources import Form
    from lakehouse.settings.registry import Registry

Format = Literal["avro", "json"]
_FORMATS: dict[str, Format] = {"AVRO": "avro", "JSON": "json"}
_FORMS: dict[str | None, Form] = {"avro": "field", "json": "prefixed_json"}
_WHY_NOT = {"PROTOBUF": "fields of Protobuf values are not looked at"}
_MOST_UNASKED = 20
"""The ids of values that look as a registry's do, where nobody has named one."""
_MOST_IDS, _MOST_ASKED = 256, 100
"""The ids of a load, and how many schemas `init` fetches."""
_LONGEST_KIND = 40
_SHARE = 0.95
"""The share of a topic's values from which on its values are those of a registry: others are a producer's mistakes."""


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


class Schema(NamedTuple):
    """A schema of the registry.

    Attributes:
        kind: AVRO, JSON, PROTOBUF or another word of the registry's.
        why: Why no field is looked at by it; None if they are.
        decoder: For Avro.
    """

    kind: str
    why: str | None = None
    decoder: Decoder | None = None

    @classmethod
    def of(cls, kind: str, text: str) -> Schema:
        """Read a schema."""
        if kind != "AVRO":
            return cls(kind, None if kind == "JSON" else _WHY_NOT.get(kind, "values of this kind are not read"))
        try:
            return cls(kind, decoder=Decoder(avro_schema.writer(text)))
        except AvroSchemaError as error:
            return cls(kind, f"nothing can be decoded by its schema: {error}")


@dataclass(frozen=True)
class Registered:
    """What was found out about the values of a sample.

    Attributes:
        ids: The ids of each topic whose values are of the registry.
        schemas: The schemas that the registry has.
        refused: The ids of which it gave no schema, with what it said.
        formats: The format of each topic whose fields are looked at.
        payloads: The fields, by format; perhaps none.
        documents: The decoded value of each record of those topics, by topic, partition and offset; None if it is none.
    """

    ids: Mapping[str, Sequence[int]] = field(default_factory=dict)
    schemas: Mapping[int, Schema] = field(default_factory=dict)
    refused: Mapping[int, RegistryError] = field(default_factory=dict)
    formats: Mapping[str, Format] = field(default_factory=dict)
    payloads: Mapping[Format, Payload] = field(default_factory=dict)
    documents: Mapping[tuple[str, int, int], Object | None] = field(default_factory=dict)

    @property
    def undecoded(self) -> int:
        """How many values of those topics could not be decoded."""
        return list(self.documents.values()).count(None)

    def record(self, each: Sampled) -> Record:
        """A record as extractors read it, with its decoded value."""
        return Record(each.value, each.headers or (), each.offset, self.documents.get(each[:3]))

    def form(self, topic: str) -> Form:
        """The form of the extractors that read the values of a topic."""
        return _FORMS.get(self.formats.get(topic), "json")

    def lines(self) -> Iterator[str]:
        """What was found out, in sentences for a terminal."""
        if not self.ids:
            yield "The registry was not asked: the values do not begin with a zero byte and the id of a schema."
            return
        listed = [f"{number} ({printable(shortened(each.kind, _LONGEST_KIND))})" for number, each in self.schemas.items()]
        yield f"The registry has the schemas of these values: {', '.join(listed)}."
        yield from (f"{number}: {printable(shortened(each.why))}." for number, each in self.schemas.items() if each.why)
        for number, error in self.refused.items():
            yield f"{number}: " + printable(f"{error.what} It answered {error.observed}. {error.next_step or ''}").strip()
        if self.undecoded:
            yield f"{self.undecoded:,} value{'s' if self.undecoded > 1 else ''} could not be decoded by their schema."
        for written, payload in self.payloads.items():
            if payload.left_out:
                yield f"Left out of the fields of {written}: {payload.listed()}."

    def to_json(self) -> dict[str, Any]:
        """What was found out, as plain data."""
        payloads = {name: {"schema": each.schema, "left_out": dict(each.left_out)} for name, each in self.payloads.items()}
        return {
            "schemas": [{"id": number, "kind": each.kind, "why_not": each.why} for number, each in self.schemas.items()],
            "refused": [{"id": number, "what": each.what} for number, each in self.refused.items()],
            "formats": dict(self.formats),
            "payloads": payloads,
            "undecoded": self.undecoded,
        }


def look(settings: Registry, sample: Sequence[Sampled]) -> Registered:
    """Ask a registry for the schemas of a sample, and decode its values.

    Raises:
        RegistryError: The registry cannot be reached, refuses, or gives none of the schemas.
    """
    ids = schema_ids(sample, _SHARE, _MOST_IDS)
    places: dict[int, str] = {}
    for each in sample:
        number = schema_id(each.value or b"") or 0
        if number in ids.get(each.topic, ()):
            places.setdefault(number, each.place)
    if not places:
        return Registered(ids)
    client = SchemaRegistry(settings)
    client.require_answer()
    schemas: dict[int, Schema] = {}
    refused: dict[int, RegistryError] = {}
    for number, place in sorted(list(places.items())[:_MOST_ASKED]):
        try:
            schemas[number] = Schema.of(*client.schema(number, met_at=place))
        except RegistryError as error:
            client.require_answer()  # of one that is gone by now, nothing more is asked
            refused[number] = error
    if not schemas:
        raise next(iter(refused.values()))
    return _decoded(ids, schemas, refused, sample)


def _decoded(
    ids: Mapping[str, Sequence[int]],
    schemas: Mapping[int, Schema],
    refused: Mapping[int, RegistryError],
    sample: Sequence[Sampled],
) -> Registered:
    """Find each topic's format and fields, and decode its values."""
    readable = {number: each for number, each in schemas.items() if each.why is None}
    counted: dict[str, Counter[Format]] = {topic: Counter() for topic in ids}
    for record in sample:
        number = schema_id(record.value or b"")
        if record.topic in ids and number in readable:
            counted[record.topic][_FORMATS[readable[number].kind]] += 1
    formats = {topic: each.most_common(1)[0][0] for topic, each in counted.items() if each}
    budget = Budget()
    documents = {
        record[:3]: _document(record.value, formats[record.topic], readable, budget)
        for record in sample
        if record.value is not None and record.topic in formats
    }
    newest = sorted({number for topic in formats for number in ids[topic]}, reverse=True)
    decoders = [each.decoder for number in newest if (each := readable.get(number)) and each.decoder]
    payloads: dict[Format, Payload] = {}
    for written in dict.fromkeys(formats.values()):
        # A JSON Schema is not followed: the fields and their types are those of the sample.
        of_sample = (each for place, each in documents.items() if formats[place[0]] == written)
        found = _common(decoders) if written == "avro" else objects.payload(objects.kinds(of_sample))
        payloads[written] = _without(found, [*payloads.values()])
    formats = {topic: each for topic, each in formats.items() if payloads[each].schema}
    documents = {place: each for place, each in documents.items() if place[0] in formats}
    return Registered(ids, schemas, refused, formats, payloads, documents)


def _document(value: bytes, written: Format, schemas: Mapping[int, Schema], budget: Budget) -> Object | None:
    """The object that follows the prefix of a value; None if there is none, or it would take too long to look at."""
    if written == "avro":
        schema = schemas.get(schema_id(value) or 0)
        return schema.decoder.document(without_prefix(value) or b"", budget) if schema and schema.decoder else None
    found = Record(value).behind_prefix.json if len(value) <= MOST_BYTES else None
    return found if isinstance(found, Object) else None


def _common(decoders: Sequence[Decoder]) -> Payload:
    """The fields of all schemas, each of a type that takes what every schema writes; those of the first schema first."""
    left_out = {path: why for each in decoders for path, why in each.left_out.items()}
    several: dict[str, dict[Field, None]] = {}
    for one in (one for each in decoders for one in each.fields.fields):
        several.setdefault(one.name.lower(), {})[one] = None
    fields = []
    for alternatives in map(list, several.values()):
        fitting = [one for one in alternatives if len(alternatives) == 1 or _takes_all(one, decoders)]
        if fitting and len({one.name for one in alternatives}) == 1:
            fields.append(fitting[0])
        else:
            left_out[alternatives[0].name] = "of several types or spellings"
    return Payload.of(Type("struct", fields=tuple(fields)), left_out)


def _takes_all(one: Field, decoders: Sequence[Decoder]) -> bool:
    wanted = Type("struct", fields=(one,))
    return all(avro_schema.misfit(each.writer, wanted) is None for each in decoders)


def _without(found: Payload, others: Sequence[Payload]) -> Payload:
    """A payload without fields that others have with another type: all topics share one payload."""
    known = {each.name.lower(): each for other in others for each in other.fields.fields}
    kept = tuple(each for each in found.fields.fields if known.get(each.name.lower(), each) == each)
    gone = [each.name for each in found.fields.fields if each not in kept]
    return Payload(Type("struct", fields=kept), {**found.left_out, **dict.fromkeys(gone, "of another type in other topics")})
