"""Files and folders that no other user of this machine may read."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def folder(path: Path) -> Path:
    """Create a folder that only its owner may access; an existing folder keeps its mode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def replace_file(target: Path, text: str) -> Path:
    """Write a file atomically, for its owner only. The temporary name cannot be guessed, so nobody can plant a link there."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    unfinished = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        return unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
