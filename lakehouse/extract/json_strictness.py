"""Checks that a JSON text is one document of strict JSON (RFC 8259) in UTF-8: Spark's parsers are lenient.

`get_json_object` and `from_json` stop after the first document. `get_json_object` accepts single quotes and control
characters in strings, takes the first of duplicate keys, and reads `-0` as 0. As text, both write a fraction as a double, and
half of a surrogate pair as a question mark. A text is parsed again only if a cheap check finds something.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakehouse.extract.on_driver import HALF_PAIR, WHOLE_PAIR
from lakehouse.settings import payload_schema

if TYPE_CHECKING:
    from pyspark.sql import Column

REPEATED = "repeated"
NOT_JSON = "not_json"
NOT_TEXT = "not_text"
NOT_UTF8 = "not_utf8"
NOT_WHOLE = "not_a_whole_number"

_OPTIONS = {
    "columnNameOfCorruptRecord": payload_schema.CORRUPT,
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
    "allowUnquotedControlChars": "false",
}
_NAME = f"_{secrets.token_hex(8)}"
_ELEMENTS = 3

_STEP = re.compile(r"\.([^.\[]+)|\[(?:\d+)\]|\['([^']*)'\]")
# Matches up to the next -0 outside strings. Possessive: other quantifiers recurse, and overflow the stack on long texts.
_MINUS_ZERO = r'\G((?:[^"-]++|"(?:[^"\\]++|\\.)*+"|-(?!0))*+)-0'
_LOOKS_LENIENT = r"['\x00-\x1f]|\\u[dD][89a-fA-F]"
_LOOKS_REWRITTEN = r'\A-?[0-9]+\.|\A"?-?Infinity"?\z|\A[\[{]'
"""A text that Spark may have written from a fraction, an object or an array."""


def parse_document(text: Column, type_: str) -> Column:
    """Parse a text that has to be one document of strict JSON of a SQL type, for `document` and `is_document`.

    The text is read between two nulls in an array. More text after the document adds an element, ends the array early, or is an
    error. Only a producer that knows the array's name could continue under it.
    """
    between_nulls = F.concat(F.lit(f'{{"{_NAME}":[null,'), text, F.lit(",null]}"))
    return F.from_json(between_nulls, f"{_NAME} ARRAY<{type_}>, {payload_schema.CORRUPT} STRING", _OPTIONS)


def document(parsed: Column) -> Column:
    """Return the document that `parse_document` found."""
    return F.get(parsed[_NAME], F.lit(1))


def with_document(parsed: Column, change: Callable[[Column], Column]) -> Column:
    """Change the document that `parse_document` found."""
    return parsed.withField(_NAME, F.transform(parsed[_NAME], change))


def is_one(parsed: Column) -> Column:
    """Whether `parse_document` found one document of strict JSON and of its type."""
    return parsed[payload_schema.CORRUPT].isNull() & (F.size(parsed[_NAME]) == _ELEMENTS)


def is_document(parsed: Column, text: Column) -> Column:
    """Whether a text was one document of strict JSON and of its type; false for null, and for half of a surrogate pair."""
    is_half = F.regexp_replace(text, WHOLE_PAIR, "").rlike(HALF_PAIR)
    has_half_pair = F.when(F.contains(text, F.lit("\\u")), is_half).otherwise(F.lit(False))
    return is_one(parsed) & ~has_half_pair


def problem(text: Column, path: str, at_path: Column, *, is_name: bool) -> Column:
    """Return why the result of `get_json_object` is missing or cannot be trusted, see `PROBLEMS`; null if it can."""
    found = F.when(~F.is_valid_utf8(text), F.lit(NOT_UTF8)).when(~_is_json(text, at_path), F.lit(NOT_JSON))
    found = found.when(at_path.isNull(), F.lit("missing"))
    for step in _STEP.finditer(path):
        if key := step[1] or step[2]:
            found = found.when(_is_repeated(text, path[: step.start()], key), F.lit(REPEATED))
    found = found.when(_is_minus_zero(text, path, at_path), F.lit(NOT_WHOLE))
    return found.when(_is_rewritten(text, path, at_path), F.lit(NOT_TEXT)) if is_name else found


def _is_json(text: Column, at_path: Column) -> Column:
    """Whether the text is one document of strict JSON, if `get_json_object` found something in it."""
    # If the first closing brace ends an object's text, it closes the object, and nothing follows.
    ends_at_first = F.concat(F.substring_index(text, "}", 1), F.lit("}")) == F.rtrim(text)
    looks_strict = F.startswith(text, F.lit("{")) & ends_at_first & ~text.rlike(_LOOKS_LENIENT)
    is_strict = F.coalesce(is_document(parse_document(text, "STRING"), text), F.lit(False))
    return F.when(at_path.isNotNull() & looks_strict, F.lit(True)).otherwise(is_strict)


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
    """Whether the number is -0, which is read as 0. If so, replacing every -0 outside strings by -1 changes it."""
    other = F.get_json_object(F.regexp_replace(text, _MINUS_ZERO, "$1-1"), path)
    may_be = (at_path == "0") & F.contains(text, F.lit("-0"))
    return F.when(may_be, F.coalesce(other != "0", F.lit(True))).otherwise(F.lit(False))


def _is_rewritten(text: Column, path: str, at_path: Column) -> Column:
    """Whether a name is not a string: Spark rewrites the text of fractions, objects and arrays."""
    found = F.schema_of_variant(F.try_variant_get(F.try_parse_json(text), path, "variant"))
    return F.when(at_path.rlike(_LOOKS_REWRITTEN), F.coalesce(found != "STRING", F.lit(True))).otherwise(F.lit(False))
