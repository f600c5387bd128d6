"""Findings: what a check looked at, whether it holds, and what to do if it does not."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from lakehouse.errors import TableStateError

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_COUNTED = 1_000


@dataclass(frozen=True)
class Violation:
    """One place where something does not hold.

    Attributes:
        where: The table, and in it the file, version, load, stream or offset.
        observed: What was found there.
        expected: What should be there.
    """

    where: str
    observed: str
    expected: str


@dataclass(frozen=True)
class Finding:
    """The outcome of one check.

    Attributes:
        check: The check's name.
        ok: Whether it holds.
        where: What was looked at; if the check does not hold, the first violation's place.
        observed: What was found.
        expected: What should have been found.
        next_step: What to do; empty if the check holds.
    """

    check: str
    ok: bool
    where: str
    observed: str
    expected: str
    next_step: str = ""


def finding(check: str, violations: Iterable[Violation], *, where: str, holds: str, next_step: str) -> Finding:
    """The finding of a check: its first violation and how many more there are, or that it holds.

    Args:
        check: The check's name.
        violations: What does not hold, the root cause first.
        where: What was looked at.
        holds: What is true if there is no violation.
        next_step: What to do if there is one.

    >>> finding("sums", [Violation("load 2", "3", "4"), Violation("load 3", "0", "1")], where="t", holds="-", next_step="mend")
    Finding(check='sums', ok=False, where='load 2', observed='3; 1 more', expected='4', next_step='mend')
    """
    found = list(islice(violations, _MOST_COUNTED + 1))
    if not found:
        return Finding(check, ok=True, where=where, observed=holds, expected=holds)
    first, more = found[0], len(found) - 1
    counted = f"{first.observed}; {more if more < _MOST_COUNTED else f'{_MOST_COUNTED} or'} more" if more else first.observed
    return Finding(check, ok=False, where=first.where, observed=counted, expected=first.expected, next_step=next_step)


def require_sound(findings: Iterable[Finding]) -> None:
    """Raise the first failed check, which by the order of the checks is the cause of those that fail after it.

    Raises:
        TableStateError: A check does not hold.
    """
    for each in findings:
        if not each.ok:
            raise TableStateError(
                f"The tables do not hold together: {each.check} does not hold.",
                where=each.where,
                observed=each.observed,
                expected=each.expected,
                next_step=each.next_step,
            )
