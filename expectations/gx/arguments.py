"""What an expectation's arguments get wrong whatever the records are: a pattern, a condition, a value of another type.

Great Expectations accepts such arguments; Spark then ends in an error, on every load, and Gold stops. Only what is certain is
refused: this is no parser of Spark's SQL, nor of Java's patterns.
"""

from __future__ import annotations

import re
import warnings
from datetime import date
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Kind = Literal["number", "moment", "text"]

_TYPES: dict[str, Kind] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"), "number"),
    **dict.fromkeys(("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"), "moment"),
    "STRING": "text",
}
_BOUNDED = {f"expect_column_{what}_to_be_between" for what in ("values", "min", "max")}
_OF_NUMBERS = {
    *(f"expect_column_{what}_to_be_between" for what in ("mean", "median", "stdev", "sum", "quantile_values")),
    "expect_column_value_z_scores_to_be_less_than",
}
_OF_SETS = {
    *("expect_column_values_to_be_in_set", "expect_column_values_to_not_be_in_set"),
    *(f"expect_column_distinct_values_to_{what}_set" for what in ("be_in", "contain", "equal")),
}
_GX_PARSERS = ("great_expectations", "great_expectations__experimental__")
_GX_COLUMN = re.compile(r"\bcol\(\s*[\"']([^\"']*)[\"']\s*\)")
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_UNREADABLE = re.compile(r"->|`|\bselect\b|\bcase\b", re.IGNORECASE)
_BETWEEN_TERMS = re.compile(r"\b(?:and|or|not)\b|[(),]", re.IGNORECASE)
_COMPARED = re.compile(r"\s*([A-Za-z_][\w.]*)\s*(?:[=<>]|!=|\b(?:is|in|like|ilike|rlike|between)\b)", re.IGNORECASE)
_NO_COLUMNS = {"true", "false", "null", "current_date", "current_timestamp", "current_time", "current_user", "localtimestamp"}
_BROKEN = ("missing )", "unbalanced parenthesis", "unterminated character set")


def kind_of(sql_type: str) -> Kind | None:
    """What the values of a type are compared as; None if that is something else.

    >>> kind_of("decimal(10,2)"), kind_of("string"), kind_of("binary")
    ('number', 'text', None)
    """
    return _TYPES.get(sql_type.partition("(")[0].upper())


def unlike(expectation: str, arguments: Mapping[str, Any], kind: Kind | None) -> str | None:
    """Return which argument cannot be compared with a column of a kind, or None if all can.

    >>> unlike("expect_column_values_to_be_between", {"min_value": 1}, "text")
    'min_value'
    >>> unlike("expect_column_values_to_be_in_set", {"value_set": ["a"]}, "text")
    """
    if expectation in _BOUNDED:
        bounds = {name: arguments.get(name) for name in ("min_value", "max_value")}
        return next((name for name, bound in bounds.items() if (is_a := _bound(bound)) and is_a != kind), None)
    if expectation in _OF_NUMBERS and kind != "number":
        return "column"
    given = arguments.get("value_set")
    if expectation in _OF_SETS and isinstance(given, (list, tuple)) and any(_differs(value, kind) for value in given):
        return "value_set"
    return None


def _bound(value: object) -> Kind | None:
    """What a bound is to Great Expectations, which reads a text as a number, or else as a date or time."""
    if isinstance(value, date):
        return "moment"
    if isinstance(value, (int, float)):
        return "number"
    return ("number" if _is_number(value) else "moment") if isinstance(value, str) else None


def _differs(value: object, kind: Kind | None) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return (kind == "text" and is_number) or (kind == "number" and isinstance(value, str) and not _is_number(value))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def broken_pattern(arguments: Mapping[str, Any]) -> str | None:
    r"""Return the argument that is no regular expression: a bracket or parenthesis that nothing closes or opens.

    >>> broken_pattern({"regex": "("}), broken_pattern({"regex_list": ["a", "[b"]})
    ('regex', 'regex_list')
    >>> broken_pattern({"regex": r"\p{Lu}(?<year>[0-9]{4})[a-z&&[^x(]]\Q(\E"})
    """
    for name in ("regex", "regex_list"):
        given = arguments.get(name)
        patterns = given if isinstance(given, (list, tuple)) else [given]
        if any(isinstance(pattern, str) and _is_broken(pattern) for pattern in patterns):
            return name
    return None


def _is_broken(pattern: str) -> bool:
    plain = re.sub(r"\\.", "x", pattern, flags=re.DOTALL)
    if "\\Q" in pattern or re.search(r"\[\^?\]?[^\]]*\[", plain):  # Java's quotes, and its sets within sets
        return False
    try:
        with warnings.catch_warnings(action="ignore"):
            re.compile(plain)
    except (re.error, OverflowError, RecursionError) as error:
        return str(error).startswith(_BROKEN)
    return False


def parser_is_missing(arguments: Mapping[str, Any]) -> bool:
    """Whether a condition in Great Expectations' own words, `col("sequence") > 3`, is not said to be one."""
    condition = arguments.get("row_condition")
    is_own = isinstance(condition, str) and _GX_COLUMN.search(condition)
    return bool(is_own) and arguments.get("condition_parser") not in _GX_PARSERS


def condition_columns(arguments: Mapping[str, Any]) -> list[str]:
    """Return the columns that `row_condition` certainly names, nested ones as paths.

    >>> condition_columns({"row_condition": "sequenz > 3 AND (topic = 'a > b' OR NOT upper(key) = 'B')"})
    ['sequenz', 'topic']
    >>> condition_columns({"row_condition": 'col("payload.id").notnull()', "condition_parser": "great_expectations"})
    ['payload.id']
    >>> condition_columns({"row_condition": {"type": "nullity", "column": {"name": "key"}, "is_null": True}})
    ['key']
    """
    condition = arguments.get("row_condition")
    if not isinstance(condition, str):
        return list(_columns_of(condition))
    if arguments.get("condition_parser") in _GX_PARSERS:
        return _GX_COLUMN.findall(condition)
    plain = _QUOTED.sub("''", condition)
    if _UNREADABLE.search(plain):
        return []
    compared = (_COMPARED.match(term) for term in _BETWEEN_TERMS.split(plain))
    return [found[1] for found in compared if found and found[1].lower() not in _NO_COLUMNS]


def _columns_of(condition: object) -> Iterator[str]:
    if isinstance(condition, dict):
        column = condition.get("column")
        if isinstance(column, dict) and isinstance(column.get("name"), str):
            yield column["name"]
        for part in condition.get("conditions") or ():
            yield from _columns_of(part)
