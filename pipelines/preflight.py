"""Find mistakes in a config before a run starts. Needs imports, but no table and no broker.

`lakehouse.settings.pipeline` checks the shape of each value, and imports nothing. `tidemark config check` and every run call
this module first: expectations and their arguments, Gold's columns and types, the operator's own extractor. Great Expectations
accepts a wrong pattern, condition, column or value, and then fails on every load. Only unambiguous mistakes are refused.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from expectations import checks, gx
from lakehouse.contracts.gold import of_records
from lakehouse.errors import ConfigError
from lakehouse.settings.extractor import ROLES

if TYPE_CHECKING:
    from lakehouse.settings.pipeline import Settings, UserExpectation

_GX_PARSERS = ("great_expectations", "great_expectations__experimental__")
_GX_COLUMN = re.compile(r"\bcol\(\s*[\"']([^\"']*)[\"']\s*\)")
_BROKEN = ("missing )", "unbalanced parenthesis", "unterminated character set")


def require_config(settings: Settings, stage: str | None = None) -> None:
    """Raise if the config is wrong, before anything is started. Expectations are checked only if the gate will run.

    Raises:
        ConfigError: An expectation is unknown, fails on Spark, or does not accept its arguments; it names a column that Gold
            lacks, or an argument that does not fit the column's type; or a custom extractor is not installed.
    """
    _require_extractors(settings)
    if settings.gate.expectations and stage in (None, "gate"):
        for place, expectation in enumerate(settings.gate.expectations):
            where = f"gate.expectations[{place}]"
            _require_columns(settings, expectation, where=where)
            _require_arguments(settings, expectation, where=where)
        gx.require_expectations(checks.build(settings.gate))


def _require_extractors(settings: Settings) -> None:
    by_key = {name: getattr(settings, name) for name in ROLES}
    for topic, own in settings.topics.items():
        by_key |= {f"topics.{topic}.{name}": own.given.get(name) for name in ROLES}
    for where, extractor in by_key.items():
        if extractor is not None and extractor.form == "custom":
            from lakehouse.extract.columns import imported  # imports pyspark

            imported(extractor.argument, where=f"{where}.custom")


def _require_columns(settings: Settings, expectation: UserExpectation, *, where: str) -> None:
    kind = settings.payload
    columns = of_records(None if kind is None else kind.sql()).names
    payload = kind if kind is not None and kind.fields else None
    for path in _condition_columns(expectation.arguments):
        # Checks only the certain part of a name: Spark ignores case, and the rest may be a key of a map.
        column, _, field = path.lower().partition(".")
        fields = [each.name.lower() for each in payload.fields] if payload else []
        if column not in columns or (column == "payload" and field and field.partition(".")[0] not in fields):
            raise _no_column(expectation, path, where, columns, "Correct row_condition.")
    for path in gx.named(expectation.arguments):
        column, _, field = path.partition(".")
        if column not in columns:
            needs_value = "The payload is there where values are decoded: add a `value` section."
            raise _no_column(expectation, path, where, columns, needs_value if column == "payload" else "Correct the column.")
        if column == "payload" and field and not (payload and payload.at(field)):
            known = [f"payload.{each.name}" for each in payload.fields] if payload else ["payload"]
            raise _no_column(expectation, path, where, known, "Correct the column, or add the field to value.schema.")


def _require_arguments(settings: Settings, expectation: UserExpectation, *, where: str) -> None:
    """Raise if an expectation would always fail with a Spark error, or fail once a text is not a number."""
    given = expectation.arguments
    wrong, expected, next_step = _broken_pattern(given), "a regular expression of Java", "Close its brackets."
    if wrong is None and _parser_is_missing(given):
        wrong, expected = "row_condition", "condition_parser: great_expectations with col(...)"
        next_step = "Add it, or write the condition in SQL: sequence > 3."
    types = {path: _type_of(settings, path) for path in gx.named(given)}
    unlike = gx.unlike(expectation.name, given, {path: gx.kind_of(found) for path, found in types.items()})
    if wrong is None and unlike is not None:
        wrong, expected = unlike
        expected += "".join(f"; {path} is {found.upper()}" for path, found in types.items())
        next_step = "Correct it, or give the field another type in value.schema; texts are put in quotes."
    if wrong is not None:
        raise ConfigError(
            f"{expectation.name} would end in an error, or never be met, on every load.",
            where=f"{where}.{expectation.name}.{wrong}",
            expected=expected,
            next_step=next_step,
        )


def _broken_pattern(given: Mapping[str, Any]) -> str | None:
    r"""Return the argument that is not a regular expression, because a bracket or parenthesis is missing.

    >>> _broken_pattern({"regex": "("}), _broken_pattern({"regex": r"\p{Lu}(?<year>[0-9]{4})[a-z&&[^x(]]\Q(\E"})
    ('regex', None)
    """
    for name in ("regex", "regex_list"):
        value = given.get(name)
        patterns = value if isinstance(value, (list, tuple)) else [value]
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


def _parser_is_missing(given: Mapping[str, Any]) -> bool:
    """Whether a condition in Great Expectations' syntax, `col("sequence") > 3`, lacks its `condition_parser`."""
    condition = given.get("row_condition")
    has_column = isinstance(condition, str) and _GX_COLUMN.search(condition) is not None
    return has_column and given.get("condition_parser") not in _GX_PARSERS


def _condition_columns(given: Mapping[str, Any]) -> list[str]:
    """Return the columns in comparisons of `row_condition`, nested ones as paths.

    >>> _condition_columns({"row_condition": "sequenz > 3 AND (topic = 'a > b' OR NOT upper(key) = 'B')"})
    ['sequenz', 'topic']
    """
    condition = given.get("row_condition")
    if not isinstance(condition, str):
        return list(_columns_of(condition))
    if given.get("condition_parser") in _GX_PARSERS:
        return _GX_COLUMN.findall(condition)
    import sqlglot
    from sqlglot import expressions
    from sqlglot.errors import SqlglotError

    try:
        tree = sqlglot.parse_one(condition, dialect="spark")
    except (SqlglotError, RecursionError):
        return []
    if tree.find(expressions.Select):
        return []
    compared = [each for each in tree.find_all(expressions.Column) if isinstance(each.parent, expressions.Predicate)]
    names = [".".join(part.name for part in column.parts) for column in compared]
    return [name for name in names if name.lower() != "localtimestamp"]


def _columns_of(condition: object) -> Iterator[str]:
    if isinstance(condition, dict):
        column = condition.get("column")
        if isinstance(column, dict) and isinstance(column.get("name"), str):
            yield column["name"]
        for part in condition.get("conditions") or ():
            yield from _columns_of(part)


def _type_of(settings: Settings, path: str) -> str:
    """Return the SQL type of an existing column of `gold_records`, or of a payload field."""
    kind, (column, _, field) = settings.payload, path.partition(".")
    if column != "payload" or kind is None:
        return of_records().type_of(column)
    if not kind.fields:
        return kind.sql()
    found = kind.at(field) if field else None
    return found.sql() if found else "STRUCT"


def _no_column(expectation: UserExpectation, path: str, where: str, known: Sequence[str], next_step: str) -> ConfigError:
    return ConfigError(
        f"{expectation.name} looks at a column that gold_records does not have.",
        where=where,
        observed=path,
        expected=", ".join(known),
        next_step=next_step,
    )
