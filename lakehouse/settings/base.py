"""The base of all settings models: frozen, no unknown keys, no input in errors, and errors that say what to do."""

import difflib
import re
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from lakehouse.settings.secrets import KEEP_SECRET, MASK_SECRET, MASKED, Secret

Text = Annotated[str, StringConstraints(min_length=1), KEEP_SECRET, MASK_SECRET]
SecretText = Annotated[Text, AfterValidator(Secret.marked), MASKED]
"""Text that is masked wherever it is shown, also where the config has it in plain text."""
# Strict: neither "5" nor true is a number, and neither is ${env:NAME}, whose text would then be shown as a number.
Whole = Annotated[int, Field(strict=True, ge=1)]
Flag = Annotated[bool, Field(strict=True)]

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


class Model(BaseModel):
    """The base of all settings.

    A key without a value counts as missing, unless null is one of its values.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        allow_inf_nan=False,
        # Validators are built when a config is first checked, not on import: `tidemark --help` needs none.
        defer_build=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        nullable = {field.alias or name for name, field in cls.model_fields.items() if type(None) in get_args(field.annotation)}
        droppable = set(cls.keys()) - nullable
        return {key: value for key, value in given.items() if value is not None or key not in droppable}

    @classmethod
    def keys(cls) -> list[str]:
        """The keys of this level as they are written in YAML."""
        return [cls.key_of(name) for name in cls.model_fields]

    @classmethod
    def key_of(cls, name: str) -> str:
        """The key of a field as it is written in YAML."""
        return cls.model_fields[name].alias or name


def refusal(what: str, *, expected: str, next_step: str, at: tuple[str | int, ...] = ()) -> PydanticCustomError:
    """Build the error that a validator raises.

    Args:
        what: What is wrong, without the value: it may be a secret, and the code that reports the error adds what may be shown.
        expected: What would be right.
        next_step: What the reader can do.
        at: The keys from the validated value down to the wrong one.
    """
    context = {"what": what, "expected": expected, "next_step": next_step, "at": at}
    return PydanticCustomError("tidemark", "{what}; expected {expected}. {next_step}", context)


def nearest(wrong: str, known: list[str]) -> str | None:
    """Return the known name that was probably meant, ignoring case, or None if none is close."""
    by_lower = {name.lower(): name for name in known}
    found = difflib.get_close_matches(wrong.lower(), list(by_lower), n=1)
    return by_lower[found[0]] if found else None


def is_uri(path: str) -> bool:
    """Whether the path names its own file system (s3://, abfss://, dbfs:/, file:/) and so is relative to no folder.

    >>> is_uri("s3://bucket/lake"), is_uri("./lakehouse")
    (True, False)
    """
    return _URI.match(path) is not None


def from_config_folder(path: str, info: ValidationInfo) -> str:
    """Resolve a relative path against the config file's folder (validation context `folder`), and expand `~`."""
    if is_uri(path):
        return path
    folder = Path((info.context or {}).get("folder", "."))
    return str((folder / Path(path).expanduser()).resolve())
