"""Truncation of values for display: a producer's name may be a megabyte long. Stored values stay whole. No dependencies."""

from __future__ import annotations

from typing import Any

LONGEST_SHOWN = 1_000
"""Maximum characters of a value in a terminal, a log, JSON for programs, an alert or a report."""


def shortened(text: str, longest: int = LONGEST_SHOWN) -> str:
    """Truncate a text that is longer than a limit, and append its full length.

    Truncate before escaping, so that a megabyte is not escaped for one line. A text that would not get shorter stays whole.

    >>> shortened("orders"), shortened("a" * 3000, 8)
    ('orders', 'aaaaaaaa… (3,000 characters)')
    """
    cut = f"{text[:longest]}… ({len(text):,} characters)"
    return cut if len(cut) < len(text) else text


def brief(value: Any) -> Any:
    """Truncate every text in a JSON-like value, keys included.

    >>> brief({"producers": ["a", "b" * 1100], "records": 2})["producers"][1][-22:]
    'bb… (1,100 characters)'
    """
    if isinstance(value, str):
        return shortened(value)
    if isinstance(value, dict):
        return {brief(key): brief(part) for key, part in value.items()}
    return [brief(part) for part in value] if isinstance(value, list | tuple) else value
