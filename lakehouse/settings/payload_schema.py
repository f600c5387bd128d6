"""The schema of a payload: Spark DDL, parsed without Spark, limited to types that every reader of the tables knows."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from lakehouse.settings.base import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

CORRUPT = "_tidemark_corrupt"
"""The field that says whether a value could be decoded; no field of the user's may have this name."""

Kind = Literal["scalar", "array", "map", "struct"]

_SCALARS = {
    "STRING": "STRING",
    "BINARY": "BINARY",
    "BOOLEAN": "BOOLEAN",
    "TINYINT": "TINYINT",
    "BYTE": "TINYINT",
    "SMALLINT": "SMALLINT",
    "SHORT": "SMALLINT",
    "INT": "INT",
    "INTEGER": "INT",
    "BIGINT": "BIGINT",
    "LONG": "BIGINT",
    "FLOAT": "FLOAT",
    "REAL": "FLOAT",
    "DOUBLE": "DOUBLE",
    "DECIMAL": "DECIMAL",
    "DEC": "DECIMAL",
    "NUMERIC": "DECIMAL",
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMP_LTZ": "TIMESTAMP",
    "TIMESTAMP_NTZ": "TIMESTAMP_NTZ",
}
_KNOWN = [*_SCALARS, "ARRAY", "MAP", "STRUCT"]
_REFUSED = {
    "VOID": "Delta cannot store it",
    "VARCHAR": "JSON cannot be decoded as it; write STRING",
    "CHAR": "JSON cannot be decoded as it; write STRING",
    "CHARACTER": "JSON cannot be decoded as it; write STRING",
    "INTERVAL": "Delta cannot store it; write STRING",
    "VARIANT": "it cannot be compared, so no copy could be verified; write STRING or STRUCT<...>",
    "TIME": "Delta cannot store it; write STRING",
    "GEOMETRY": "other engines cannot read it; write STRING or BINARY",
    "GEOGRAPHY": "other engines cannot read it; write STRING or BINARY",
}
_MOST_DIGITS = 38
_MOST_LEVELS = 50
_NOT_IN_NAMES = " ,;{}()\n\t="
_TOKEN = re.compile(
    r"\s*(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<word>\w+)|(?P<text>'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")|(?P<sign>[<>(),:]))",
    re.DOTALL,
)


class SchemaError(ValueError):
    """The text is not a valid payload schema.

    Attributes:
        what: What is wrong.
        expected: What would be right.
        next_step: What to write.
    """

    def __init__(self, what: str, expected: str, next_step: str) -> None:
        self.what, self.expected, self.next_step = what, expected, next_step
        super().__init__(f"{what}; expected {expected}. {next_step}")


@dataclass(frozen=True)
class Type:
    """The type of a field, or of its elements or values.

    Attributes:
        kind: scalar, array, map or struct.
        name: For a scalar: Spark's name, in capitals, without digits: DECIMAL, BIGINT.
        digits: For a DECIMAL: its precision and scale.
        of: For an array or map: the type of its elements or values; the keys of a map are strings.
        fields: For a struct: its fields.
    """

    kind: Kind
    name: str = ""
    digits: tuple[int, int] | None = None
    of: Type | None = None
    fields: tuple[Field, ...] = ()

    def sql(self) -> str:
        """Format the type as SQL, all of it nullable: tables hold whatever a producer sent, and NOT NULL would fail the load.

        >>> parse("id STRING NOT NULL, tags ARRAY<LONG>").sql()
        'STRUCT<`id`: STRING, `tags`: ARRAY<BIGINT>>'
        """
        match self.kind:
            case "array":
                return f"ARRAY<{self.of.sql()}>" if self.of else ""
            case "map":
                return f"MAP<STRING, {self.of.sql()}>" if self.of else ""
            case "struct":
                return f"STRUCT<{', '.join(field.sql() for field in self.fields)}>"
            case _:
                return f"{self.name}({self.digits[0]},{self.digits[1]})" if self.digits else self.name

    def has(self, path: str) -> bool:
        """Whether the struct has a field at a dotted path.

        >>> parse("id STRING, at STRUCT<lat: DOUBLE>").has("at.lat"), parse("id STRING").has("id.x")
        (True, False)
        """
        return self.at(path) is not None

    def at(self, path: str) -> Type | None:
        """Return the type of the field at a dotted path, or None if the struct has none there."""
        name, _, rest = path.partition(".")
        found = next((field.type for field in self.fields if field.name == name), None)
        return found.at(rest) if found and rest else found

    def inner(self) -> tuple[Type, ...]:
        """Return the types directly inside this one."""
        return (self.of,) if self.of else tuple(field.type for field in self.fields)


@dataclass(frozen=True)
class Field:
    """A field of a struct.

    Attributes:
        name: Its name.
        type: Its type.
        is_required: Whether the schema says NOT NULL: a value that lacks the field cannot be decoded.
        comment: Its comment, as the SQL literal in the DDL; empty if there is none.
    """

    name: str
    type: Type
    is_required: bool = False
    comment: str = ""

    def sql(self) -> str:
        """Format the field as SQL, nullable."""
        return f"{quoted(self.name)}: {self.type.sql()}" + (f" COMMENT {self.comment}" if self.comment else "")


def quoted(name: str) -> str:
    """Quote a name for SQL.

    >>> quoted("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


def ddl(found: Type) -> str:
    """Fields as `value.schema` has them.

    >>> ddl(parse("id STRING, `odd-one` ARRAY<INT>, `a``b` STRING"))
    'id STRING, `odd-one` ARRAY<INT>, `a``b` STRING'
    """
    return ", ".join(
        f"{each.name if _PLAIN.fullmatch(each.name) else quoted(each.name)} {each.type.sql()}" for each in found.fields
    )


def odd_names(struct: Type) -> Iterator[str]:
    """Yield the names of fields that no Avro schema can have.

    >>> list(odd_names(parse("a INT, `b-c` ARRAY<STRUCT<`d.e`: INT>>")))
    ['b-c', 'd.e']
    """
    for each in struct.fields:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", each.name):
            yield each.name
    for inner in struct.inner():
        yield from odd_names(inner)


def storable(found: Type, path: str = "") -> tuple[Type | None, list[str]]:
    """A type without the fields that no table can hold, and the paths of these: odd names, and names that differ in case only.

    Returns:
        The type, None if nothing of it is left; and the paths.

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
    """Parse DDL into a struct of its fields.

    Args:
        ddl: Names with types, separated by commas, as in CREATE TABLE.

    Raises:
        SchemaError: The DDL is not a list of fields; a type is unknown, or one that JSON cannot be decoded as, Delta cannot
            store or another engine cannot read; a name is repeated, or one that Delta does not accept.

    >>> [(field.name, field.type.name) for field in parse("id STRING, n: decimal(10, 2) NOT NULL").fields]
    [('id', 'STRING'), ('n', 'DECIMAL')]
    """
    return _Reader(ddl).whole()


def of(ddl: str | None) -> Type:
    """The type of a payload: the struct of its fields, or text where there is no DDL."""
    return parse(ddl) if ddl else Type("scalar", "STRING")


def union(top: Type | None, own: Sequence[tuple[str, Type]] = ()) -> Type | None:
    """The type that holds the payloads of all topics: the fields of the topics that are not named, then the others, by name.

    So the place of a field depends neither on the order of the topics nor on which of them come and go.

    Args:
        top: The type that `value` says; None for none.
        own: The types of single topics, each with where it is written.

    Returns:
        The type; None if there are none.

    Raises:
        SchemaError: Two of them have a field of the same name and another type, or one is text and the other has fields.

    >>> union(parse("id STRING"), [("topics.t.value", parse("n INT, a DATE, id STRING NOT NULL"))]).sql()
    'STRUCT<`id`: STRING, `a`: DATE, `n`: INT>'
    """
    parts = [*([("value", top)] if top else []), *own]
    if not parts or not own:
        return top
    first_place, first = parts[0]
    known: dict[str, tuple[str, Field]] = {}
    for place, each in parts:
        if each.kind != first.kind:
            text, fields = (place, first_place) if each.kind == "scalar" else (first_place, place)
            raise SchemaError(
                f"{text} decodes into text, and {fields} into fields, and both are the column payload",
                "text in all topics, or fields in all topics",
                f"Write {text} with a format and a schema, or make a pipeline of its own for those topics.",
            )
        for field in each.fields:
            other_place, other = known.setdefault(field.name.lower(), (place, field))
            if other.name != field.name or _bare(other.type) != _bare(field.type):
                raise SchemaError(
                    f"the payload's field {field.name} is {field.type.sql()} in {place}, and {other.name} is "
                    f"{other.type.sql()} in {other_place}",
                    "one type for a name, in all topics",
                    "Give one of the two another name, or the same type; or make a pipeline of its own for that topic.",
                )
    leading = top.fields if top else ()
    added = [field for name, (_, field) in sorted(known.items()) if name not in {each.name.lower() for each in leading}]
    return Type(first.kind, first.name, fields=(*leading, *added))


def _bare(each: Type) -> Type:
    """A type without what tables do not keep: which fields are required, and comments."""
    fields = tuple(Field(field.name, _bare(field.type)) for field in each.fields)
    return Type(each.kind, each.name, each.digits, _bare(each.of) if each.of else None, fields)


class _Reader:
    """A recursive-descent parser: one method for each rule of the grammar."""

    def __init__(self, ddl: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        at, end = 0, len(ddl.rstrip())
        while at < end:
            found = _TOKEN.match(ddl, at)
            if found is None:
                raise _no_list()
            self._tokens.append((str(found.lastgroup), found[str(found.lastgroup)]))
            at = found.end()
        self._next = 0

    def whole(self) -> Type:
        struct = Type("struct", fields=self._fields(1))
        if self._next < len(self._tokens):
            raise _no_list()
        return struct

    def _fields(self, level: int) -> tuple[Field, ...]:
        fields = [self._field(level)]
        while self._takes(","):
            fields.append(self._field(level))
        seen: set[str] = set()
        for field in fields:
            if field.name.lower() in seen:
                raise SchemaError(
                    f"the field {field.name} stands twice",
                    "each name once, whatever its case",
                    "Rename one of the two: Delta cannot store both.",
                )
            seen.add(field.name.lower())
        return tuple(fields)

    def _field(self, level: int) -> Field:
        kind, text = self._take("quoted", "word")
        name = text[1:-1].replace("``", "`") if kind == "quoted" else text
        if not _is_stored(name):
            raise SchemaError(
                f"{name!r} cannot be the name of a field",
                f"a name without blanks and without any of {_NOT_IN_NAMES.strip()}, and not {CORRUPT}",
                "Delta stores no such name: keep the value as text, or have the producer rename the field.",
            )
        self._takes(":")
        found = self._type(level)
        is_required = self._takes_word("NOT") and self._wants_word("NULL")
        comment = self._take("text")[1] if self._takes_word("COMMENT") else ""
        return Field(name, found, is_required, comment)

    def _type(self, level: int) -> Type:
        if level > _MOST_LEVELS:
            raise SchemaError(
                "the types are nested too deep", f"at most {_MOST_LEVELS} levels", "Keep the inner part as STRING."
            )
        _, written = self._take("word")
        name = written.upper()
        if name in ("ARRAY", "MAP", "STRUCT"):
            return self._nested(name, level)
        if name not in _SCALARS:
            raise _no_type(written)
        scalar = _SCALARS[name]
        return Type("scalar", scalar, self._digits() if scalar == "DECIMAL" else None)

    def _nested(self, name: str, level: int) -> Type:
        self._wants("<")
        if name == "STRUCT":
            found = Type("struct", fields=self._fields(level + 1))
        elif name == "ARRAY":
            found = Type("array", of=self._type(level + 1))
        else:
            if self._type(level + 1).name != "STRING":
                raise SchemaError("the keys of a MAP are no strings", "MAP<STRING, ...>", "The keys of a JSON object are text.")
            self._wants(",")
            found = Type("map", of=self._type(level + 1))
        self._wants(">")
        return found

    def _digits(self) -> tuple[int, int]:
        if not self._takes("("):
            return 10, 0
        precision = self._number()
        scale = self._number() if self._takes(",") else 0
        self._wants(")")
        if not (1 <= precision <= _MOST_DIGITS and scale <= precision):
            raise SchemaError(
                f"DECIMAL({precision},{scale}) cannot be",
                f"at most {_MOST_DIGITS} digits, and no more behind the point than there are",
                "For example DECIMAL(18,2).",
            )
        return precision, scale

    def _number(self) -> int:
        _, text = self._take("word")
        if not re.fullmatch(r"[0-9]{1,4}", text):
            raise _no_list()
        return int(text)

    def _take(self, *kinds: str) -> tuple[str, str]:
        if self._next >= len(self._tokens) or self._tokens[self._next][0] not in kinds:
            raise _no_list()
        self._next += 1
        return self._tokens[self._next - 1]

    def _takes(self, sign: str) -> bool:
        is_next = self._next < len(self._tokens) and self._tokens[self._next] == ("sign", sign)
        self._next += is_next
        return is_next

    def _takes_word(self, word: str) -> bool:
        kind, text = self._tokens[self._next] if self._next < len(self._tokens) else ("", "")
        is_next = kind == "word" and text.upper() == word
        self._next += is_next
        return is_next

    def _wants(self, sign: str) -> None:
        if not self._takes(sign):
            raise _no_list()

    def _wants_word(self, word: str) -> bool:
        if not self._takes_word(word):
            raise _no_list()
        return True


def _no_list() -> SchemaError:
    return SchemaError(
        "this is no list of fields",
        "Spark DDL: names with types, separated by commas",
        'Write it like "id STRING, amount DOUBLE, tags ARRAY<STRING>"; quote odd names with `backticks`.',
    )


def _no_type(written: str) -> SchemaError:
    expected = f"one of {', '.join(dict.fromkeys([*_SCALARS.values(), 'ARRAY<...>', 'MAP<STRING, ...>', 'STRUCT<...>']))}"
    why = _REFUSED.get(written.upper())
    if why:
        return SchemaError(f"{written} cannot be the type of a payload's field", expected, f"{why[0].upper()}{why[1:]}.")
    near = nearest(written, _KNOWN)
    return SchemaError(f"{written} is no type", expected, f"Did you mean {near}?" if near else "Correct the type.")
