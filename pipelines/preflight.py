"""What a config gets wrong, found before anything starts: what needs neither a table nor a broker to be known.

`lakehouse.settings.pipeline` checks the shape of each value, and imports nothing. Here is what takes an import to know:
whether Great Expectations has an expectation of that name that takes these arguments, whether Gold has the column it looks
at, whether the operator's own extractor is there. `tidemark config check` and every run call it first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations import checks
from expectations.gx.flatten import named
from lakehouse.contracts.gold import gold_records
from lakehouse.errors import ConfigError
from lakehouse.settings import payload_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.settings.pipeline import Settings, UserExpectation


def require(settings: Settings, stage: str | None = None) -> None:
    """Raise on what is wrong in the config, before anything is started.

    Args:
        settings: The settings, whose values have the right shape.
        stage: The one stage that will run; None where all do. Expectations are looked at where the gate runs.

    Raises:
        ConfigError: An expectation is unknown, is wrong on Spark, or does not take its arguments; it names a column that Gold
            does not have; or a custom extractor is not installed.
    """
    _require_extractors(settings)
    if settings.gate.expectations and stage in (None, "gate"):
        for place, expectation in enumerate(settings.gate.expectations):
            _require_columns(settings, expectation, where=f"gate.expectations[{place}]")
        from expectations.gx import engine  # takes seconds to import, and only the gate needs it

        engine.require(checks.build(settings.gate))


def _require_extractors(settings: Settings) -> None:
    extractors = {"sequence": settings.sequence, "producer": settings.producer, "epoch": settings.epoch}
    for where, extractor in extractors.items():
        if extractor is not None and extractor.form == "custom":
            from silver.extract.columns import imported  # imports pyspark

            imported(extractor.argument, where=f"{where}.custom")


def _require_columns(settings: Settings, expectation: UserExpectation, *, where: str) -> None:
    """Compare the columns that an expectation names with those of `gold_records`, the payload's fields among them."""
    value = settings.value
    columns = gold_records(value.format if value else None).names
    payload = payload_schema.parse(value.schema_) if value and value.schema_ else None
    for path in named(expectation.arguments):
        column, _, field = path.partition(".")
        if column not in columns:
            needs_value = "The payload is there where values are decoded: add a `value` section."
            raise _no_column(expectation, path, where, columns, needs_value if column == "payload" else "Correct the column.")
        if column == "payload" and field and not (payload and payload.has(field)):
            known = [f"payload.{each.name}" for each in payload.fields] if payload else ["payload"]
            raise _no_column(expectation, path, where, known, "Correct the column, or add the field to value.schema.")


def _no_column(expectation: UserExpectation, path: str, where: str, known: Sequence[str], next_step: str) -> ConfigError:
    return ConfigError(
        f"{expectation.name} looks at a column that gold_records does not have.",
        where=where,
        observed=path,
        expected=", ".join(known),
        next_step=next_step,
    )
