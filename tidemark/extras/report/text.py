"""Format values for a report: numbers with thousands separators, times in UTC, safe texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse.contracts.silver import ACCEPTED, CLASSES, STREAM
from lakehouse.escape import printable, shortened

if TYPE_CHECKING:
    from datetime import datetime

_LONGEST = 120
NOTHING = "-"


def text(value: Any) -> str:
    r"""Make foreign text safe to show: escape control characters and those that change the reading direction, truncate.

    >>> text("a\u202eb"), text("x" * 200)[-20:], text(None)
    ('a\\u202eb', 'xx… (200 characters)', '-')
    """
    return NOTHING if value is None else printable(shortened(str(value), _LONGEST))


def count(value: int | None) -> str:
    """Format a whole number: 1,234,567."""
    return NOTHING if value is None else f"{value:,}"


def share(value: float | None) -> str:
    """Format a share as a percentage.

    >>> share(0.12345), share(0.0), share(0.00001), share(None)
    ('12.35 %', '0 %', '< 0.01 %', '-')
    """
    if value is None:
        return NOTHING
    if 0 < value < 0.0001:  # noqa: PLR2004 -- two places of a percentage would round it to zero
        return "< 0.01 %"
    return "0 %" if value == 0 else f"{value * 100:.2f} %"


def seconds(value: float | None) -> str:
    """Format seconds: 1,234.6."""
    return NOTHING if value is None else f"{value:,.1f}"


def moment(value: datetime | None) -> str:
    """Format a time in UTC, without the zone."""
    return NOTHING if value is None else f"{value:%Y-%m-%d %H:%M:%S}"


def place(row: dict[str, Any]) -> str:
    """Return the short name of a stream or partition: incidents/3."""
    return "/".join(text(row[name]) for name in STREAM if row.get(name) is not None)


def loads_of(row: dict[str, Any]) -> str:
    """Return a range of loads: one number, or the first and the last.

    >>> loads_of({"first_load_seq": 1, "last_load_seq": 8}), loads_of({"first_load_seq": 9, "last_load_seq": 9})
    ('1-8', '9')
    """
    first, last = row["first_load_seq"], row["last_load_seq"]
    return f"{first}-{last}" if last > first else str(last)


def classes(found: dict[str, Any]) -> list[str]:
    """Return `accepted` and the other classes that occur."""
    totals = found["totals"] or {}
    return [name for name in CLASSES if name == ACCEPTED or totals.get(name)]
