"""Results of checks and of the breaker."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from lakehouse.errors import TableStateError

_MOST_COUNTED = 1_000


@dataclass(frozen=True)
class Violation:
    """A place where a check fails: a table, and in it the file, version, load, stream or offset."""

    where: str
    observed: str
    expected: str


@dataclass(frozen=True)
class Trip:
    """A reason for the breaker to stop a load.

    Attributes:
        what: What looks wrong.
        where: The load, or the stream.
        observed: What was counted.
        expected: What is allowed, and the config key that sets it.
    """

    what: str
    where: str
    observed: str
    expected: str


@dataclass(frozen=True)
class Check:
    """One check of a verification.

    Attributes:
        check: Its name.
        ok: Whether it holds.
        where: What was checked; if the check fails, the first place where it fails.
        observed: What was found.
        expected: What should have been found.
        next_step: What to do; empty if it holds.
    """

    check: str
    ok: bool
    where: str
    observed: str
    expected: str
    next_step: str = ""


def finding(check: str, violations: Iterable[Violation], *, where: str, holds: str, next_step: str) -> Check:
    """Return a check's result: its first violation, which causes the others, and their number; or that it `holds`.

    >>> finding("sums", [Violation("load 2", "3", "4"), Violation("load 3", "0", "1")], where="t", holds="-", next_step="mend")
    Check(check='sums', ok=False, where='load 2', observed='3; 1 more', expected='4', next_step='mend')
    """
    found = list(islice(violations, _MOST_COUNTED + 1))
    if not found:
        return Check(check, ok=True, where=where, observed=holds, expected=holds)
    first, more = found[0], len(found) - 1
    counted = f"{first.observed}; {more if more < _MOST_COUNTED else f'{_MOST_COUNTED} or'} more" if more else first.observed
    return Check(check, ok=False, where=first.where, observed=counted, expected=first.expected, next_step=next_step)


def require_sound(findings: Iterable[Check]) -> None:
    """Raise a `TableStateError` for the first failed check, which causes the failures of later ones."""
    for each in findings:
        if not each.ok:
            raise TableStateError(
                f"The tables contradict each other: {each.check} does not hold.",
                where=each.where,
                observed=each.observed,
                expected=each.expected,
                next_step=each.next_step,
            )
