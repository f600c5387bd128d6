"""What the JSON values of a sample are made of, and the fields of a payload that holds all of them. Pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from lakehouse.escape import printable, shortened
from lakehouse.extract.on_driver import Digits, Object
from lakehouse.settings import payload_schema
from lakehouse.settings.payload_schema import Field, Type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_MOST_LEVELS = 20
MOST_FIELDS = 1_000
_MOST_LISTED = 5
_LARGEST = 2**63 - 1
ODD = "no name of a column, or one that differs from another in its case only"

TEXT, TRUTH, WHOLE, FRACTION = "text", "true and false", "whole numbers", "fractions"
OBJECT, LIST, NULL = "objects", "lists", "null"
_LONG, _INFINITE, _REPEATED = "whole numbers beyond BIGINT", "numbers beyond DOUBLE", "a key that an object has twice"
SCALARS = (TEXT, TRUTH, WHOLE, FRACTION, NULL, _LONG, _INFINITE)

Path = tuple[str | None, ...]
"""The keys that lead to a part of a document; None for an element of a list."""


class Payload(NamedTuple):
    """The fields that values have in common.

    Attributes:
        schema: The fields as `value.schema` has them.
        left_out: What is not among them, with the reason.
    """

    schema: str
    left_out: Mapping[str, str]

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
    """Count what the parts of JSON objects are; other values are skipped.

    Returns:
        For each path, how many values are of each kind. A path comes after those above it.
    """
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
        return NULL if part is None else TRUTH
    return OBJECT if isinstance(part, dict) else LIST if isinstance(part, list) else TEXT


def payload(found: Mapping[Path, Mapping[str, int]]) -> Payload:
    """The fields into which all values decode without loss, by what the paths hold.

    Text with other scalars is STRING only where Spark keeps them as they are written, which it does not do with fractions.

    >>> from lakehouse.extract.on_driver import Record
    >>> texts = b'{"a": 1, "b": "x", "c": [{"d": 1.5}]}', b'{"a": null, "b": 7, "e": {}}'
    >>> payload(kinds(Record(each).json for each in texts))
    Payload(schema='a BIGINT, b STRING, c ARRAY<STRUCT<`d`: DOUBLE>>', left_out={'e': 'objects without fields'})
    """
    left_out = {_named(path): f"beyond {MOST_FIELDS:,} fields" for path in islice(found, MOST_FIELDS + 1, None)}
    below: defaultdict[Path, list[Path]] = defaultdict(list)
    for path in islice(found, 1, MOST_FIELDS + 1):  # the first is the whole value
        below[path[:-1]].append(path)

    def type_of(path: Path) -> Type | None:
        held, why = found[path].keys() - {NULL}, ""
        if held == {OBJECT}:
            typed = ((str(each[-1]), type_of(each)) for each in below[path])
            if fields := tuple(Field(name, each) for name, each in typed if each is not None):
                return Type("struct", fields=fields)
            why = "" if below[path] else "objects without fields"
        elif held == {LIST}:
            if of := type_of(below[path][0]) if below[path] else None:
                return Type("array", of=of)
            why = "" if below[path] else "empty lists"
        elif scalar := _scalar(held):
            return Type("scalar", scalar)
        else:
            why = " and ".join(sorted(held)) or "always null"
        if why:
            left_out[_named(path)] = why
        return None

    top = type_of(()) if found else None
    stored, odd = payload_schema.storable(top) if top else (None, [])
    return Payload(payload_schema.ddl(stored) if stored else "", {**dict.fromkeys(odd, ODD), **left_out})


def _scalar(held: set[str]) -> str | None:
    """The type that holds scalars of these kinds without loss; None if there is none."""
    if held == {TRUTH}:
        return "BOOLEAN"
    if held == {WHOLE}:
        return "BIGINT"
    if held and held <= {WHOLE, FRACTION}:
        return "DOUBLE"
    return "STRING" if held and held <= {TEXT, TRUTH, WHOLE, _LONG} else None


def _named(path: Path) -> str:
    return ".".join("[]" if step is None else step for step in path)
