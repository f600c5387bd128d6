"""Loading a config: flags override TIDEMARK_ variables, the file and defaults; references are resolved, all is validated."""

import importlib
import json
import os
import re
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import ValidationError

from lakehouse.config.keys import Path as KeyPath
from lakehouse.config.keys import dotted
from lakehouse.config.mistakes import ConfigMistakesError, Mistake, translate
from lakehouse.config.sources import Source, apply_overrides, read_yaml
from lakehouse.errors import ConfigError
from lakehouse.settings.base import SettingError
from lakehouse.settings.pipeline import Settings
from lakehouse.settings.secrets import Secret

__all__ = ["ConfigMistakesError", "Mistake", "as_yaml", "load", "parse", "redacted", "resolve", "show_yaml"]

# `$${` is a literal `${`. A reference without its `}` matches too, so that it is refused.
_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")


def load(
    config: PathLike[str] | str | Mapping[str, Any] = "tidemark.yml",
    *,
    overrides: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Load and validate a pipeline's settings.

    Relative paths start at the file's folder, or for a mapping at the working folder. `overrides` are flags: dotted keys such
    as `kafka.bootstrap_servers`, with their values as YAML. Raises a `ConfigMistakesError` with all mistakes, or a
    `ConfigError` if the file cannot be read or the mapping holds a value that YAML lacks.
    """
    environ = os.environ if environ is None else environ
    if not isinstance(config, Mapping):
        return parse(_read(Path(config)), config, overrides=overrides, environ=environ)
    source = Source("the mapping")
    read_yaml(as_yaml(config, source.file), source, has_lines=False)
    return _settings(source, Path.cwd(), overrides, environ)


def parse(
    text: str, file: PathLike[str] | str, *, overrides: Mapping[str, str] | None = None, environ: Mapping[str, str]
) -> Settings:
    """Load settings like `load`, from the text of a file that need not exist yet."""
    source = Source(str(file))
    read_yaml(text, source)
    return _settings(source, Path(file).absolute().parent, overrides, environ)


def _settings(source: Source, folder: Path, overrides: Mapping[str, str] | None, environ: Mapping[str, str]) -> Settings:
    if source.mistakes and not source.data:
        raise ConfigMistakesError(source.file, source.mistakes)
    apply_overrides(environ, overrides or {}, source)
    unresolved: dict[KeyPath, Mistake] = {}
    data = _resolve_all(source.data, (), environ, source, unresolved)
    mistakes = [*source.mistakes, *unresolved.values()]
    try:
        settings = Settings.model_validate(data, context={"folder": folder})
    except ValidationError as error:
        found = [translate(detail, data, source.place) for detail in error.errors(include_url=False, include_input=False)]
        mistakes += [mistake for path, mistake in found if path not in unresolved]  # an unresolved reference is reported once
    else:
        if not mistakes:
            return settings
    # Outside of the except block: the frames of pydantic's error, its context there, hold the values.
    raise ConfigMistakesError(source.file, mistakes)


def as_yaml(value: object, where: str) -> str:
    """Write a Python value as YAML, with paths as text; raise a `ConfigError` if YAML has no form for it."""
    try:
        return json.dumps(value, ensure_ascii=False, default=_path_text)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(
            "The config holds a value that YAML lacks.",
            where=where,
            observed=str(error) or type(error).__name__,
            expected="mappings, lists, texts, numbers, booleans, paths and None",
        ) from None


def _path_text(value: object) -> str:
    if not isinstance(value, PathLike):
        raise TypeError(f"a value of the type {type(value).__name__}")
    return os.fsdecode(value)


def redacted(settings: Settings) -> dict[str, object]:
    """Return the settings as plain data, with defaults, and with secrets as `********`."""
    shown = settings.model_dump(mode="json", by_alias=True, exclude_none=True)
    # The only key whose null differs from its default.
    shown["kafka"]["max_offsets_per_trigger"] = settings.kafka.max_offsets_per_trigger
    # As written: a missing key of a topic is inherited, an explicit null removes the inherited value.
    for section, topics in ((shown["policies"], settings.policies.topics), (shown, settings.topics)):
        section["topics"] = {
            topic: own.model_dump(mode="json", by_alias=True, exclude_unset=True) for topic, own in topics.items()
        }
    return cast("dict[str, object]", shown)


def show_yaml(settings: Settings) -> str:
    """Return `redacted` as YAML, in the order of the documentation, for `config show`."""
    return yaml.safe_dump(redacted(settings), sort_keys=False, allow_unicode=True, width=120)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        what, observed = "There is no config file.", f"no such file in {path.absolute().parent}"
        next_step = "Name one with --config FILE, or let `tidemark init` write one for a topic."
    except UnicodeDecodeError as error:
        what, observed = "The config file is not UTF-8 text.", f"an invalid byte at position {error.start}"
        next_step = "Save the file as UTF-8."
    except OSError as error:
        what, observed = "The config file cannot be read.", error.strerror or ""
        next_step = "Check the path and its rights."
    raise ConfigError(what, where=str(path), observed=observed, expected="a YAML file in UTF-8", next_step=next_step)


def _resolve_all(value: Any, path: KeyPath, environ: Mapping[str, str], source: Source, wrong: dict[KeyPath, Mistake]) -> Any:
    if isinstance(value, dict):
        return {key: _resolve_all(part, (*path, key), environ, source, wrong) for key, part in value.items()}
    if isinstance(value, list):
        return [_resolve_all(part, (*path, index), environ, source, wrong) for index, part in enumerate(value)]
    if not isinstance(value, str):
        return value
    try:
        return resolve(value, environ)
    except SettingError as error:
        wrong[path] = Mistake(dotted(path), source.place(path), error.what, None, error.expected, error.next_step)
        return Secret("")


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
