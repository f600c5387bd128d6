"""Files and folders that no other user of this machine may read: reports, and what runs leave for later runs."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

_OWNER_ONLY = 0o700


def folder(path: Path) -> Path:
    """Create a folder that only its owner may access, whatever the umask; an existing folder keeps its mode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=_OWNER_ONLY, exist_ok=True)
    return path


def replace_file(target: Path, text: str) -> Path:
    """Atomically write a file for its owner alone. Until it is whole, its name cannot be guessed, so no link can be planted."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    unfinished = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        return unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
