"""Loading a config: flags override TIDEMARK_ variables, the file and defaults; secrets are resolved, and all is validated."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import yaml
from pydantic import ValidationError

from lakehouse.config.keys import Path as KeyPath
from lakehouse.config.keys import dotted
from lakehouse.config.mistakes import ConfigMistakesError, Mistake, mistakes_of
from lakehouse.config.sources import Source, lay_environment, lay_flags, read_yaml
from lakehouse.errors import ConfigError
from lakehouse.settings.pipeline import Settings
from lakehouse.settings.secrets import Secret, UnresolvedReferenceError, resolve, secret_texts

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ConfigMistakesError", "Mistake", "known_secrets", "load", "parse", "redacted", "show_yaml"]


def load(
    path: Path | str = "tidemark.yml",
    *,
    overrides: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Load a pipeline's settings.

    Args:
        path: The YAML file. Relative paths in it start at its folder.
        overrides: Flags: a dotted key such as `kafka.bootstrap_servers`, and its value as YAML.
        environ: The environment; by default this process's.

    Returns:
        The validated settings, with secrets masked in every representation.

    Raises:
        ConfigMistakesError: The config has mistakes; the error lists all of them, each with its key, place and fix.
        ConfigError: The file cannot be read.
    """
    text, folder = _read(Path(path)), Path(path).absolute().parent
    return parse(text, name=str(path), folder=folder, overrides=overrides, environ=environ)


def parse(
    text: str,
    *,
    name: str,
    folder: Path,
    overrides: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Load a pipeline's settings from the text of a config.

    Args:
        text: YAML.
        name: The file's name, for errors.
        folder: Where relative paths in it start.
        overrides: As `load`.
        environ: As `load`.

    Raises:
        ConfigMistakesError: The config has mistakes.
    """
    environ = os.environ if environ is None else environ
    source = Source(name)
    read_yaml(text, source)
    if source.mistakes and not source.data:
        raise ConfigMistakesError(source.file, source.mistakes)
    lay_environment(environ, source)
    lay_flags(overrides or {}, source)
    wrong: dict[KeyPath, Mistake] = {}
    data = _resolved(source.data, (), environ, source, wrong)
    return _checked(data, source, wrong, folder)


def redacted(settings: Settings) -> dict[str, object]:
    """Return the settings as plain data, defaults included, secrets as `********`; loadable again if none is masked."""
    shown = settings.model_dump(mode="json", by_alias=True, exclude_none=True)
    # The one key whose null differs from its default.
    shown["kafka"]["max_offsets_per_trigger"] = settings.kafka.max_offsets_per_trigger
    # As written: keys missing from a topic are inherited from `policies`, and an explicit null is not a missing key.
    shown["policies"]["topics"] = {
        topic: own.model_dump(mode="json", exclude_unset=True) for topic, own in settings.policies.topics.items()
    }
    return cast("dict[str, object]", shown)


def show_yaml(settings: Settings) -> str:
    """What `config show` prints: `redacted` as YAML, in the order of the documentation."""
    return yaml.safe_dump(redacted(settings), sort_keys=False, allow_unicode=True, width=120)


def known_secrets(settings: Settings) -> frozenset[str]:
    """Return the non-empty secrets in the settings, in plain text, for the log and report layer to scrub."""
    return frozenset(secret_texts(_plain(settings)))


def _plain(value: Any) -> Any:
    """Turn a model into plain data recursively, without dumping it: a dump masks the secrets."""
    if hasattr(type(value), "model_fields"):
        return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, (list, tuple)) else value


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(
            "There is no config file.",
            where=str(path),
            observed=f"no such file in {path.absolute().parent}",
            expected="the YAML file of a pipeline",
            next_step="Name one with --config FILE, or have one written for a topic: tidemark init",
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            "The config file is not UTF-8 text.",
            where=str(path),
            observed=f"an invalid byte at position {error.start}",
            expected="UTF-8",
            next_step="Save the file as UTF-8.",
        ) from None
    except OSError as error:
        raise ConfigError(
            "The config file cannot be read.",
            where=str(path),
            observed=error.strerror,
            expected="a readable file",
            next_step="Check the path and its rights.",
        ) from None


def _resolved(value: Any, path: KeyPath, environ: Mapping[str, str], source: Source, wrong: dict[KeyPath, Mistake]) -> Any:
    if isinstance(value, dict):
        return {key: _resolved(part, (*path, key), environ, source, wrong) for key, part in value.items()}
    if isinstance(value, list):
        return [_resolved(part, (*path, index), environ, source, wrong) for index, part in enumerate(value)]
    if not isinstance(value, str):
        return value
    try:
        return resolve(value, environ)
    except UnresolvedReferenceError as error:
        wrong[path] = Mistake(dotted(path), source.place(path), error.what, expected=error.expected, next_step=error.next_step)
        return Secret("")


def _checked(data: Mapping[str, Any], source: Source, wrong: dict[KeyPath, Mistake], folder: Path) -> Settings:
    mistakes = [*source.mistakes, *wrong.values()]
    try:
        settings = Settings.model_validate(data, context={"folder": folder})
    except ValidationError as error:
        # A reference that could not be resolved is reported only once.
        mistakes += [mistake for path, mistake in mistakes_of(error, data, source.place) if path not in wrong]
    else:
        if not mistakes:
            return settings
    # Raised outside the except block, or its context would be the pydantic error, whose frames hold the values.
    raise ConfigMistakesError(source.file, mistakes)
