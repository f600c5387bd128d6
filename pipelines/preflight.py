"""Find mistakes in a config before a run starts. Needs imports, but no table and no broker.

`lakehouse.settings.pipeline` checks the shape of each value, and imports nothing. `tidemark config check` and every run call
this module first: expectations and their arguments, Gold's columns and types, the operator's own extractor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations import checks
from expectations.gx import arguments
from lakehouse.contracts.gold import gold_records
from lakehouse.errors import ConfigError
from lakehouse.settings.extractor import ROLES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.settings.pipeline import Settings, UserExpectation


def require(settings: Settings, stage: str | None = None) -> None:
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
        from expectations.gx import engine  # takes seconds to import, and only the gate needs it

        engine.require(checks.build(settings.gate))


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
    columns = gold_records(None if kind is None else kind.sql()).names
    payload = kind if kind is not None and kind.fields else None
    for path in arguments.condition_columns(expectation.arguments):
        # Checks only the certain part of a name: Spark ignores case, and the rest may be a key of a map.
        column, _, field = path.lower().partition(".")
        fields = [each.name.lower() for each in payload.fields] if payload else []
        if column not in columns or (column == "payload" and field and field.partition(".")[0] not in fields):
            raise _no_column(expectation, path, where, columns, "Correct row_condition.")
    for path in arguments.named(expectation.arguments):
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
    wrong, expected, next_step = arguments.broken_pattern(given), "a regular expression of Java", "Close its brackets."
    if wrong is None and arguments.parser_is_missing(given):
        wrong, expected = "row_condition", "condition_parser: great_expectations beside col(...)"
        next_step = "Add it, or write the condition in SQL: sequence > 3."
    types = {path: _type_of(settings, path) for path in arguments.named(given)}
    unlike = arguments.unlike(expectation.name, given, {path: arguments.kind_of(found) for path, found in types.items()})
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


def _type_of(settings: Settings, path: str) -> str:
    """Return the SQL type of an existing column of `gold_records`, or of a payload field."""
    kind, (column, _, field) = settings.payload, path.partition(".")
    if column != "payload" or kind is None:
        return gold_records().type_of(column)
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
