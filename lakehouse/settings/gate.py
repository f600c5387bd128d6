"""The gate's part of the settings: budgets and user expectations."""

import re
from typing import Annotated, Any, Literal

from pydantic import Field, PlainSerializer, ValidationInfo, field_validator, model_serializer, model_validator

from lakehouse.settings.base import Flag, Model, refusal
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
Severity = Literal["warn", "critical"]
OnFail = Literal["fail_load", "quarantine_rows"]

_EXPECTATION = re.compile(r"expect_[a-z0-9_]+")
_HAS_SHARE = {"duplicate", "late", "quarantined", "undecodable"}


def _as_written(limit: float | None) -> float | None:
    """Turn a whole float into an int, so that a count is shown as 3 and not as 3.0."""
    return int(limit) if limit is not None and limit.is_integer() else limit


Limit = Annotated[float, Field(strict=True, ge=0), PlainSerializer(_as_written, return_type=Any)]


class Budget(Model):
    """How much of a measure a load may have: more than `warn` is reported, more than `critical` fails the gate."""

    warn: Limit | None = Field(default=None, description="more than this is reported", examples=["0"])
    critical: Limit | None = Field(default=None, description="more than this fails the gate", examples=["0"])

    @field_validator("critical")
    @classmethod
    def _critical_is_not_below_warn(cls, critical: float | None, info: ValidationInfo) -> float | None:
        warn = info.data.get("warn")
        if critical is not None and warn is not None and warn > critical:
            raise refusal(
                "critical is below warn, so warn could never be reached alone",
                expected="warn <= critical",
                next_step="Swap the two, or remove warn.",
            )
        return critical

    @model_validator(mode="after")
    def _has_a_limit(self) -> "Budget":
        if self.warn is None and self.critical is None:
            raise refusal(
                "a budget without a limit",
                expected="warn, critical, or both",
                next_step="Write it like {warn: 0} or {critical: 0}.",
            )
        return self


class UserExpectation(Model):
    """A Great Expectations expectation on Gold's columns, by name; the gate checks that it exists.

    In YAML: `{expect_column_values_to_not_be_null: {column: payload.id, severity: warn}}`. With `on_fail: quarantine_rows` the
    rows that do not meet it are kept out of Gold, and the rest of the load is not held up.
    """

    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    severity: Severity = "critical"
    on_fail: OnFail = "fail_load"

    @model_validator(mode="before")
    @classmethod
    def _from_yaml(cls, given: Any) -> Any:
        if not isinstance(given, dict) or len(given) != 1:
            raise refusal(
                "this is no expectation",
                expected="one name, and its arguments under it",
                next_step="Write each as an item of its own: - {expect_column_values_to_not_be_null: {column: payload.id}}",
            )
        name, arguments = next(iter(given.items()))
        arguments = {} if arguments is None else arguments
        if not isinstance(name, str) or not _EXPECTATION.fullmatch(name):
            raise refusal(
                "this is no name of an expectation",
                expected="a Great Expectations name in snake_case: expect_...",
                next_step="For example expect_column_values_to_be_between.",
                at=(name,),
            )
        if not isinstance(arguments, dict):
            raise refusal(
                "the arguments have no names",
                expected="a mapping of arguments",
                next_step=f"Write it like {name}: {{column: payload.id}}",
                at=(name,),
            )
        if arguments.get("severity", "critical") not in ("warn", "critical"):
            raise refusal(
                "unknown severity", expected="warn or critical", next_step="Leave it out for critical.", at=(name, "severity")
            )
        if (on_fail := arguments.get("on_fail", "fail_load")) not in ("fail_load", "quarantine_rows"):
            raise refusal(
                "unknown on_fail",
                expected="quarantine_rows or fail_load",
                next_step="Leave it out for fail_load.",
                at=(name, "on_fail"),
            )
        if on_fail == "quarantine_rows" and arguments.get("severity") == "warn":
            raise refusal(
                "a warning keeps no rows aside",
                expected="severity: warn, or on_fail: quarantine_rows",
                next_step="Leave severity out: the rows are kept aside, and the load goes on.",
                at=(name, "severity"),
            )
        rest = {argument: value for argument, value in arguments.items() if argument not in ("severity", "on_fail")}
        return {"name": name, "arguments": rest, "severity": arguments.get("severity", "critical"), "on_fail": on_fail}

    @model_serializer
    def _as_yaml(self) -> dict[str, Any]:
        on_fail = {} if self.on_fail == "fail_load" else {"on_fail": self.on_fail}
        return {self.name: mask({**self.arguments, "severity": self.severity, **on_fail})}


class Gate(Model):
    """What a load must meet to reach Gold. Without budgets and expectations, only the invariants can fail it."""

    budgets: dict[Measure, Budget] = Field(default={}, description="limits by measure", examples=["{late: {critical: 0}}"])
    expectations: tuple[UserExpectation, ...] = Field(
        default=(),
        description="a list of expectations on Gold's columns",
        examples=["[{expect_column_values_to_not_be_null: {column: payload.id}}]"],
    )
    data_docs: Flag = Field(default=False, description="true builds Great Expectations' Data Docs too", examples=["true"])

    @field_validator("budgets")
    @classmethod
    def _limits_fit_the_measure(cls, budgets: dict[Measure, Budget]) -> dict[Measure, Budget]:
        for measure, budget in budgets.items():
            for severity, limit in (("warn", budget.warn), ("critical", budget.critical)):
                if limit is not None:
                    _check_limit(measure, severity, limit)
        return budgets


def _check_limit(measure: Measure, severity: str, limit: float) -> None:
    if measure.endswith("_share"):
        if limit > 1:
            raise refusal(
                "a share above 1",
                expected="a share from 0 to 1",
                next_step=f"Write 20 % as 0.2; to limit the count, use {measure.removesuffix('_share')}.",
                at=(measure, severity),
            )
    elif not float(limit).is_integer():
        other = f"; for a share, use {measure}_share" if measure in _HAS_SHARE else ""
        raise refusal(
            "a count with a fraction",
            expected="a whole number",
            next_step=f"Write a whole number{other}.",
            at=(measure, severity),
        )
