"""Avro schemas: the one that a value was written with, and from it the one that a payload's fields are read by.

Avro's own resolution would read a decimal of another scale, or milliseconds as microseconds, as a wrong number, and no enum
as text. So a value is read as the types that it was written with, if the fields take them without loss, and Spark casts.
Spark gets a writer's schema with full names, and without defaults and all else that does not change the bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from lakehouse.extract.written import KEY
from lakehouse.settings import payload_schema
from lakehouse.settings.base import SettingError, from_config_folder
from lakehouse.settings.payload_schema import CORRUPT, Field, Type, is_avro_name

if TYPE_CHECKING:
    from pydantic import ValidationInfo

    from lakehouse.settings.pipeline import ValueFormat

_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_NOT_ASCII = re.compile(r"[^A-Za-z0-9_.]")
_NO_NAMESPACE = "tidemark.none."
_KEPT = ("written_name", "is_copy")
"""Keys of a record that this module adds: the name if it is not ASCII, and whether it is a copy of the record around it."""
RECORD = "_record"
"""The field of a payload that has the full name of the written record, if that has no such field."""
_MOST_NODES, _MOST_LEVELS = 10_000, 50
"""Limits on a schema, its types with names written out: some lines of Avro can stand for millions of fields."""
_MOST_LEVELS_REFERRED = 200
"""The same of levels, with every name written out."""
_LAST_COPY = 40
"""The level below which a record within itself is not read: Java would read any depth, and overflow its stack."""
_MOST_FIELDS = 1_000
_MOST_DIGITS = 38
_MOST_CHARACTERS = 1_000_000
_MOST_BYTES = 16_777_216
"""Limit on a fixed type: Avro allocates it before it checks whether the value has as many bytes."""
_TOO_DEEP = {"type": "fixed", "name": "tidemark.too_deep", "size": _MOST_BYTES}
"""In place of a record that is nested too deep: no value has so many bytes."""

# By type of a field: the types that it takes without loss. Logical types are listed in place of the plain ones.
_TAKES = {
    "KEY": ("int", "long", "enum", "string"),
    "STRING": ("enum", "string"),
    "BINARY": ("fixed", "bytes"),
    "BOOLEAN": ("boolean",),
    "INT": ("int",),
    "BIGINT": ("int", "long"),
    "FLOAT": ("float",),
    "DOUBLE": ("int", "float", "double"),
    "DATE": ("date",),
    "TIMESTAMP": ("timestamp-text", "timestamp-millis", "timestamp-micros"),
    "TIMESTAMP_NTZ": ("local-timestamp-millis", "local-timestamp-micros"),
}
"""The last of each is the type of a field that was not written."""
_COLUMNS = {kind: name for name, kinds in reversed(_TAKES.items()) if name != "KEY" for kind in kinds}
"""By type: the narrowest type of a field that takes it."""
_LOGICAL = {
    "date": "int",
    **dict.fromkeys((*_TAKES["TIMESTAMP"], *_TAKES["TIMESTAMP_NTZ"]), "long"),
    "timestamp-text": "string",
}
_CONNECT = {
    **{f"{package}.Date": "date" for package in ("io.debezium.time", "org.apache.kafka.connect.data")},
    **{f"{package}.Timestamp": "timestamp-millis" for package in ("io.debezium.time", "org.apache.kafka.connect.data")},
    "io.debezium.time.MicroTimestamp": "timestamp-micros",
    "io.debezium.time.ZonedTimestamp": "timestamp-text",
}
"""Kafka Connect's own logical types, by `connect.name`."""
_WHOLE = {"int": 10, "long": 19}
"""Whole numbers and their digits."""
_MOST_PRECISION = 2**31 - 1


class AvroSchemaError(ValueError):
    """The text is no Avro schema that values are decoded with, or lacks the fields' types. Says which, and where."""


def content(given: str, info: ValidationInfo) -> str:
    """See `lakehouse.settings.formats.Schemas`."""
    if given.lstrip().startswith(("{", "[")):
        return given
    try:
        with Path(from_config_folder(given, info)).open(encoding="utf-8") as opened:
            text = opened.read(_MOST_CHARACTERS + 1)
    except (OSError, ValueError) as error:
        what = f"its file cannot be read: {error.strerror if isinstance(error, OSError) else 'no UTF-8'}"
        next_step = "Name it relative to the config's folder, like incident.avsc."
        raise SettingError(what, "the file of an Avro schema, or the schema itself", next_step) from None
    if len(text) > _MOST_CHARACTERS:
        raise SettingError("its file is too long", f"at most {_MOST_CHARACTERS:,} characters", "Name a schema's.")
    return text


def validate(settings: ValueFormat) -> str | None:
    """See `lakehouse.settings.formats.Schemas`."""
    return misfit(settings.avro_schema, payload_schema.of(settings.schema_)) if settings.avro_schema else None


def pinned(settings: ValueFormat) -> str:
    """See `lakehouse.settings.formats.Schemas`."""
    return writer(settings.avro_schema).text if settings.avro_schema else ""


class _Known(NamedTuple):
    schema: Any
    nodes: int = 1
    levels: int = 1
    has_bytes: bool = True


@dataclass(frozen=True)
class Writer:
    """A schema that values were written with, as normalized JSON, and its named types by full name."""

    schema: Any
    named: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The schema for Spark."""
        return json.dumps(self.schema)


def writer(text: str) -> Writer:
    """Read a schema; raise an `AvroSchemaError` if it is none, too large, or has arrays of items without bytes.

    A record within itself becomes copies, so that the schema has an end. Names of types become ASCII.

    >>> writer('{"type": "record", "name": "R", "namespace": "n", "fields": [{"name": "a", "type": "int", "default": 1}]}').text
    '{"type": "record", "name": "n.R", "fields": [{"name": "a", "type": "int"}]}'
    """
    return _Reading().last_of([text])


def joined(text: str, others: Sequence[str]) -> str:
    """Inline types of `others`, each listed after those it refers to, where the schema first names them. Raises as `writer`."""
    if not others:
        return text
    found = _Reading(is_joining=True).last_of([*others, text])
    return json.dumps(_joined(found.schema, found.named, set()))


def _joined(given: Any, named: Mapping[str, Any], defined: set[str]) -> Any:
    if isinstance(given, list):
        return [_joined(each, named, defined) for each in given]
    name = given if isinstance(given, str) else given.get("name")
    if name in named:
        # A name without a namespace would get the namespace of the enclosing record.
        full = name if "." in name else _NO_NAMESPACE + name
        if name in defined:
            return full
        defined.add(name)
        given = {**named[name], "name": full}
    if isinstance(given, str):
        return given
    found = {key: _joined(each, named, defined) if key in ("items", "values") else each for key, each in given.items()}
    if given["type"] == "record":
        found["fields"] = [{**each, "type": _joined(each["type"], named, defined)} for each in given["fields"]]
    return found


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise AvroSchemaError("it is no JSON") from error


@dataclass
class _Reading:
    named: dict[str, _Known | None] = field(default_factory=dict)
    """None for a record whose fields are being read."""
    definitions: dict[str, Any] = field(default_factory=dict)
    depth: int = 0
    """How often the record that is being read is within itself: at each depth it is another type."""
    is_joining: bool = False

    def last_of(self, texts: Sequence[str]) -> Writer:
        *_, found = [self.of(_json(each), "", 0) for each in texts]
        return Writer(found.schema, {name: known.schema for name, known in self.named.items() if known})

    def of(self, given: Any, namespace: str, level: int) -> _Known:
        if level > _MOST_LEVELS:
            raise _too_large()
        if isinstance(given, list):
            return self._union(given, namespace, level)
        if isinstance(given, str):
            is_plain = given in _PRIMITIVES
            return _Known(given, has_bytes=given != "null") if is_plain else self._reference(given, namespace, level)
        kind = given.get("type") if isinstance(given, dict) else None
        match kind:
            case "record" | "error" | "enum" | "fixed":
                return self._definition(given, namespace, level)
            case "array" | "map":
                return self._collection(given, namespace, level)
            case str() | list() | dict():
                return self._logical(given, self.of(kind, namespace, level + 1))
            case _:
                raise AvroSchemaError("it has something that is no type")

    def _reference(self, name: str, namespace: str, level: int) -> _Known:
        full = _full_name(name, namespace)
        if self.is_joining and full not in self.definitions and is_avro_name(name):
            full = name  # as Avro for Java has it: in the namespace, or else in none
        if full not in self.definitions:
            raise AvroSchemaError(f"it has no type {full}")
        return self._named(full, level)

    def _named(self, full: str, level: int) -> _Known:
        """Return a type that was read at this depth or above it; else read it, one deeper if it is within itself."""
        here = _at_depth(full, self.depth)
        is_within = here in self.named and self.named[here] is None
        depth = self.depth + is_within
        for name in (_at_depth(full, each) for each in range(depth + 1)):
            if known := self.named.get(name):
                return known._replace(schema=name)
        if is_within and level >= _LAST_COPY:
            return self._definition(_TOO_DEEP, "", level)
        before, self.depth = self.depth, depth
        found = self._read(full, self.definitions[full], level)
        self.depth = before
        return found

    def _union(self, given: list[Any], namespace: str, level: int) -> _Known:
        found = [self.of(each, namespace, level + 1) for each in given]
        if not found or any(isinstance(each.schema, list) for each in found):
            raise AvroSchemaError("it has a union of nothing, or of unions")
        return _sum([each.schema for each in found], [_behind_bytes(each) for each in found])

    def _collection(self, given: dict[str, Any], namespace: str, level: int) -> _Known:
        kind, of = given["type"], "items" if given["type"] == "array" else "values"
        found = self.of(given.get(of), namespace, level + 1)
        if kind == "array" and not found.has_bytes:
            raise AvroSchemaError("it has arrays of items without bytes")
        return _sum({"type": kind, of: found.schema}, [_behind_bytes(found)])

    def _definition(self, given: dict[str, Any], namespace: str, level: int) -> _Known:
        full = _full_name(given.get("name"), given.get("namespace", namespace))
        if self.definitions.setdefault(full, given) is not given or full in _PRIMITIVES:
            raise AvroSchemaError(f"it has two types {full}")
        return self._named(full, level)

    def _read(self, full: str, given: dict[str, Any], level: int) -> _Known:
        match given["type"]:
            case "enum":
                if not _are_names(symbols := given.get("symbols")) or not symbols:
                    raise AvroSchemaError(f"the enum {full} has no list of symbols")
                found = _Known({"type": "enum", "name": full, "symbols": symbols})
            case "fixed":
                if not _is_whole(size := given.get("size"), 0, _MOST_BYTES):
                    raise AvroSchemaError(f"the fixed type {full} has no size from 0 to {_MOST_BYTES:,}")
                found = self._logical(given, _Known({"type": "fixed", "name": full, "size": size}, has_bytes=size > 0))
            case _:
                return self._record(full, given, level)
        self.named[full] = found
        return found

    def _record(self, full: str, given: dict[str, Any], level: int) -> _Known:
        fields: list[Any] = given["fields"] if isinstance(given.get("fields"), list) else [None]
        names = [each.get("name") if isinstance(each, dict) else None for each in fields]
        if not _are_names(names):
            raise AvroSchemaError(f"the record {full} has no list of fields")
        name = _at_depth(full, self.depth)
        self.named[name] = None
        found = [self.of(each.get("type"), full.rpartition(".")[0], level + 1) for each in fields]
        columns = [{"name": each, "type": known.schema} for each, known in zip(names, found, strict=True)]
        written = _written_name(given.get("name"), given.get("namespace", full.rpartition(".")[0]))
        added: dict[str, Any] = {"written_name": written} if written != full else {}
        added |= {"is_copy": True} if self.depth else {}
        added |= {key: given[key] for key in _KEPT if key in given}
        schema = {"type": "record", "name": name, "fields": columns, **added}
        self.named[name] = known = _sum(schema, found, has_bytes=any(each.has_bytes for each in found))
        return known

    @staticmethod
    def _logical(given: dict[str, Any], found: _Known) -> _Known:
        """Keep the logical types that are read here; any other is the plain type, as in Avro."""
        name, plain = given.get("logicalType") or _CONNECT.get(str(given.get("connect.name"))), found.schema
        if isinstance(name, str) and _LOGICAL.get(name) == plain:
            return found._replace(schema={"type": plain, "logicalType": name})
        base = plain if isinstance(plain, dict) else {"type": plain}
        is_bytes = plain == "bytes" or base["type"] == "fixed"
        precision, scale = given.get("precision"), given.get("scale", 0)
        most = _MOST_PRECISION if plain == "bytes" else _MOST_DIGITS
        is_decimal = _is_whole(precision, 1, most) and _is_whole(scale, 0, min(precision, _MOST_DIGITS))
        if name != "decimal" or not is_bytes or not is_decimal:
            return found
        return found._replace(schema={**base, "logicalType": name, "precision": precision, "scale": scale})


def reader(written: Writer, wanted: Type) -> str:
    """Return the schema to read the wanted fields by, and CORRUPT, false; raise an `AvroSchemaError` if they do not fit."""
    _require_record(written)
    found = _Projection(written.named).of(written.schema, wanted, "")
    for each in found["fields"]:
        if each["name"] == RECORD and each["type"] == ["null", "string"] and "default" in each:
            each |= {"type": "string", "default": _name_of(written)}
    found["fields"].append({"name": CORRUPT, "type": "boolean", "default": False})
    return json.dumps(found)


def branches(written: Writer) -> list[tuple[bytes, Writer]]:
    r"""Return the records that a value can be, each with the bytes before it: those of a union, or the schema itself.

    >>> [(first, each.text) for first, each in branches(writer('["null", {"type": "record", "name": "R", "fields": []}]'))]
    [(b'\x02', '{"type": "record", "name": "tidemark.none.R", "fields": []}')]
    """
    if not isinstance(written.schema, list):
        return [(b"", written)]
    named = {**written.named, **{_NO_NAMESPACE + name: each for name, each in written.named.items()}}
    whole = [(nth, _joined(each, written.named, set())) for nth, each in enumerate(written.schema)]
    found = [(_index(nth), Writer(each, named)) for nth, each in whole if _plain(each) == "record"]
    return found or [(b"", written)]


def _index(nth: int) -> bytes:
    number = 2 * nth
    return bytes([number]) if number < 128 else bytes([number % 128 + 128, number // 128])  # noqa: PLR2004 -- of a byte


def _name_of(written: Writer) -> str:
    return str(written.schema.get("written_name") or written.schema["name"].removeprefix(_NO_NAMESPACE))


def _require_record(written: Writer) -> None:
    if _plain(written.schema) != "record":
        raise AvroSchemaError(f"the value is {_type_in_words(written.schema)}, and a record is wanted")


def misfit(written: Writer | str, wanted: Type) -> str | None:
    """Return why values of a schema, or of one record of a union, cannot be read as the wanted fields; None if all can.

    >>> from lakehouse.extract.written import at_path
    >>> misfit('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "double"}]}', at_path("a"))
    'a is double, and a whole number or text is wanted'
    """
    of = ""
    try:
        found = branches(writer(written) if isinstance(written, str) else written)
        for _, each in found:
            of = f"{_name_of(each)}: " if len(found) > 1 else ""
            reader(each, wanted)
    except AvroSchemaError as error:
        return f"{of}{error}"
    return None


def fields(written: Writer) -> tuple[Type, dict[str, str]]:
    """Return the fields that a payload can have without loss, and why others cannot be fields, by path; errors as `reader`.

    Of a union they are the fields that all its records share.

    >>> fields_ = '[{"name": "n", "type": "long"}, {"name": "by", "type": ["int", "string"]}]'
    >>> found, left_out = fields(writer('{"type": "record", "name": "R", "fields": %s}' % fields_))
    >>> found.sql(), left_out
    ('STRUCT<`n`: BIGINT>', {'by': 'a union of several types'})
    """
    left_out: dict[str, str] = {}
    several = []
    for _, each in branches(written):
        _require_record(each)
        columns = _Columns(each.named, left_out)
        several.append(columns.record(each.schema, "").fields)
    shared = tuple(each for each in several[0] if all(each in others for others in several))
    return Type("struct", fields=shared), left_out


@dataclass
class _Columns:
    named: Mapping[str, Any]
    left_out: dict[str, str] = field(default_factory=dict)
    count: int = 0

    def of(self, given: Any, path: str) -> Type | None:
        given = self.named.get(given, given) if isinstance(given, str) else given
        match _plain(given):
            case "union":
                return self._nullable([each for each in given if each != "null"], path)
            case "array" | "map" as kind:
                inner = self.of(given["items" if kind == "array" else "values"], f"{path}[]")
                return Type("array" if kind == "array" else "map", of=inner) if inner else None
            case "record":
                found = Type("struct") if given.get("is_copy") else self.record(given, path)
                self.left_out |= {path: "within itself"} if given.get("is_copy") else {}
                return found if found.fields else None
        name = _logical_or_plain(given)
        if name == "decimal":
            return Type("scalar", "DECIMAL", (min(given["precision"], _MOST_DIGITS), given["scale"]))
        if name == "null":
            self.left_out[path] = "always null"
            return None
        return Type("scalar", _COLUMNS[name])

    def record(self, given: dict[str, Any], path: str) -> Type:
        found = []
        for each in given["fields"]:
            self.count += 1
            if self.count > _MOST_FIELDS:
                raise AvroSchemaError(f"it has more than {_MOST_FIELDS:,} fields")
            kind = self.of(each["type"], f"{path}.{each['name']}".lstrip("."))
            found += [Field(each["name"], kind)] if kind else []
        return Type("struct", fields=tuple(found))

    def _nullable(self, others: list[Any], path: str) -> Type | None:
        if others == ["int", "long"]:
            return Type("scalar", "BIGINT")
        if len(others) > 1:
            self.left_out[path] = "a union of several types"
            return None
        return self.of(others[0] if others else "null", path)


@dataclass
class _Projection:
    named: Mapping[str, Any]
    defined: set[str] = field(default_factory=set)
    records: int = 0

    def of(self, given: Any, wanted: Type, path: str) -> Any:
        given = self.named.get(given, given) if isinstance(given, str) else given
        kind = _plain(given)
        match wanted.kind:
            case _ if kind == "union":
                return self._nullable(given, wanted, path)
            case "struct" if kind == "record":
                return self._record(given, wanted, path)
            case "array" if kind == "array" and wanted.of:
                return {"type": "array", "items": self.of(given["items"], wanted.of, f"{path}[]")}
            case "map" if kind == "map" and wanted.of:
                return {"type": "map", "values": self.of(given["values"], wanted.of, f"{path}{{}}")}
            case "scalar" if _is_taken(given, wanted):
                return self._once(given)
            case "scalar" if kind in (*_WHOLE, "string") and _is_taken(kind, wanted):
                return kind  # the number or text beneath a logical type
        raise AvroSchemaError(f"{path or 'the value'} is {_type_in_words(given)}, and {wanted_in_words(wanted)} is wanted")

    def _nullable(self, given: list[Any], wanted: Type, path: str) -> Any:
        others = [each for each in given if each != "null"]
        if others == ["int", "long"] and wanted.name in ("BIGINT", "KEY"):
            return given  # Spark reads either as a long
        if len(others) != 1:
            raise AvroSchemaError(f"{path or 'the value'} is a union of several types")
        found = self.of(others[0], wanted, path)
        return [("null" if each == "null" else found) for each in given]

    def _record(self, given: dict[str, Any], wanted: Type, path: str) -> dict[str, Any]:
        self.records += 1  # a name of its own: a record may be read in two places, with other fields
        name = f"r{self.records}"
        written = {each["name"]: each["type"] for each in given["fields"]}
        fields: list[dict[str, Any]] = []
        for each in wanted.fields:
            if each.name in written:
                found = self.of(written[each.name], each.type, f"{path}.{each.name}".lstrip("."))
                fields.append({"name": each.name, "type": found})
            else:
                fields.append({"name": each.name, "type": ["null", self._absent(each.type)], "default": None})
        return {"type": "record", "name": name, "namespace": "tidemark.read", "fields": fields}

    def _once(self, given: Any) -> Any:
        if isinstance(given, dict) and given["type"] == "bytes":  # Spark cuts longer numbers off below 19 digits
            return {**given, "precision": _MOST_DIGITS} if "precision" in given else given
        name = given.get("name") if isinstance(given, dict) else None
        if name in self.defined:
            return name
        self.defined |= {name} if name else set()
        return given

    def _absent(self, wanted: Type) -> Any:
        match wanted.kind:
            case "array" if wanted.of:
                return {"type": "array", "items": ["null", self._absent(wanted.of)]}
            case "map" if wanted.of:
                return {"type": "map", "values": ["null", self._absent(wanted.of)]}
            case "struct":
                return self._record({"fields": []}, wanted, "")
        if wanted.digits:
            return {"type": "bytes", "logicalType": "decimal", "precision": wanted.digits[0], "scale": wanted.digits[1]}
        kind = _TAKES.get(wanted.name, ("int",))[-1]
        return {"type": _LOGICAL[kind], "logicalType": kind} if kind in _LOGICAL else kind


def _plain(given: Any) -> str:
    if isinstance(given, list):
        return "union"
    return str(given["type"] if isinstance(given, dict) else given)


def _logical_or_plain(given: Any) -> str:
    return str(given.get("logicalType", given["type"])) if isinstance(given, dict) else _plain(given)


def _is_taken(given: Any, wanted: Type) -> bool:
    kind = _logical_or_plain(given)
    if not wanted.digits:
        return kind in _TAKES.get(wanted.name, ())
    precision, scale = wanted.digits
    if kind == "decimal":
        # Kafka Connect writes 64 if it does not know the precision: the decoder looks at each number.
        is_unknown = given["precision"] > _MOST_DIGITS
        return bool(given["scale"] <= scale and (is_unknown or given["precision"] - given["scale"] <= precision - scale))
    return kind in _WHOLE and _WHOLE[kind] <= precision - scale


def _is_whole(given: object, least: int, most: int) -> TypeGuard[int]:
    return isinstance(given, int) and not isinstance(given, bool) and least <= given <= most


def _behind_bytes(known: _Known) -> _Known:
    """Count a reference in a union, list or map as one type: each time it is read, the value has bytes for it."""
    return known._replace(nodes=1) if isinstance(known.schema, str) else known


def _sum(schema: Any, parts: list[_Known], *, has_bytes: bool = True) -> _Known:
    nodes, levels = 1 + sum(each.nodes for each in parts), 1 + max((each.levels for each in parts), default=0)
    if nodes > _MOST_NODES or levels > _MOST_LEVELS_REFERRED:
        raise _too_large()
    return _Known(schema, nodes, levels, has_bytes)


def _too_large() -> AvroSchemaError:
    return AvroSchemaError(f"it has more than {_MOST_NODES:,} types, or more than {_MOST_LEVELS} levels")


def _full_name(name: object, namespace: object) -> str:
    """Return the name with its namespace, in ASCII: Spark's Avro refuses some names, such as those with hyphens."""
    found = _NOT_ASCII.sub(lambda each: f"_{ord(each[0]):x}_", _written_name(name, namespace))
    if not all(map(is_avro_name, found.split("."))):
        raise AvroSchemaError("it has a type without a name")
    return found


def _at_depth(full: str, depth: int) -> str:
    return f"{full}_within_itself_{depth}" if depth else full


def _written_name(name: object, namespace: object) -> str:
    return f"{namespace}.{name}" if namespace and isinstance(name, str) and "." not in name else str(name or "")


def _are_names(given: object) -> TypeGuard[list[str]]:
    return isinstance(given, list) and all(map(is_avro_name, given)) and len(set(given)) == len(given)


def _type_in_words(given: Any) -> str:
    kind = _logical_or_plain(given)
    return f"decimal({given['precision']},{given['scale']})" if kind == "decimal" else "a union" if kind == "union" else kind


def wanted_in_words(wanted: Type) -> str:
    """Return a wanted type in words."""
    return "a whole number or text" if wanted == KEY else wanted.sql()
