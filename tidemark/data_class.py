"""Data classes from plain data: a row, or the result that a pipeline returns and a command prints as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from types import NoneType
from typing import Any, TypeVar, dataclass_transform, get_args, get_origin, get_type_hints

Made = TypeVar("Made")


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Answer:
    """Makes its subclasses frozen data classes, and writes their annotated descriptions into their docstrings."""

    def __init_subclass__(cls) -> None:
        kinds = get_type_hints(dataclass(frozen=True, kw_only=True)(cls), include_extras=True)
        described = [f"    {name}: {kind.__metadata__[0]}" for name, kind in kinds.items()]
        cls.__doc__ = "\n".join([f"{cls.__doc__}\n", "Attributes:", *described])


def made(kind: type[Made], found: Mapping[str, Any]) -> Made:
    """Make a data class from plain data; ignores keys without a field. A field `class_` has the key `class`.

    >>> from tidemark.answers import Rejects
    >>> made(Rejects, {"class": "late", "state": "held", "records": 2, "rows": 2}).class_
    'late'
    """
    kinds = get_type_hints(kind)
    known = {name: found[key] for name in kinds if (key := name.rstrip("_")) in found}
    return kind(**{name: _typed(kinds[name], value) for name, value in known.items()})


def _typed(kind: Any, value: Any) -> Any:
    if is_dataclass(kind) and isinstance(value, Mapping):
        return made(kind, value)  # type: ignore[arg-type]  # a class, not an instance of one
    parts = [part for part in get_args(kind) if part is not NoneType]
    if get_origin(kind) is tuple and value is not None:
        return tuple(_typed(parts[0], each) for each in value)
    return _typed(parts[0], value) if len(parts) == 1 else value
