"""Mistakes in a config: one record each, and one error that reports them all."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import ErrorDetails

from lakehouse.config.keys import Path, all_keys, dotted, key_at, may_show
from lakehouse.errors import ConfigError
from lakehouse.escape import part_of_error, printable
from lakehouse.settings.base import nearest
from lakehouse.settings.secrets import Secret, mask

_LONGEST_SHOWN = 80
_SHARE = re.compile(r"'[0-9.]+ ?%'")
_RULES = {
    **dict.fromkeys(("model_type", "dict_type", "model_attributes_type"), "a mapping of keys and values"),
    "tuple_type": "a list",
    "string_type": "text",
    "string_pattern_mismatch": "",
}
"""The expected value, for types of pydantic's errors that do not name it; empty if the key's description does."""


@dataclass(frozen=True)
class Mistake:
    """A mistake in a config. `place` is a file and line, a variable or a flag. `observed` is None if it may be a secret."""

    key: str
    place: str
    what: str
    observed: str | None = None
    expected: str = ""
    next_step: str = ""

    def __str__(self) -> str:
        lines = [printable(f"{self.key} ({self.place}): {self.what}" if self.key else f"{self.place}: {self.what}")]
        parts = (("observed", self.observed), ("expected", self.expected), ("next", self.next_step))
        return "\n".join([*lines, *(f"     {name}: {part_of_error(part)}" for name, part in parts if part)])


class ConfigMistakesError(ConfigError):
    """A config has mistakes; `mistakes` holds all of them that one pass can find."""

    def __init__(self, file: str, mistakes: list[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        count = "a mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        super().__init__(f"The config {file} has {count}; nothing was started.")

    def _message(self) -> str:
        listed = (f"  {number}. {mistake}" for number, mistake in enumerate(self.mistakes, 1))
        return "\n".join([super()._message(), *listed])


def translate(detail: ErrorDetails, data: Mapping[str, Any], place_of: Callable[[Path], str]) -> tuple[Path, Mistake]:
    """Translate an error of pydantic into a mistake, with its path, without secrets of the data."""
    context = detail.get("ctx", {})
    located = (*(part for part in detail["loc"] if part != "[key]"), *context.get("at", ()))
    # For a missing key, pydantic names the field, not its alias: schema_ for schema.
    path: Path = (*located[:-1], "schema") if detail["type"] == "tidemark" and located[-1:] == ("schema_",) else located
    key, place = dotted(path), place_of(path)
    if detail["type"] == "missing":
        return path, _missing(path, key, place)
    if detail["type"] == "extra_forbidden" or (detail["loc"][-1:] == ("[key]",) and detail["type"] != "tidemark"):
        return path, _unknown(path, key, place)
    observed = describe(_value_at(data, path), path)
    if detail["type"] == "tidemark":
        return path, Mistake(key, place, context["what"], observed, context["expected"], context["next_step"])
    return path, _wrong(detail, path, place, observed)


def _missing(path: Path, key: str, place: str) -> Mistake:
    known = key_at(path)
    section = f"under {dotted(path[:-1])}" if path[:-1] else "at the top level"
    expected = f"{path[-1]} {section}" + (f": {known.description}" if known and known.description else "")
    example = f"Add {section}: {path[-1]}: {known.example}" if known else f"Add {path[-1]} {section}."
    return Mistake(key, place, "the key is missing", None, expected, example)


def _unknown(path: Path, key: str, place: str) -> Mistake:
    parent = key_at(path[:-1])
    siblings = [*parent.children()] if parent else []
    expected = f"one of {', '.join(siblings)}" if siblings else "no key here"
    # A key at the wrong level is as common as a misspelt one.
    elsewhere = [dotted(other) for other in all_keys() if other[-1] == path[-1]]
    next_step = f"It belongs elsewhere: {' or '.join(elsewhere)}." if elsewhere else "Remove it, or use one of these."
    if near := nearest(str(path[-1]), siblings):
        next_step = f"Did you mean {near}?"
    return Mistake(key, place, "unknown key", None, expected, next_step)


def _wrong(detail: ErrorDetails, path: Path, place: str, observed: str | None) -> Mistake:
    of_key = path[:-1] if isinstance(path[-1], int) else path  # an item is described with its list
    known = key_at(of_key)
    # Pydantic's messages never repeat the input, but only the description says what the key means.
    message = detail["msg"].removeprefix("Input should be ").removeprefix("String should ")
    rule, description = _RULES.get(detail["type"], message), known.description if known else ""
    expected = f"{description} ({rule})" if description and rule else description or rule or message
    next_step = _example(of_key) or "Correct the value."
    if detail["type"] in {"int_type", "float_type"} and _SHARE.fullmatch(observed or ""):
        next_step += "; a share is a number from 0 to 1."
    if detail["type"] in {"int_type", "float_type", "bool_type"} and "reference" in (observed or ""):
        next_step += "; a ${...} reference gives text, so set a number in the file or with a TIDEMARK_ variable."
    return Mistake(dotted(path), place, "the value is wrong", observed, expected, next_step)


def _example(path: Path) -> str | None:
    known = key_at(path)
    if known and known.example:
        return f"For example {path[-1]}: {known.example}"
    below = known.children().items() if known else ()
    return next((f"For example {path[-1]}: {{{name}: {key.example}}}" for name, key in below if key.example), None)


def _value_at(data: Any, path: Path) -> Any:
    for part in path:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def describe(value: Any, path: Path = ()) -> str:
    """Describe a value for a message, without secrets and without the values inside a mapping or list.

    >>> describe({"a": 1}), describe("x", ("kafka", "properties", "ssl.key.password"))
    ('a mapping of a', 'hidden, its key may hold a secret')
    >>> describe({"x": 1}, ("value", "registry", "password")), describe("x", ("watch", "alerts", "webhook"))
    ('a mapping', 'hidden, its key may hold a secret')
    >>> describe("https://ann:password@host")
    "'https://********@host'"
    """
    if isinstance(value, Secret):
        return "hidden, it came from a ${...} reference"
    if isinstance(value, dict):
        known = key_at(path)
        # Other names may be a misplaced text, such as {password}.
        names = [each for each in value if may_show(path) or (known is not None and each in known.children())]
        return f"a mapping of {', '.join(map(str, names))}" if names else "a mapping" if value else "an empty mapping"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}"
    if value is None:
        return "nothing"
    if not may_show(path):
        return "hidden, its key may hold a secret"
    text = repr(mask(value)) if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
