"""The gate's part of the settings: budgets and user expectations."""

import re
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, PlainSerializer, field_validator, model_serializer, model_validator

from lakehouse.settings.base import Flag, Model, SettingError, setting
from lakehouse.settings.secrets import mask

Measure = Literal[
    "duplicate",
    "duplicate_share",
    "late",
    "late_share",
    "missing",
    "quarantined",
    "quarantined_share",
    "undecodable",
    "undecodable_share",
    "collision",
    "restart_suspected",
]
MEASURES: tuple[Measure, ...] = get_args(Measure)
"""The numbers of a load that budgets may limit; docs/configuration.md explains each."""
Severity = Literal["warn", "critical"]
OnFail = Literal["quarantine_rows", "fail_load"]


def _without_fraction(limit: float | None) -> float | None:
    """Turn a whole float into an int, so that a count is shown as 3 and not as 3.0."""
    return int(limit) if limit is not None and limit.is_integer() else limit


Limit = Annotated[float, Field(strict=True, ge=0), PlainSerializer(_without_fraction, return_type=Any)]


class Budget(Model):
    """How much of a measure a load may have: more than `warn` is reported, more than `critical` fails the gate."""

    warn: Limit | None = setting(None, "more than this is reported", "0")
    critical: Limit | None = setting(None, "more than this fails the gate", "0")

    @model_validator(mode="after")
    def _require_limit(self) -> Self:
        if self.warn is None and self.critical is None:
            raise SettingError("a budget without a limit", "warn, critical, or both", "Write {warn: 0} or {critical: 0}.")
        if self.warn is not None and self.critical is not None and self.warn > self.critical:
            raise SettingError("critical is below warn", "warn <= critical", "Swap the two, or remove warn.", at=("critical",))
        return self


class UserExpectation(Model):
    """An expectation of Great Expectations on Gold's columns; the gate checks that its name exists.

    With `on_fail: quarantine_rows`, rows that do not meet it stay out of Gold, and the load continues.
    """

    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    severity: Severity = "critical"
    on_fail: OnFail = "fail_load"

    @model_validator(mode="before")
    @classmethod
    def _read_yaml(cls, given: Any) -> Any:
        if not isinstance(given, dict) or len(given) != 1:
            next_step = "Write each as an item of its own: - {expect_column_values_to_not_be_null: {column: payload.id}}"
            raise SettingError("this is no expectation", "a name, and its arguments", next_step)
        [(name, arguments)] = given.items()
        if not isinstance(name, str) or not re.fullmatch(r"expect_[a-z0-9_]+", name):
            example = "For example expect_column_values_to_be_between."
            raise SettingError("this is no name of an expectation", "expect_... in snake_case", example, at=(name,))
        if not isinstance(arguments, dict | None):
            example = f"Write it like {name}: {{column: payload.id}}"
            raise SettingError("the arguments have no names", "a mapping of arguments", example, at=(name,))
        rest = dict(arguments or {})
        severity, on_fail = rest.pop("severity", "critical"), rest.pop("on_fail", "fail_load")
        for key, value, known in (("severity", severity, get_args(Severity)), ("on_fail", on_fail, get_args(OnFail))):
            if value not in known:  # the last is the default
                raise SettingError(f"unknown {key}", " or ".join(known), f"Leave it out for {known[-1]}.", at=(name, key))
        if (severity, on_fail) == ("warn", "quarantine_rows"):
            expected, next_step = "severity: warn, or on_fail: quarantine_rows", "Leave one of the two out."
            raise SettingError("a warning keeps no rows out of Gold", expected, next_step, at=(name, "severity"))
        return {"name": name, "arguments": rest, "severity": severity, "on_fail": on_fail}

    @model_serializer
    def _write_yaml(self) -> dict[str, Any]:
        on_fail = {} if self.on_fail == "fail_load" else {"on_fail": self.on_fail}
        return {self.name: mask({**self.arguments, "severity": self.severity, **on_fail})}


class Gate(Model):
    """What a load must meet to reach Gold. Without budgets and expectations, only the invariants can fail it."""

    budgets: dict[Measure, Budget] = setting({}, "limits by measure", "{late: {critical: 0}}")
    expectations: tuple[UserExpectation, ...] = setting(
        (), "a list of expectations on Gold's columns", "[{expect_column_values_to_not_be_null: {column: payload.id}}]"
    )
    data_docs: Flag = setting(False, "true builds Great Expectations' Data Docs too", "true")

    @field_validator("budgets")
    @classmethod
    def _require_fitting_limits(cls, budgets: dict[Measure, Budget]) -> dict[Measure, Budget]:
        for measure, budget in budgets.items():
            for severity, limit in (("warn", budget.warn or 0), ("critical", budget.critical or 0)):
                count, is_share = measure.removesuffix("_share"), measure.endswith("_share")
                if is_share and limit > 1:
                    next_step = f"Write 20 % as 0.2; to limit the count, use {count}."
                    raise SettingError("a share above 1", "a share from 0 to 1", next_step, at=(measure, severity))
                if not is_share and limit % 1:
                    share = f"; for a share, use {measure}_share" if f"{measure}_share" in MEASURES else ""
                    next_step = f"Write a whole number{share}."
                    raise SettingError("a count with a fraction", "a whole number", next_step, at=(measure, severity))
        return budgets
