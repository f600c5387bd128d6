"""Loading a config: flags override TIDEMARK_ variables, the file and defaults; secrets are resolved, and all is validated."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import ValidationError

from lakehouse.config.keys import Path as KeyPath
from lakehouse.config.keys import dotted
from lakehouse.config.mistakes import ConfigMistakesError, Mistake, mistakes_of
from lakehouse.config.references import resolve
from lakehouse.config.sources import Source, lay_environment, lay_flags, read_yaml
from lakehouse.errors import ConfigError
from lakehouse.settings.base import SettingError
from lakehouse.settings.pipeline import Settings
from lakehouse.settings.secrets import Secret, secret_texts

__all__ = ["ConfigMistakesError", "Mistake", "as_yaml", "known_secrets", "load", "parse", "redacted", "show_yaml"]


def load(
    config: PathLike[str] | str | Mapping[str, Any] = "tidemark.yml",
    *,
    overrides: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Load and validate a pipeline's settings.

    Relative paths start at the file's folder, or for a mapping at the working folder. `overrides` are flags: a dotted key such
    as `kafka.bootstrap_servers`, and its value as YAML. `environ` is this process's environment by default.

    Raises:
        ConfigMistakesError: The config has mistakes; the error lists all of them, each with its key, place and fix.
        ConfigError: The file cannot be read, or the mapping holds what no config can.
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
    """Load settings, as `load` would, from the text of a file that need not be written yet."""
    source = Source(str(file))
    read_yaml(text, source)
    return _settings(source, Path(file).absolute().parent, overrides, environ)


def _settings(source: Source, folder: Path, overrides: Mapping[str, str] | None, environ: Mapping[str, str]) -> Settings:
    if source.mistakes and not source.data:
        raise ConfigMistakesError(source.file, source.mistakes)
    lay_environment(environ, source)
    lay_flags(overrides or {}, source)
    unresolved: dict[KeyPath, Mistake] = {}
    data = _resolved(source.data, (), environ, source, unresolved)
    mistakes = [*source.mistakes, *unresolved.values()]
    try:
        settings = Settings.model_validate(data, context={"folder": folder})
    except ValidationError as error:
        # A reference that could not be resolved is reported only once.
        mistakes += [mistake for path, mistake in mistakes_of(error, data, source.place) if path not in unresolved]
    else:
        if not mistakes:
            return settings
    # Raised outside the except block, or its context would be the pydantic error, whose frames hold the values.
    raise ConfigMistakesError(source.file, mistakes)


def as_yaml(value: object, where: str) -> str:
    """Write a Python value as YAML, with paths as texts; raise a `ConfigError` if YAML has no form for it."""
    try:
        return json.dumps(value, ensure_ascii=False, default=_path_text)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(
            "The config holds what no YAML file can.",
            where=where,
            observed=str(error) or type(error).__name__,
            expected="mappings, lists, texts, numbers, booleans, paths and None",
        ) from None


def _path_text(value: object) -> str:
    if not isinstance(value, PathLike):
        raise TypeError(f"a value of the type {type(value).__name__}")
    return os.fsdecode(value)


def redacted(settings: Settings) -> dict[str, object]:
    """Return the settings as plain data, defaults included, secrets as `********`; loadable again if none is masked."""
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


def known_secrets(settings: Settings) -> frozenset[str]:
    """Return the non-empty secrets in the settings, in plain text, for the log and report layer to scrub."""
    return frozenset(secret_texts(settings))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        what, observed = "There is no config file.", f"no such file in {path.absolute().parent}"
        expected = "the YAML file of a pipeline"
        next_step = "Name one with --config FILE, or have one written for a topic: tidemark init"
    except UnicodeDecodeError as error:
        what, observed = "The config file is not UTF-8 text.", f"an invalid byte at position {error.start}"
        expected, next_step = "UTF-8", "Save the file as UTF-8."
    except OSError as error:
        what, observed = "The config file cannot be read.", error.strerror or ""
        expected, next_step = "a readable file", "Check the path and its rights."
    raise ConfigError(what, where=str(path), observed=observed, expected=expected, next_step=next_step)


def _resolved(value: Any, path: KeyPath, environ: Mapping[str, str], source: Source, wrong: dict[KeyPath, Mistake]) -> Any:
    if isinstance(value, dict):
        return {key: _resolved(part, (*path, key), environ, source, wrong) for key, part in value.items()}
    if isinstance(value, list):
        return [_resolved(part, (*path, index), environ, source, wrong) for index, part in enumerate(value)]
    if not isinstance(value, str):
        return value
    try:
        return resolve(value, environ)
    except SettingError as error:
        wrong[path] = Mistake(dotted(path), source.place(path), error.what, None, error.expected, error.next_step)
        return Secret("")
