"""Errors for an operator's expectation that cannot be used. No message holds an argument's value: it may be a secret."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from lakehouse.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expectations.checks import Check

NAMES_NO_ROWS = ("expect_column_values_to_be_of_type", "expect_column_values_to_be_in_type_list")
"""By their class they evaluate each row; on Spark they only look at the column's type."""

WRONG_ON_SPARK = ("expect_column_values_to_be_increasing", "expect_column_values_to_be_decreasing")


def wrong_on_spark(name: str, where: str) -> ConfigError:
    """The error for an expectation whose answers cannot be trusted."""
    return ConfigError(
        f"{name} gives wrong answers on Spark: it orders by a constant and knows no streams.",
        where=where,
        observed=name,
        expected="another expectation",
        next_step="Remove it. That sequences rise within each stream is checked in any case (sequence_increases).",
    )


def names_no_rows(name: str, where: str) -> ConfigError:
    """The error for an expectation that is to keep rows out of Gold but evaluates all rows at once."""
    return ConfigError(
        f"{name} looks at all rows at once: it names none that could be kept aside.",
        where=where,
        observed="on_fail: quarantine_rows",
        expected="an expectation on each row, such as expect_column_values_to_not_be_null",
        next_step="Remove on_fail: the load stops where it is not met; with severity: warn it is only recorded.",
    )


def unknown(name: str, where: str, known: Sequence[str]) -> ConfigError:
    """The error for a name that Great Expectations does not have.

    >>> print(unknown("expect_column_max", "gate.expectations[0]", ["expect_column_max_to_be_between"]).next_step)
    Did you mean expect_column_max_to_be_between?
    """
    near = difflib.get_close_matches(name, known, n=1)
    return ConfigError(
        "Great Expectations has no such expectation.",
        where=where,
        observed=name,
        expected=f"one of its {len(known)} expectations",
        next_step=f"Did you mean {near[0]}?" if near else "Look through the gallery of Great Expectations.",
    )


def unfit(check: Check, where: str, reasons: Sequence[str]) -> ConfigError:
    """The error for arguments that the expectation does not accept."""
    return ConfigError(
        f"The arguments do not fit {check.type}.",
        where=where,
        observed="; ".join(dict.fromkeys(reasons)),
        expected="the arguments that Great Expectations documents for it",
        next_step=f"Correct them; given are: {', '.join(check.arguments) or 'none'}.",
    )
