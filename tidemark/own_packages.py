"""Finds our other packages next to `tidemark`: a working folder or `PYTHONPATH` may have packages of the same names.

Imports only the standard library, because it comes before any of ours.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

PACKAGES = ("bronze", "expectations", "gold", "jobs", "lakehouse", "pipelines", "silver")
FOLDER = Path(__file__).absolute().parents[1]


class ForeignPackageError(ImportError):
    """Another module is loaded under the name of one of our packages, so `import tidemark` cannot go on."""


class _BesideTidemark:
    """Finds our packages in the folder that `tidemark` was loaded from."""

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return PathFinder.find_spec(fullname, [str(FOLDER)]) if fullname in PACKAGES else None


def find_own() -> None:
    """Let every later import of our packages find ours. Raises ForeignPackageError if a name is taken in this process."""
    for name in PACKAGES:
        loaded = sys.modules.get(name)
        place = None if loaded is None else _place(loaded)
        if loaded is not None and (place is None or place.resolve() != (FOLDER / name).resolve()):
            message = (
                f"Another module is loaded under the name of one of Tidemark's packages: {name}.\n"
                f"  where: {'a module without a file' if place is None else ascii(str(place))}\n"
                f"  expected: {str(FOLDER / name)!a}\n"
                f"  next: A process can have only one of the two. Run Tidemark in a process of its own, for example by the "
                f"command `tidemark`, or rename the other module."
            )
            raise ForeignPackageError(message, name=name, path=None if place is None else str(place))
    if not any(type(finder).__name__ == _BesideTidemark.__name__ for finder in sys.meta_path):  # also after a reload
        sys.meta_path.insert(0, _BesideTidemark())


def _place(module: ModuleType) -> Path | None:
    folders = list(getattr(module, "__path__", ()))
    file = folders[0] if folders else getattr(module, "__file__", None)
    return None if file is None else Path(file)
