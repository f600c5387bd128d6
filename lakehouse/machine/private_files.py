"""Files and folders of our own that nobody else of this machine may read: reports, what runs leave for each other."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

_OWNER_ONLY = 0o700


def folder(path: Path) -> Path:
    """Make a folder that is the owner's alone, whatever the umask; one that is there stays as somebody has made it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=_OWNER_ONLY, exist_ok=True)
    return path


def replace_file(target: Path, text: str) -> Path:
    """Write a file that is the owner's alone, whole or not at all.

    What is written lies under a name that nobody can guess until it is whole: no link can be waiting there.

    Args:
        target: The file; its folder must be there.
        text: What it will hold.

    Returns:
        The file.
    """
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    unfinished = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        return unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
