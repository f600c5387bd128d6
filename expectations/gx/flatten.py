"""Nested columns for Great Expectations: some of its Spark metrics find `payload.id` inside the struct, others do not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from expectations.checks import Check, Subject

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

_ARGUMENTS = ("column", "column_A", "column_B", "column_list", "column_set")


def flatten(records: DataFrame, checks: Sequence[Check]) -> tuple[DataFrame, list[Check]]:
    """Give each nested column that a check names a flat column of its own, and let the check name that one.

    Grain: a record, as given. Columns: those given, and `payload__id` for each `payload.id` that a check names. A path that
    does not exist stays as it is, so that the check reports it.

    Args:
        records: The rows.
        checks: The checks; those on other subjects than records stay as they are.

    Returns:
        The rows, and the checks in their order.
    """
    own = [check for check in checks if check.subject is Subject.RECORDS]
    paths = {path for check in own for path in named(check.arguments)}
    flat = {path: path.replace(".", "__") for path in sorted(paths) if "." in path and _is_in(records.schema, path)}
    flattened = records.withColumns({alias: F.col(path) for path, alias in flat.items()}) if flat else records
    return flattened, [replace(check, arguments=_renamed(check.arguments, flat)) if check in own else check for check in checks]


def named(arguments: Mapping[str, Any]) -> list[str]:
    """The columns that an expectation's arguments name, nested ones as paths.

    >>> named({"column_A": "payload.low", "column_list": ["key", "offset"], "min_value": 0})
    ['payload.low', 'key', 'offset']
    """
    return [path for name in _ARGUMENTS for path in _paths(arguments.get(name))]


def _paths(argument: Any) -> list[str]:
    parts = argument if isinstance(argument, (list, tuple)) else [argument]
    return [part for part in parts if isinstance(part, str)]


def _renamed(arguments: Mapping[str, Any], flat: Mapping[str, str]) -> dict[str, Any]:
    renamed = dict(arguments)
    for name in _ARGUMENTS:
        given = renamed.get(name)
        if isinstance(given, str):
            renamed[name] = flat.get(given, given)
        elif isinstance(given, (list, tuple)):
            renamed[name] = [flat.get(part, part) if isinstance(part, str) else part for part in given]
    return renamed


def _is_in(schema: StructType, path: str) -> bool:
    found: DataType = schema
    for name in path.split("."):
        if not isinstance(found, StructType) or name not in found.fieldNames():
            return False
        found = found[name].dataType
    return True
