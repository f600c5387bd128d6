"""Which arguments of expectations fit which types of columns, and columns of types that Great Expectations compares exactly.

Some of its Spark metrics find `payload.id` inside the struct, others do not. Some refuse a SMALLINT, and all read the FLOAT
0.1 as 0.10000000149. Some compare in Python: a Decimal with a float, and a time in the driver's zone with one in UTC.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import functions as F
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from expectations.checks import Check

Kind = Literal["number", "moment", "text", "boolean", "binary", "nested"]

_TYPES: dict[str, Kind] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"), "number"),
    **dict.fromkeys(("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"), "moment"),
    "STRING": "text",
    "BOOLEAN": "boolean",
    "BINARY": "binary",
}
_BOUNDED = {f"expect_column_{what}_to_be_between" for what in ("values", "min", "max")}
_OF_NUMBERS = {
    *(f"expect_column_{what}_to_be_between" for what in ("mean", "median", "stdev", "sum", "quantile_values")),
    *("expect_column_value_z_scores_to_be_less_than", "expect_column_values_to_not_be_outliers"),
    "expect_multicolumn_sum_to_equal",
}
_OF_SETS = {
    *("expect_column_values_to_be_in_set", "expect_column_values_to_not_be_in_set"),
    *(f"expect_column_distinct_values_to_{what}_set" for what in ("be_in", "contain", "equal")),
    "expect_column_most_common_value_to_be_in_set",
}
_OF_ONE_KIND = {
    *("expect_column_pair_values_to_be_equal", "expect_column_pair_values_a_to_be_greater_than_b"),
    *("expect_multicolumn_values_to_be_equal", "expect_select_column_values_to_be_unique_within_record"),
}
_KINDS: dict[str, tuple[Kind, ...]] = {
    **dict.fromkeys(_BOUNDED, ("number", "moment")),
    **dict.fromkeys(_OF_NUMBERS, ("number",)),
    **dict.fromkeys(_OF_SETS, ("number", "moment", "text", "boolean")),
    "expect_column_values_to_match_strftime_format": ("text",),
    "expect_column_values_to_be_json_parseable": ("text", "binary"),
    "expect_column_values_to_match_json_schema": ("text", "binary"),
}
"""The kinds of columns that an expectation can be evaluated on, if not all."""
_OF_TYPES = {f"expect_column_{what}" for what in ("values_to_be_of_type", "values_to_be_in_type_list", "type_to_be")}
"""Expectations on the type of a column."""
_COMPARED_IN_PYTHON = {
    *("expect_column_min_to_be_between", "expect_column_max_to_be_between"),
    "expect_column_most_common_value_to_be_in_set",
}
"""Expectations that compare values of the column in Python, after Spark has found them."""
_BOUNDS = ("min_value", "max_value")
_COLUMNS = ("column", "column_A", "column_B", "column_list", "column_set")
_WORDS: dict[Kind, str] = {
    "number": "numbers",
    "moment": "dates or times in ISO 8601",
    "text": "texts",
    "boolean": "true or false",
    "binary": "bytes",
}

_PYTHON_TYPES: dict[Kind, tuple[type, ...]] = {"number": (int, float), "moment": (date,), "text": (str,), "boolean": (bool,)}

_CASTS = {"tinyint": ("int",), "smallint": ("int",), "float": ("string", "double")}
"""Casts by type, applied in order. A FLOAT becomes the DOUBLE with the same digits, as in the config."""
_CASTS_FOR_PYTHON = {"decimal": ("double",), **dict.fromkeys(("date", "timestamp"), ("timestamp_ntz",))}


def kind_of(sql_type: str) -> Kind:
    """Return the kind of values of a SQL type."""
    return _TYPES.get(sql_type.partition("(")[0].upper(), "nested")


def unlike(expectation: str, arguments: Mapping[str, Any], kinds: Mapping[str, Kind]) -> tuple[str, str] | None:
    """Return an argument that does not fit the kind of its column, and the expected kind of argument; None if all fit.

    >>> unlike("expect_column_mean_to_be_between", {"column": "id", "min_value": 1}, {"id": "text"})
    ('column', 'numbers')
    >>> unlike("expect_column_values_to_be_between", {"column": "at", "min_value": 1}, {"at": "moment"})
    ('min_value', 'dates or times in ISO 8601')
    >>> unlike("expect_column_max_to_be_between", {"column": "n", "max_value": 2**53 + 1}, {"n": "number"})
    ('max_value', 'a number that a DOUBLE can hold')
    """
    names = [name for name in (*_BOUNDS, *_COLUMNS) if arguments.get(name) is not None]
    allowed = _KINDS.get(expectation)
    if allowed is not None and not set(kinds.values()).issubset(allowed):
        name = next(name for name in names if name in _COLUMNS or expectation in _BOUNDED)
        return name, " or ".join(_WORDS[kind] for kind in allowed)
    if expectation in _OF_ONE_KIND and len(set(kinds.values())) > 1:
        return next(name for name in names if name in _COLUMNS), "columns of one kind"
    kind: Kind = "number" if expectation in _OF_NUMBERS else kinds.get(str(arguments.get("column")), "nested")
    for name in names:
        if name in _BOUNDS and expectation in _BOUNDED | _OF_NUMBERS:
            if not _is_a(arguments[name], kind):
                return name, _WORDS[kind]
            if kind == "number" and _is_rounded(arguments[name]):
                return name, "a number that a DOUBLE can hold"
    given = arguments.get("value_set")
    if expectation in _OF_SETS and isinstance(given, (list, tuple)) and not all(_is_a(value, kind) for value in given):
        return "value_set", _WORDS[kind]
    return None


def _comparable(expectation: str, arguments: Mapping[str, Any], kind: Kind) -> Mapping[str, Any]:
    """Convert bounds and values to types that Great Expectations compares with a kind of column: numbers, times in UTC.

    >>> _comparable("expect_column_values_to_be_between", {"max_value": "2026-03-01T01:00:00+01:00"}, "moment")
    {'max_value': '2026-03-01T00:00:00+00:00'}
    """

    def read(value: Any) -> Any:
        if kind not in ("number", "moment") or not _is_a(value, kind):
            return value
        if kind == "number":
            return _number(value)
        if expectation not in _COMPARED_IN_PYTHON:
            return _utc(value).replace(tzinfo=UTC).isoformat()
        return _utc(value).isoformat() if expectation in _BOUNDED else _utc(value)

    changed = dict(arguments)
    if expectation in _BOUNDED:
        changed |= {name: read(arguments[name]) for name in _BOUNDS if arguments.get(name) is not None}
    if expectation in _OF_SETS and isinstance(arguments.get("value_set"), (list, tuple)):
        changed["value_set"] = [read(value) for value in arguments["value_set"]]
    return changed


def _is_a(value: Any, kind: Kind) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if isinstance(value, str) and kind in ("number", "moment"):
        try:
            return (_number(value) if kind == "number" else _utc(value)) is not None
        except (ValueError, OverflowError):
            return False
    return isinstance(value, _PYTHON_TYPES.get(kind, ()))


def _is_rounded(bound: str | float) -> bool:
    """Whether a bound changes when Great Expectations converts it to a float."""
    number = _number(bound)
    try:
        return isinstance(number, int) and float(number) != number
    except OverflowError:
        return True


def _number(value: str | float) -> float:
    try:
        return int(value) if isinstance(value, str) else value
    except ValueError:
        return float(value)


def _utc(value: str | date) -> datetime:
    """Return the time in UTC, without a zone; midnight for a date."""
    found = datetime.fromisoformat(value if isinstance(value, str) else value.isoformat())
    return found if found.tzinfo is None else found.astimezone(UTC).replace(tzinfo=None)


def flatten(records: DataFrame, checks: Iterable[Check]) -> tuple[DataFrame, list[Check]]:
    """Add a flat column for each nested or converted one that a check names, and rename it in the check.

    The columns are named such as `payload__id` or `as_double__payload__id`. A path that does not exist is kept, so that the
    check reports it.
    """
    columns: dict[str, Column] = {}
    flat = [_flattened(check, records.schema, columns) for check in checks]
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
            arguments = _comparable(check.type, arguments, kind_of(found.simpleString()))
    return replace(check, arguments=_renamed(arguments, names))


def _casts(expectation: str, found: DataType) -> tuple[str, ...]:
    sql_type = found.simpleString().partition("(")[0]
    casts = {**_CASTS, **_CASTS_FOR_PYTHON} if expectation in _COMPARED_IN_PYTHON else _CASTS
    return () if expectation in _OF_TYPES else casts.get(sql_type, ())


def named(arguments: Mapping[str, Any]) -> list[str]:
    """Return the columns that an expectation's arguments name, nested ones as paths.

    >>> named({"column_A": "payload.low", "column_list": ["key", "offset"], "min_value": 0})
    ['payload.low', 'key', 'offset']
    """
    given = [arguments.get(name) for name in _COLUMNS]
    paths = [path for each in given for path in (each if isinstance(each, (list, tuple)) else [each])]
    return [path for path in paths if isinstance(path, str)]


def _renamed(arguments: Mapping[str, Any], flat: Mapping[str, str]) -> dict[str, Any]:
    def rename(given: Any) -> Any:
        if isinstance(given, (list, tuple)):
            return [rename(part) for part in given]
        return flat.get(given, given) if isinstance(given, str) else given

    return {name: rename(given) if name in _COLUMNS else given for name, given in arguments.items()}


def _type_at(schema: StructType, path: str) -> DataType | None:
    found: DataType = schema
    for name in path.split("."):
        if not isinstance(found, StructType) or name not in found.fieldNames():
            return None
        found = found[name].dataType
    return found
