"""References in config values: `${env:NAME}` and `${secret:scope/key}`."""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING

from lakehouse.settings.base import SettingError
from lakehouse.settings.secrets import Secret

if TYPE_CHECKING:
    from collections.abc import Mapping

# `$${` is a literal `${`. A reference without its `}` matches too, so that it is refused.
_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")


def resolve(text: str, environ: Mapping[str, str]) -> str:
    """Replace a text's references, which makes it a `Secret`; raise a `SettingError` without its values if that fails."""
    parts: list[str] = []

    def replace(found: re.Match[str]) -> str:
        if found[1] is None:
            return "${"
        parts.append(_value_of(found[1] if found[2] else "", environ))
        return parts[-1]

    resolved = _REFERENCE.sub(replace, text)
    return Secret(resolved, tuple(parts)) if parts else resolved


def _value_of(reference: str, environ: Mapping[str, str]) -> str:
    if found := re.fullmatch(r"env:([A-Za-z_][A-Za-z0-9_]*)", reference):
        if (name := found[1]) not in environ:
            next_step = f"Set it (export {name}=...), or name another variable."
            raise SettingError(f"the environment variable {name} is not set", "a variable of this process", next_step)
        return environ[name]
    if found := re.fullmatch(r"secret:([^/\s]+)/([^/\s]+)", reference):
        return _databricks_secret(found[1], found[2])
    # The text is not repeated: it may be part of a password that contains "${".
    next_step = "Correct the reference; write $${ for a literal ${."
    raise SettingError("a ${...} reference is malformed", "${env:NAME} or ${secret:scope/key}", next_step)


def _databricks_secret(scope: str, key: str) -> str:
    where = f"the secret {key} of the Databricks scope {scope}"
    try:
        secrets = importlib.import_module("databricks.sdk.runtime").dbutils.secrets
    except (ImportError, AttributeError):
        expected = "a Databricks cluster or job: ${secret:scope/key} works only there"
        next_step = "Elsewhere, use an environment variable and ${env:NAME}."
        raise SettingError(f"{where} cannot be read here", expected, next_step) from None
    try:
        return str(secrets.get(scope, key))
    except Exception as error:  # noqa: BLE001 -- dbutils raises py4j's or the SDK's errors; neither can be imported everywhere
        what, next_step = f"{where} cannot be read ({type(error).__name__})", f"Run: databricks secrets list-secrets {scope}"
        raise SettingError(what, "an existing scope and key, and the right to read them", next_step) from None
