"""Pieces of the page: Markdown tables, and the warning for a busy machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.machine import QUIET_CORES

_SHOWN_DISTURBANCES = 10


def table(head: Iterable[str], lines: Iterable[Sequence[str]], words: int = 1) -> str:
    r"""A table whose first columns are words, the others numbers.

    >>> table(("peer", "seconds"), [("copy", "1.5")])
    '| peer | seconds |\n| --- | ---: |\n| copy | 1.5 |\n'
    """
    names = list(head)
    rules = ["---" if place < words else "---:" for place in range(len(names))]
    return "".join(f"| {' | '.join(line)} |\n" for line in (names, rules, *lines))


def disturbed(disturbances: Sequence[str]) -> str:
    """A warning that figures do not count, and why; empty if they do."""
    if not disturbances:
        return ""
    more = len(disturbances) - _SHOWN_DISTURBANCES
    lines = [f"> - {each}" for each in disturbances[:_SHOWN_DISTURBANCES]] + ([f"> - and {more} more"] if more > 0 else [])
    head = f"> **These figures do not count.** Others used more than {QUIET_CORES} cores of the machine meanwhile:\n>\n"
    return head + "\n".join(lines) + "\n"
