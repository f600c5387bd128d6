"""How much of a value is shown or sent: a producer's name may be a megabyte long. What is stored stays whole. Knows nothing."""

from __future__ import annotations

from typing import Any

LONGEST_SHOWN = 1_000
"""Characters of a value that a terminal, a log, JSON for programs, an alert or a report shows."""


def shortened(text: str, longest: int = LONGEST_SHOWN) -> str:
    """The text as it is shown or sent: cut, with how long it was, where it is longer than that.

    Cut first and escape then, so that a megabyte is not escaped for a line. A cut that would not save anything is not made.

    >>> shortened("orders"), shortened("a" * 3000, 8)
    ('orders', 'aaaaaaaa… (3,000 characters)')
    """
    cut = f"{text[:longest]}… ({len(text):,} characters)"
    return cut if len(cut) < len(text) else text


def brief(value: Any) -> Any:
    """A value as JSON holds it, every text in it cut.

    >>> brief({"producers": ["a", "b" * 1100], "records": 2})["producers"][1][-22:]
    'bb… (1,100 characters)'
    """
    if isinstance(value, str):
        return shortened(value)
    if isinstance(value, dict):
        return {brief(key): brief(part) for key, part in value.items()}
    return [brief(part) for part in value] if isinstance(value, list | tuple) else value
