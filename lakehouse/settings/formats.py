"""The extras that are imported by name, such as a format that a config or a claim names. Text and JSON are not here."""

from __future__ import annotations

import importlib
import importlib.util
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from lakehouse.errors import ToolError

if TYPE_CHECKING:
    from pydantic import ValidationInfo

    from lakehouse.settings.pipeline import ValueFormat

WrittenFormat = Literal["json", "avro", "protobuf"]
Format = Literal["text", WrittenFormat]
Undecodable = Literal["quarantine", "accept"]

_MODULES = {
    "avro": "tidemark.extras.formats.avro",
    "protobuf": "tidemark.extras.formats.protobuf",
    "registry": "tidemark.extras.formats.registry",
    "report": "tidemark.extras.report.page",
    "watch": "tidemark.extras.watch.metrics",
}
_LIBRARIES = {"avro": "fastavro", "protobuf": "google.protobuf", "report": "vl_convert", "watch": "prometheus_client"}
"""A library that the extra of that name installs."""
EXTRAS = ("avro", "protobuf")
"""The formats whose values have a schema of their own."""


class Schemas(Protocol):
    """The part of a format that checks a config, without Spark."""

    def content(self, given: str, info: ValidationInfo) -> str:
        """Return a schema's text, from its file unless it is the text itself; raise a `SettingError` if it cannot be read."""

    def validate(self, settings: ValueFormat) -> str | None:
        """Return why no value can be decoded into the fields of the settings; None if some can."""

    def pinned(self, settings: ValueFormat) -> str:
        """Return the schema of all values as a claim keeps it; empty if each value names its own."""


def schemas(name: str) -> Schemas:
    """Import the part of a format that checks a config; a `ToolError` says what to install if its library is missing."""
    return cast("Schemas", load(name, "_schema"))


@lru_cache
def load(name: str, part: str = "") -> Any:
    """Import the decoder of a format (`lakehouse.extract.written.Decoder`), or another extra; raises as `schemas`."""
    if name in _LIBRARIES and not _is_installed(_LIBRARIES[name]):
        lacking = f"Values are {name.capitalize()}, and its library is" if name in EXTRAS else f"The libraries of `{name}` are"
        raise ToolError(
            f"{lacking} not installed.",
            where="this Python environment",
            observed=f"no {_LIBRARIES[name]}",
            next_step=f"Nothing is lost. Install it: pip install 'tidemark-lakehouse[{name}]'.",
        )
    return importlib.import_module(f"{_MODULES[name]}{part}")


def _is_installed(library: str) -> bool:
    try:
        return importlib.util.find_spec(library) is not None
    except ModuleNotFoundError:  # without the package around it
        return False
