"""Looks into values of nested types, for what is amiss with the scalars, maps and structs in them."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column

    from lakehouse.settings.payload_schema import Type


class Check(NamedTuple):
    """What may be amiss with values of some types.

    Attributes:
        concerns: Whether values of a type may be amiss. Makes no Column: each level of a type would double their number.
        is_amiss: Whether a value is; null counts as no.
    """

    concerns: Callable[[Type], bool]
    is_amiss: Callable[[Column, Type], Column]

    def any_in(self, found: Column, kind: Type) -> Column:
        """Whether a value, or any value nested in it, is amiss; never null."""
        return self._in(found, kind) if self._concerns_any(kind) else F.lit(False)

    def _concerns_any(self, kind: Type) -> bool:
        return self.concerns(kind) or any(self._concerns_any(inner) for inner in kind.inner())

    def _in(self, found: Column, kind: Type) -> Column:
        asked = [self.is_amiss(found, kind)] if self.concerns(kind) else []
        fields = [field for field in kind.fields if self._concerns_any(field.type)]
        asked += [self._in(found.getField(field.name), field.type) for field in fields]
        if kind.of is not None and self._concerns_any(kind.of):
            of, elements = kind.of, F.map_values(found) if kind.kind == "map" else found
            asked.append(F.exists(elements, lambda element: self._in(element, of)))
        return reduce(or_, (F.coalesce(each, F.lit(False)) for each in asked))


def is_far_out(found: Column, kind: Type) -> Column:
    """Whether a value violates the schema, or exceeds what all readers can hold."""
    if kind.kind == "struct":
        lacking = [found.getField(field.name).isNull() for field in kind.fields if field.is_required]
        return found.isNotNull() & reduce(or_, lacking)
    if kind.kind == "map":  # DuckDB cannot read a map with duplicate keys
        keys = F.map_keys(found)
        return (F.size(F.array_distinct(keys)) < F.size(keys)) | F.exists(keys, lambda key: ~F.is_valid_utf8(key))
    if kind.name == "STRING":
        return ~F.is_valid_utf8(found)
    first, last = (F.expr(bound) for bound in _BOUNDS[kind.name])
    return ~found.between(first, last)


_BOUNDS = {
    "DATE": ("DATE'0001-01-01'", "DATE'9999-12-31'"),
    "TIMESTAMP": ("TIMESTAMP'0001-01-01 00:00:00Z'", "TIMESTAMP'9999-12-31 23:59:59.999999Z'"),
    "TIMESTAMP_NTZ": ("TIMESTAMP_NTZ'0001-01-01 00:00:00'", "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'"),
}


def has_bounds(kind: Type) -> bool:
    """Whether `is_far_out` looks at values of a type, strings aside."""
    return kind.kind == "map" or kind.name in _BOUNDS or any(field.is_required for field in kind.fields)
