"""Settings of a store: from the config, or else from the environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakehouse.settings.pipeline import StorageSettings


def found(
    names: Mapping[str, Sequence[str]], given: StorageSettings | None, environ: Mapping[str, str]
) -> dict[str, str | None]:
    """Return each key's value: the config's, else that of the first of its variables that is set.

    >>> found({"region": ("AWS_REGION", "AWS_DEFAULT_REGION")}, None, {"AWS_REGION": "", "AWS_DEFAULT_REGION": "eu"})
    {'region': 'eu'}
    """
    return {
        name: getattr(given, name, None) or next((environ[each] for each in variables if environ.get(each)), None)
        for name, variables in names.items()
    }
