"""The columns that Great Expectations gets: flat, and of types that it compares exactly.

Some of its Spark metrics find `payload.id` inside the struct, others do not. Some refuse a SMALLINT, and 0.1 as a FLOAT is
0.10000000149 to all of them. Some compare in Python: a Decimal with a float, and a time in the driver's own zone with one in
UTC.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from expectations.checks import Check, Subject
from expectations.gx.arguments import COMPARED_IN_PYTHON, OF_TYPES, comparable, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_ARGUMENTS = ("column", "column_A", "column_B", "column_list", "column_set")
_CASTS = {"tinyint": ("int",), "smallint": ("int",), "float": ("string", "double")}
"""Casts by type, one after another. A FLOAT becomes the DOUBLE of the same digits, which is what the config has."""
_CASTS_FOR_PYTHON = {"decimal": ("double",), **dict.fromkeys(("date", "timestamp"), ("timestamp_ntz",))}


def flatten(records: DataFrame, checks: Sequence[Check]) -> tuple[DataFrame, list[Check]]:
    """Add a flat column for each nested or converted one that a check of records names, and rename it in the check.

    The columns are named such as `payload__id` or `as_double__payload__id`. A path that does not exist is kept, so that the
    check reports it.
    """
    columns: dict[str, Column] = {}
    flat = [_flattened(check, records.schema, columns) if check.subject is Subject.RECORDS else check for check in checks]
    return (records.withColumns(columns) if columns else records), flat


def _flattened(check: Check, schema: StructType, columns: dict[str, Column]) -> Check:
    names: dict[str, str] = {}
    arguments = check.arguments
    for path in named(arguments):
        found = _type_at(schema, path)
        if found is None:
            continue
        casts = _casts(check.type, found)
        if casts or "." in path:
            names[path] = "__".join((*(f"as_{name}" for name in casts[-1:]), *path.split(".")))
            columns[names[path]] = F.col(path)
        for name in casts:
            columns[names[path]] = columns[names[path]].cast(name)
        if path == arguments.get("column"):
            arguments = comparable(check.type, arguments, kind_of(found.simpleString()))
    return replace(check, arguments=_renamed(arguments, names))


def _casts(expectation: str, found: DataType) -> tuple[str, ...]:
    sql_type = found.simpleString().partition("(")[0]
    casts = {**_CASTS, **_CASTS_FOR_PYTHON} if expectation in COMPARED_IN_PYTHON else _CASTS
    return () if expectation in OF_TYPES else casts.get(sql_type, ())


def named(arguments: Mapping[str, Any]) -> list[str]:
    """The columns that an expectation's arguments name, nested ones as paths.

    >>> named({"column_A": "payload.low", "column_list": ["key", "offset"], "min_value": 0})
    ['payload.low', 'key', 'offset']
    """
    given = [arguments.get(name) for name in _ARGUMENTS]
    paths = [path for each in given for path in (each if isinstance(each, (list, tuple)) else [each])]
    return [path for path in paths if isinstance(path, str)]


def _renamed(arguments: Mapping[str, Any], flat: Mapping[str, str]) -> dict[str, Any]:
    def rename(given: Any) -> Any:
        if isinstance(given, (list, tuple)):
            return [rename(part) for part in given]
        return flat.get(given, given) if isinstance(given, str) else given

    return {name: rename(given) if name in _ARGUMENTS else given for name, given in arguments.items()}


def _type_at(schema: StructType, path: str) -> DataType | None:
    found: DataType = schema
    for name in path.split("."):
        if not isinstance(found, StructType) or name not in found.fieldNames():
            return None
        found = found[name].dataType
    return found
