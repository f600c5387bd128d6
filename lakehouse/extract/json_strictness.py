"""Whether a JSON text is unambiguous at a path: Spark's parser is lenient, and a sequence decides which records are kept.

`get_json_object` takes the first of duplicate keys, accepts single quotes and text after the JSON, and reads `-0` as 0. Further
passes over the text check for these, each only if a cheap look at the bytes shows that it may be needed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

REPEATED = "repeated"
NOT_JSON = "not_json"
NOT_WHOLE = "not_a_whole_number"

_STEP = re.compile(r"\.([^.\[]+)|\[(?:\d+)\]|\['([^']*)'\]")
# Up to the next -0 outside strings. Possessive: anything else recurses, and a long text overflows the stack.
_MINUS_ZERO = r'\G((?:[^"-]++|"(?:[^"\\]++|\\.)*+"|-(?!0))*+)-0'
_CORRUPT = "_corrupt"
_STRICT = {"allowSingleQuotes": "false", "allowUnquotedControlChars": "true", "columnNameOfCorruptRecord": _CORRUPT}
"""Strict, except that control characters in strings are allowed, as `get_json_object` allows them."""


def problem(text: Column, path: str, at_path: Column) -> Column:
    """Why the result of `get_json_object` cannot be trusted; null if it can.

    Args:
        text: The text.
        path: The path, as the config names it.
        at_path: The result of `get_json_object`, not null.

    Returns:
        repeated: a key of the path occurs more than once in its object; not_json: single quotes, or text after the JSON;
        not_a_whole_number: -0.
    """
    repeated = [_is_repeated(text, path[: step.start()], step[1] or step[2]) for step in _steps(path)]
    told = F.when(_has_single_quotes(text) | _goes_on(text), F.lit(NOT_JSON))
    for each in repeated:
        told = told.when(each, F.lit(REPEATED))
    return told.when(_is_minus_zero(text, path, at_path), F.lit(NOT_WHOLE))


def _steps(path: str) -> list[re.Match[str]]:
    """The path's steps into objects, without those into arrays."""
    return [step for step in _STEP.finditer(path) if step[1] or step[2]]


def _has_single_quotes(text: Column) -> Column:
    """Whether a key or string is in single quotes."""
    read = F.from_json(F.concat(F.lit('{"v":'), text, F.lit("}")), f"_t STRING, {_CORRUPT} STRING", _STRICT)
    return F.when(F.contains(text, F.lit("'")), read[_CORRUPT].isNotNull()).otherwise(F.lit(False))


def _goes_on(text: Column) -> Column:
    """Whether anything but blanks follows the JSON.

    If not, the text in brackets is an array of one element. But the text must not close the bracket itself: an opening bracket
    and the text alone must not be a whole array.
    """
    up_to_brace = F.concat(F.substring_index(text, "}", 1), F.lit("}"))
    is_one = F.coalesce(F.json_array_length(F.concat(F.lit("["), text, F.lit("]"))) == 1, F.lit(False))
    closes = F.when(F.contains(text, F.lit("]")), F.json_array_length(F.concat(F.lit("["), text)).isNotNull())
    # Shortcut: if the first closing brace ends the text, it closes the outermost object, and nothing follows.
    return F.when(up_to_brace == F.rtrim(text), F.lit(False)).otherwise(~is_one | F.coalesce(closes, F.lit(False)))


def _is_repeated(text: Column, parent: str, name: str) -> Column:
    """Whether the object at a path has a key more than once."""
    found = text if parent == "$" else F.get_json_object(text, parent)
    keys = F.json_object_keys(found)
    is_once = F.coalesce(F.size(F.array_remove(keys, name)) == F.size(keys) - 1, F.lit(False))
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        return ~is_once
    # No shortcut with escapes: they may spell the name.
    looks_once = ~F.contains(text, F.lit("\\")) & (F.substring_index(text, f'"{name}"', 2) == text)
    return F.when(looks_once, F.lit(False)).otherwise(~is_once)


def _is_minus_zero(text: Column, path: str, at_path: Column) -> Column:
    """Whether the number is -0, which is read as 0: replacing every -0 outside strings by -1 then changes it."""
    other = F.get_json_object(F.regexp_replace(text, _MINUS_ZERO, "$1-1"), path)
    may_be = (at_path == "0") & F.contains(text, F.lit("-0"))
    return F.when(may_be, F.coalesce(other != "0", F.lit(True))).otherwise(F.lit(False))
