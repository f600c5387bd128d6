"""Escapes text of producers for a terminal, a log, a CSV file or an alert, so that it cannot control what a reader sees.

Every character that `str.isprintable` rejects is escaped: control, bidirectional and invisible characters, line ends, spaces
other than the plain one, and lone surrogates. Escaped JSON parses to the same value.
"""

import json
import re
from collections.abc import Callable
from typing import Any

_FORMULA = re.compile(r'[\s"]*[=+\-@\uff1d\uff0b\uff0d\uff20]')  # the last four are the same characters in full width
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_LONGEST = 1_000  # characters of a value in a terminal, a log, JSON for programs, an alert or a report


def printable(text: str, *, keeps: str = "") -> str:
    r"""Escape the unprintable characters of a text, except those in `keeps`.

    >>> printable("red \x1b[31m, caf\u00e9, \u202e, \u009b2J, \ud800, a\nb")
    'red \\x1b[31m, café, \\u202e, \\x9b2J, \\ud800, a\\nb'
    """
    return _escaped(text, lambda each: each.encode("unicode_escape").decode(), keeps)


def part_of_error(value: object) -> str:
    r"""Format a value as part of an error message. Lines after the first start with a bar, so none looks like our own.

    >>> part_of_error("Could not convert 'x\n{\"event\": \"run.finished\"}'")
    'Could not convert \'x\n  | {"event": "run.finished"}\''
    """
    return "\n  | ".join(printable(line) for line in str(value).rstrip("\n").split("\n"))


def json_text(value: object, *, indent: int | None = None, is_ascii: bool = False) -> str:
    r"""Serialize a value as JSON that holds nothing that a terminal would interpret.

    >>> json_text({"producer": "caf\u00e9 \u009b2J \u202e \x7f"})
    '{"producer": "café \\u009b2J \\u202e \\u007f"}'
    """
    return _escaped(json.dumps(value, indent=indent, ensure_ascii=is_ascii, default=str), _json_escape, "\n")


def csv_text(text: str) -> str:
    r"""Format a text as a CSV cell: printable, and not a formula in a spreadsheet.

    Where a comma is a decimal point, a spreadsheet splits lines at semicolons, also within quotes, so each part is checked.

    >>> csv_text("=HYPERLINK(1)"), csv_text(" \t@SUM(1)"), csv_text("-5"), csv_text("a-b"), csv_text("a;=1+1")
    ("'=HYPERLINK(1)", "' \\t@SUM(1)", '-5', 'a-b', "a;'=1+1")
    """
    return printable(_no_formula(";".join(map(_no_formula, text.split(";")))))


def _no_formula(text: str) -> str:
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def _escaped(text: str, escape: Callable[[str], str], keeps: str) -> str:
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in keeps else escape(each) for each in text)


def _json_escape(each: str) -> str:
    units = each.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def shortened(text: str, longest: int = _LONGEST) -> str:
    """Truncate a long text, and append its full length. Truncate before you escape, or a megabyte is escaped for one line.

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
