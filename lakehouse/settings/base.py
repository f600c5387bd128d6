"""The base of all settings models: frozen, without unknown keys, and with errors that hold no input and say what to do."""

import difflib
from pathlib import Path
from typing import Annotated, Any, Self, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from lakehouse.settings.secrets import HIDES_SECRETS, MASKED, Secret
from lakehouse.uri import is_uri

Text = Annotated[str, StringConstraints(min_length=1), HIDES_SECRETS]
SecretText = Annotated[Text, AfterValidator(Secret), MASKED]
"""Text that is masked wherever it is shown, even if the config has it in plain text."""
# Strict: "5", true and ${env:NAME} are no numbers. The text of a reference would be shown if it were one.
Whole = Annotated[int, Field(strict=True, ge=1)]
Flag = Annotated[bool, Field(strict=True)]


class Model(BaseModel):
    """The base of all settings. A key without a value counts as missing, unless null is one of its values."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        allow_inf_nan=False,
        # Validators are built when a config is first checked: `tidemark --help` needs none.
        defer_build=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        droppable = {
            cls.key_of(name) for name, field in cls.model_fields.items() if type(None) not in get_args(field.annotation)
        }
        return {key: value for key, value in given.items() if value is not None or key not in droppable}

    @classmethod
    def key_of(cls, name: str) -> str:
        """Return the key of a field as it is written in YAML."""
        return cls.model_fields[name].alias or name


class SettingError(PydanticCustomError):
    """A wrong value of a setting. It does not hold the value, which may be a secret. `at` is the path to the wrong key."""

    def __new__(cls, what: str, expected: str, next_step: str, at: tuple[str | int, ...] = ()) -> Self:
        """Build pydantic's error with the parts that `lakehouse.config.mistakes` shows."""
        parts = {"what": what, "expected": expected, "next_step": next_step, "at": at}
        return super().__new__(cls, "tidemark", "{what}; expected {expected}. {next_step}", parts)

    def __init__(self, what: str, expected: str, next_step: str, at: tuple[str | int, ...] = ()) -> None:
        self.what, self.expected, self.next_step, self.at = what, expected, next_step, at


def setting(default: Any, description: str, example: Any, **constraints: Any) -> Any:
    """Declare a setting with its description and YAML example. A class as default is called; `...` means required."""
    kind = "default_factory" if isinstance(default, type) else "default"
    return Field(description=description, examples=[example], **{kind: default}, **constraints)


def nearest(wrong: str, known: list[str]) -> str | None:
    """Return the known name that is closest to a wrong one, ignoring case, or None if none is close."""
    by_lower = {name.lower(): name for name in known}
    found = difflib.get_close_matches(wrong.lower(), list(by_lower), n=1)
    return by_lower[found[0]] if found else None


def from_config_folder(path: str, info: ValidationInfo) -> str:
    """Resolve a relative path against the config file's folder (`folder` of the validation context), and expand `~`."""
    if is_uri(path):
        return path
    folder = Path((info.context or {}).get("folder", "."))
    return str((folder / Path(path).expanduser()).resolve())
