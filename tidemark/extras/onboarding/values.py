"""The values of a sample as objects of JSON, decoded by the schemas of a registry where one is named, and their fields."""

from __future__ import annotations

import io
import json
import math
import struct
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from lakehouse.errors import RegistryError
from lakehouse.escape import printable, shortened
from lakehouse.extract.on_driver import Digits, Object, Record
from lakehouse.extract.written import PREFIX_BYTES, schema_id, without_prefix
from lakehouse.run.schema_registry import SchemaRegistry
from lakehouse.settings import avro_schema, payload_schema
from lakehouse.settings.avro_schema import AvroSchemaError
from lakehouse.settings.payload_schema import Field, Type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lakehouse.extract.sources import Form
    from lakehouse.settings.avro_schema import Writer
    from lakehouse.settings.registry import Registry
    from tidemark.extras.onboarding.sample import Sampled

MOST_BYTES = 1024 * 1024  # of a value that is looked at
_MOST_STEPS = 1_000_000_000  # in all Avro values of a sample, half a minute: a few bytes can stand for millions of steps
_UNREADABLE = (ArithmeticError, EOFError, LookupError, MemoryError, RecursionError, TypeError, ValueError, struct.error)
"""What fastavro raises on bytes that do not fit their schema."""
_LOGICAL = ("logicalType", "precision", "scale")
_MOST_LEVELS = 20
_MOST_FIELDS = 1_000
_MOST_LISTED = 5
_LARGEST = 2**63 - 1
_ODD = "no name of a column, or one that differs from another in its case only"

TEXT, TRUTH, WHOLE, FRACTION = "text", "true and false", "whole numbers", "fractions"
_OBJECT, _LIST, _NULL = "objects", "lists", "null"
_LONG, _INFINITE, _REPEATED = "whole numbers beyond BIGINT", "numbers beyond DOUBLE", "a key that an object has twice"
SCALARS = (TEXT, TRUTH, WHOLE, FRACTION, _NULL, _LONG, _INFINITE)

Path = tuple[str | None, ...]  # the keys that lead to a part of a document; None for an element of a list
Format = Literal["avro", "json"]
_FORMATS: dict[str, Format] = {"AVRO": "avro", "JSON": "json"}
_FORMS: dict[str | None, Form] = {"avro": "field", "json": "prefixed_json"}
_WHY_NOT = {"PROTOBUF": "fields of Protobuf values are not looked at"}
_MOST_UNASKED = 20  # ids of values that look as a registry's do, where nobody has named one
_MOST_IDS, _MOST_ASKED = 256, 100  # ids of a load, and schemas that init fetches
_LONGEST_KIND = 40
_SHARE = 0.95  # of a topic's values: if more have ids, the others are a producer's mistakes


@dataclass
class Budget:
    """The steps that are left for decoding a sample."""

    steps: int = _MOST_STEPS

    def take(self, steps: int) -> bool:
        """Take steps, and return whether as many were left."""
        is_left = steps <= self.steps
        self.steps -= steps if is_left else 0
        return is_left


class Decoder:
    """Decodes Avro values of one schema, to look at them: loads are decoded by Spark.

    `fields` are those that a payload can have of such values; `left_out` is what cannot be a field, with the reason.

    Raises:
        AvroSchemaError: The values are no records, or nothing can be decoded.
    """

    def __init__(self, writer: Writer) -> None:
        from fastavro.schema import SchemaParseException, UnknownType, parse_schema

        self.writer = writer
        self.fields, self.left_out = avro_schema.fields(writer)
        # Without logical types, a time is the number beneath it, and none is out of range.
        plain = json.loads(writer.text, object_hook=lambda part: {name: part[name] for name in part if name not in _LOGICAL})
        try:
            self._parsed = parse_schema(plain)
        except (SchemaParseException, UnknownType, ValueError) as error:
            raise AvroSchemaError(f"it cannot be read: {error}") from error
        self.steps_per_byte = 1 + _without_bytes(writer.schema, writer.named)

    def fits(self, body: bytes, budget: Budget) -> bool:
        """Whether a value is of the schema, or would take too long to look at."""
        return not self._is_short(body, budget) or self._decoded(body) is not None

    def document(self, body: bytes, budget: Budget) -> Object | None:
        """Decode a value into its records and scalars; None if it cannot be decoded, or would take too long."""
        found = _as_json(self._decoded(body), self.fields) if self._is_short(body, budget) else None
        return found if isinstance(found, Object) else None

    def _is_short(self, body: bytes, budget: Budget) -> bool:
        return len(body) <= MOST_BYTES and budget.take(len(body) * self.steps_per_byte)

    def _decoded(self, body: bytes) -> Any:
        """The value; None if it cannot be decoded, or does not end where its bytes end."""
        from fastavro import schemaless_reader

        stream = io.BytesIO(body)
        try:
            value = schemaless_reader(stream, self._parsed, None, handle_unicode_errors="replace")
        except _UNREADABLE:
            return None
        return None if stream.read(1) else value


def _as_json(value: Any, kind: Type) -> Any:
    """A decoded value as JSON has it; None for lists, maps and bytes."""
    if kind.kind == "struct" and isinstance(value, dict):
        parts = ((each.name, _as_json(value[each.name], each.type)) for each in kind.fields)
        return Object([(name, part) for name, part in parts if part is not None])
    if isinstance(value, bool | str):
        return value
    return Digits(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _without_bytes(given: Any, named: Mapping[str, Any]) -> int:
    """How many types without bytes of their own can come with one byte of a value, at most."""
    given = named.get(given, given) if isinstance(given, str) else given
    if isinstance(given, list):
        return max(_without_bytes(each, named) for each in given)
    match given["type"] if isinstance(given, dict) else given:
        case "record" | "error":
            return 1 + sum(_without_bytes(each["type"], named) for each in given["fields"])
        case "array" | "map":
            return _without_bytes(given.get("items", given.get("values")), named)
        case kind:
            return int(kind == "null" or (kind == "fixed" and given["size"] == 0))


class Payload(NamedTuple):
    """The fields that values have in common, and what is not among them, with the reason."""

    fields: Type
    left_out: Mapping[str, str]

    @classmethod
    def of(cls, fields: Type | None, left_out: Mapping[str, str]) -> Payload:
        """Leave out what no table can hold."""
        stored, odd = payload_schema.storable(fields) if fields else (None, [])
        return cls(stored or Type("struct"), {**dict.fromkeys(odd, _ODD), **left_out})

    @property
    def schema(self) -> str:
        """The fields as `value.schema` has them."""
        return payload_schema.ddl(self.fields)

    def listed(self) -> str:
        """What is left out, in words."""
        shown = [f"{printable(shortened(path, 120))} ({why})" for path, why in list(self.left_out.items())[:_MOST_LISTED]]
        more = len(self.left_out) - len(shown)
        return ", ".join(shown) + (f" and {more:,} more" if more else "")


def parts(found: Any, above: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the parts of a JSON object or list, down to 20 levels, each after the one that holds it.

    >>> list(parts({"a": {"b": [7]}}))
    [(('a',), {'b': [7]}), (('a', 'b'), [7]), (('a', 'b', None), 7)]
    """
    # An `Object` has its fields from last to first.
    steps = reversed(found.items()) if isinstance(found, dict) else ((None, part) for part in found)
    for step, part in steps:
        path = (*above, step)
        yield path, part
        if isinstance(part, dict | list) and len(path) < _MOST_LEVELS:
            yield from parts(part, path)


def kinds(values: Iterable[Any]) -> dict[Path, Counter[str]]:
    """Count the kinds of the parts of JSON objects by path, each after those above it; other values are skipped."""
    found: defaultdict[Path, Counter[str]] = defaultdict(Counter)
    for value in values:
        if isinstance(value, Object):
            for path, part in chain([((), value)], parts(value)):
                found[path][_kind(part)] += 1
                for name in part.repeated if isinstance(part, Object) else ():
                    found[(*path, name)][_REPEATED] += 1
    return dict(found)


def _kind(part: Any) -> str:
    if isinstance(part, Digits):
        if part.removeprefix("-").isdigit() and part != "-0":
            return WHOLE if -_LARGEST <= int(part) <= _LARGEST else _LONG
        return FRACTION if math.isfinite(float(part)) else _INFINITE
    if part is None or isinstance(part, bool):
        return _NULL if part is None else TRUTH
    return _OBJECT if isinstance(part, dict) else _LIST if isinstance(part, list) else TEXT


def payload(found: Mapping[Path, Mapping[str, int]]) -> Payload:
    """The fields into which all values decode without loss, by the kinds of their parts.

    Text with other scalars is STRING only where Spark keeps them as they are written, which it does not do with fractions.
    """
    left_out = {_named(path): f"beyond {_MOST_FIELDS:,} fields" for path in islice(found, _MOST_FIELDS + 1, None)}
    below: defaultdict[Path, list[Path]] = defaultdict(list)
    for path in islice(found, 1, _MOST_FIELDS + 1):  # the first is the whole value
        below[path[:-1]].append(path)

    def type_of(path: Path) -> Type | None:
        held = found[path].keys() - {_NULL}
        if held == {_OBJECT} and below[path]:
            typed = ((str(each[-1]), type_of(each)) for each in below[path])
            fields = tuple(Field(name, each) for name, each in typed if each is not None)
            return Type("struct", fields=fields) if fields else None
        if held == {_LIST} and below[path]:
            of = type_of(below[path][0])
            return Type("array", of=of) if of else None
        if scalar := _scalar(held):
            return Type("scalar", scalar)
        empty = {_OBJECT: "objects without fields", _LIST: "empty lists"}
        left_out[_named(path)] = empty.get("".join(held)) or " and ".join(sorted(held)) or "always null"
        return None

    return Payload.of(type_of(()) if found else None, left_out)


def _scalar(held: set[str]) -> str | None:
    """The type that holds scalars of these kinds without loss; None if there is none."""
    takes = {"BOOLEAN": {TRUTH}, "BIGINT": {WHOLE}, "DOUBLE": {WHOLE, FRACTION}, "STRING": {TEXT, TRUTH, WHOLE, _LONG}}
    return next((name for name, kinds_ in takes.items() if held and held <= kinds_), None)


def _named(path: Path) -> str:
    return ".".join("[]" if step is None else step for step in path)


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
    """A schema of the registry, with its decoder for Avro. `why` says why no field is looked at by it; None if they are."""

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
        refused: The ids without a schema there, with what it said.
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


def ask_registry(settings: Registry, sample: Sequence[Sampled]) -> Registered:
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
    return _decoded(Registered(ids, schemas, refused), sample)


def _decoded(found: Registered, sample: Sequence[Sampled]) -> Registered:
    """Find each topic's format and fields, and decode its values."""
    readable = {number: each for number, each in found.schemas.items() if each.why is None}
    counted: dict[str, Counter[Format]] = {topic: Counter() for topic in found.ids}
    for record in sample:
        number = schema_id(record.value or b"")
        if record.topic in found.ids and number in readable:
            counted[record.topic][_FORMATS[readable[number].kind]] += 1
    formats = {topic: each.most_common(1)[0][0] for topic, each in counted.items() if each}
    budget = Budget()
    documents = {
        record[:3]: _document(record.value, formats[record.topic], readable, budget)
        for record in sample
        if record.value is not None and record.topic in formats
    }
    newest = sorted({number for topic, each in formats.items() if each == "avro" for number in found.ids[topic]}, reverse=True)
    decoders = [each.decoder for number in newest if (each := readable.get(number)) and each.decoder]
    payloads: dict[Format, Payload] = {}
    for written in dict.fromkeys(formats.values()):
        # A JSON Schema is not followed: the fields and their types are those of the sample.
        of_sample = (each for place, each in documents.items() if formats[place[0]] == written)
        fields = _common(decoders) if written == "avro" else payload(kinds(of_sample))
        payloads[written] = _without(fields, [*payloads.values()])
    formats = {topic: each for topic, each in formats.items() if payloads[each].schema}
    documents = {place: each for place, each in documents.items() if place[0] in formats}
    return replace(found, formats=formats, payloads=payloads, documents=documents)


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
