"""The schema of a payload: Spark DDL, parsed without Spark and limited to types that every reader of the tables knows.

sqlglot is no alternative: it reads `a: INT` as a column without a type, accepts types that Spark lacks, and changes comments.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as attribute
from typing import Literal

from lakehouse.settings.base import SettingError, nearest

CORRUPT = "_tidemark_corrupt"
"""The field that says whether a value could be decoded; users' fields cannot have this name."""

Kind = Literal["scalar", "array", "map", "struct"]
_SYNONYMS = (
    *(("STRING",), ("BINARY",), ("BOOLEAN",), ("TINYINT", "BYTE"), ("SMALLINT", "SHORT"), ("INT", "INTEGER")),
    *(("BIGINT", "LONG"), ("FLOAT", "REAL"), ("DOUBLE",), ("DECIMAL", "DEC", "NUMERIC"), ("DATE",)),
    *(("TIMESTAMP", "TIMESTAMP_LTZ"), ("TIMESTAMP_NTZ",)),
)
_SCALARS = {written: names[0] for names in _SYNONYMS for written in names}
_NESTED: dict[str, Kind] = {"ARRAY": "array", "MAP": "map", "STRUCT": "struct"}
_REFUSED = {
    **dict.fromkeys(("VARCHAR", "CHAR", "CHARACTER"), "JSON cannot be decoded as it; write STRING"),
    **dict.fromkeys(("INTERVAL", "TIME"), "Delta cannot store it; write STRING"),
    **dict.fromkeys(("GEOMETRY", "GEOGRAPHY"), "Other engines cannot read it; write STRING or BINARY"),
    "VOID": "Delta cannot store it",
    "VARIANT": "It cannot be compared, so copies could not be verified; write STRING or STRUCT<...>",
}
MOST_DIGITS = 38
_MOST_LEVELS = 50
_NOT_IN_NAMES = " ,;{}()\n\t="
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TEXT = r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\""


@dataclass(frozen=True)
class Type:
    """The type of a field, or of its elements or values."""

    kind: Kind
    name: str = ""  # of a scalar, Spark's in capitals
    digits: tuple[int, int] | None = None  # precision and scale of a DECIMAL
    of: "Type | None" = None  # the elements of an array, or the values of a map, whose keys are strings
    fields: "tuple[Field, ...]" = ()

    def sql(self) -> str:
        """Format the type as SQL. All is nullable: with NOT NULL, a value that a producer sent could fail a load."""
        if self.kind == "struct":
            return f"STRUCT<{', '.join(field.sql() for field in self.fields)}>"
        if self.of:
            return f"ARRAY<{self.of.sql()}>" if self.kind == "array" else f"MAP<STRING, {self.of.sql()}>"
        return f"{self.name}({self.digits[0]},{self.digits[1]})" if self.digits else self.name

    def at(self, path: str) -> "Type | None":
        """Return the type of the field at a dotted path, or None if there is no such field."""
        name, _, rest = path.partition(".")
        found = next((field.type for field in self.fields if field.name == name), None)
        return found.at(rest) if found and rest else found

    def inner(self) -> "tuple[Type, ...]":
        """Return the types directly inside this one."""
        return (self.of,) if self.of else tuple(field.type for field in self.fields)


@dataclass(frozen=True)
class Field:
    """A field of a struct. A value that lacks a required field cannot be decoded. The comment is a SQL literal, or empty.

    Tables keep neither comments nor which fields are required, so fields that differ only in these are equal.
    """

    name: str
    type: Type
    is_required: bool = attribute(default=False, compare=False)
    comment: str = attribute(default="", compare=False)

    def sql(self) -> str:
        """Format the field as SQL, nullable."""
        return f"{quoted(self.name)}: {self.type.sql()}" + (f" COMMENT {self.comment}" if self.comment else "")


def quoted(name: str) -> str:
    """Quote a name for SQL."""
    return "`" + name.replace("`", "``") + "`"


def ddl(found: Type) -> str:
    """Format fields as in `value.schema`.

    >>> ddl(parse("id STRING, `odd-one` ARRAY<INT>, `a``b` STRING"))
    'id STRING, `odd-one` ARRAY<INT>, `a``b` STRING'
    """
    names = [each.name if _PLAIN.fullmatch(each.name) else quoted(each.name) for each in found.fields]
    return ", ".join(f"{name} {each.type.sql()}" for name, each in zip(names, found.fields, strict=True))


def is_avro_name(given: object) -> bool:
    """Whether Avro for Java takes a name: letters of any script in 16 bits, digits and _, no digit first.

    >>> [is_avro_name(each) for each in ("straße", "_2", "2a", "a-b", "a²", "")]
    [True, True, False, False, False, False]
    """
    if not isinstance(given, str) or not given or given[0].isdecimal():
        return False
    return all(each == "_" or (each < "\U00010000" and (each.isalpha() or each.isdecimal())) for each in given)


def odd_names(struct: Type) -> Iterator[str]:
    """Yield the names of fields that no Avro schema can have.

    >>> list(odd_names(parse("a INT, `b-c` ARRAY<STRUCT<`d.e`: INT>>")))
    ['b-c', 'd.e']
    """
    yield from (each.name for each in struct.fields if not is_avro_name(each.name))
    for inner in struct.inner():
        yield from odd_names(inner)


def storable(found: Type, path: str = "") -> tuple[Type | None, list[str]]:
    """Return the type without fields that no table can hold (None if none is left), and the paths of those fields.

    >>> found = Type("scalar", "INT")
    >>> left, odd = storable(Type("struct", fields=tuple(Field(name, found) for name in ("a", "A", "b c", "d"))))
    >>> left and left.sql(), odd
    ('STRUCT<`a`: INT, `d`: INT>', ['A', 'b c'])
    """
    if found.of is not None:
        inner, odd = storable(found.of, path)
        return (replace(found, of=inner) if inner else None), odd
    if found.kind != "struct":
        return found, []
    fields: dict[str, Field] = {}
    odd = []
    for each in found.fields:
        at = f"{path}.{each.name}" if path else each.name
        if not _is_stored(each.name) or not each.name.isprintable() or each.name.lower() in fields:
            odd.append(at)
            continue
        inner, more = storable(each.type, at)
        odd += more
        if inner is not None:
            fields[each.name.lower()] = replace(each, type=inner)
    return (replace(found, fields=tuple(fields.values())) if fields else None), odd


def _is_stored(name: str) -> bool:
    return bool(name) and name.lower() != CORRUPT and not any(character in _NOT_IN_NAMES for character in name)


def parse(ddl: str) -> Type:
    """Parse DDL, as in CREATE TABLE, into a struct; raise a `SettingError` if JSON, Delta or another engine refuses it."""
    parser = _Parser(ddl)
    found = Type("struct", fields=parser.fields(1))
    parser.want(r"\Z")
    return found


def of(ddl: str | None) -> Type:
    """Return the type of a payload: a struct, or text if there is no DDL."""
    return parse(ddl) if ddl else Type("scalar", "STRING")


def union(top: Type | None, own: Sequence[tuple[str, Type]] = ()) -> Type | None:
    """Return the type for the payloads of all topics: the fields of `top`, then those of single topics, sorted by name.

    A new or removed topic moves no field. `own` has each topic's type after its place in the config. Two types of a field, or
    text in one topic and fields in another, raise a `SettingError`.

    >>> union(parse("id STRING"), [("topics.t.value", parse("n INT, a DATE, id STRING NOT NULL"))]).sql()
    'STRUCT<`id`: STRING, `a`: DATE, `n`: INT>'
    """
    parts = [*([("value", top)] if top else []), *own]
    if not own:
        return top
    first_place, first = parts[0]
    known: dict[str, tuple[str, Field]] = {}
    for place, each in parts:
        if each.kind != first.kind:
            text, fields = (place, first_place) if each.kind == "scalar" else (first_place, place)
            what = f"{text} decodes into text, and {fields} into fields, but the column payload has one type"
            next_step = f"Write {text} with a format and a schema, or make a separate pipeline for those topics."
            raise SettingError(what, "text in all topics, or fields in all topics", next_step)
        for field in each.fields:
            other_place, other = known.setdefault(field.name.lower(), (place, field))
            if other != field:
                what = f"the payload's field {field.name} is {field.type.sql()} in {place}"
                what += f", and {other.name} is {other.type.sql()} in {other_place}"
                next_step = "Rename one of them, or give both the same type, or make a separate pipeline for that topic."
                raise SettingError(what, "one type per name, in all topics", next_step)
    leading = top.fields if top else ()
    added = [field for name, (_, field) in sorted(known.items()) if name not in {each.name.lower() for each in leading}]
    return Type(first.kind, first.name, fields=(*leading, *added))


class _Parser:
    """A recursive-descent parser: one method for each rule of the grammar."""

    def __init__(self, ddl: str) -> None:
        self._ddl, self._at = ddl.rstrip(), 0

    def take(self, pattern: str) -> str | None:
        """Consume the next token, or return None if it does not match."""
        found = re.compile(rf"\s*({pattern})", re.DOTALL).match(self._ddl, self._at)
        self._at = found.end() if found else self._at
        return found[1] if found else None

    def want(self, pattern: str) -> str:
        found = self.take(pattern)
        if found is None:
            next_step = 'Write it like "id STRING, amount DOUBLE, tags ARRAY<STRING>"; put odd names in `backticks`.'
            raise SettingError("this is no list of fields", "Spark DDL: names with types, separated by commas", next_step)
        return found

    def fields(self, level: int) -> tuple[Field, ...]:
        found: dict[str, Field] = {}
        is_next = True
        while is_next:
            field = self._field(level)
            if found.setdefault(field.name.lower(), field) is not field:
                what, next_step = f"the field {field.name} is listed twice", "Rename one: Delta cannot store both."
                raise SettingError(what, "each name once, ignoring case", next_step)
            is_next = self.take(",") is not None
        return tuple(found.values())

    def _field(self, level: int) -> Field:
        written = self.want(r"`(?:[^`]|``)+`|\w+")
        name = written[1:-1].replace("``", "`") if written.startswith("`") else written
        if not _is_stored(name):
            expected = f"a name without blanks and without any of {_NOT_IN_NAMES.strip()}, and not {CORRUPT}"
            raise SettingError(f"{name!r} cannot be the name of a field", expected, "Rename it, or keep the value as text.")
        self.take(":")
        found = self._type(level)
        is_required = bool(self.take(r"(?i:NOT)\b") and self.want(r"(?i:NULL)\b"))
        comment = self.want(_TEXT) if self.take(r"(?i:COMMENT)\b") else ""
        return Field(name, found, is_required, comment)

    def _type(self, level: int) -> Type:
        if level > _MOST_LEVELS:
            raise SettingError("the types are nested too deep", f"at most {_MOST_LEVELS} levels", "Keep a part as STRING.")
        written = self.want(r"\w+")
        name = written.upper()
        if name in _NESTED:
            self.want("<")
            if name == "MAP":
                if self._type(level + 1).name != "STRING":
                    raise SettingError("the keys of a MAP are no strings", "MAP<STRING, ...>", "JSON has no other keys.")
                self.want(",")
            fields = self.fields(level + 1) if name == "STRUCT" else ()
            found = Type(_NESTED[name], of=None if fields else self._type(level + 1), fields=fields)
            self.want(">")
            return found
        if name not in _SCALARS:
            why, near = _REFUSED.get(name), nearest(written, [*_SCALARS, *_NESTED])
            what = f"{written} cannot be the type of a payload's field" if why else f"{written} is no type"
            known = dict.fromkeys([*_SCALARS.values(), "ARRAY<...>", "MAP<STRING, ...>", "STRUCT<...>"])
            next_step = f"{why}." if why else f"Did you mean {near}?" if near else "Correct the type."
            raise SettingError(what, f"one of {', '.join(known)}", next_step)
        return Type("scalar", _SCALARS[name], self._digits() if _SCALARS[name] == "DECIMAL" else None)

    def _digits(self) -> tuple[int, int]:
        written = self.take(r"\(\s*[0-9]{1,4}\s*(?:,\s*[0-9]{1,4}\s*)?\)")
        precision, scale, *_ = (*map(int, re.findall("[0-9]+", written or "10")), 0)
        if not (1 <= precision <= MOST_DIGITS and scale <= precision):
            expected = f"at most {MOST_DIGITS} digits, and a scale up to the precision"
            raise SettingError(f"DECIMAL({precision},{scale}) cannot be", expected, "For example DECIMAL(18,2).")
        return precision, scale
