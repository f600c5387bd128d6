"""Output files of commands, replaced atomically."""

from __future__ import annotations

import contextlib
import secrets
from typing import TYPE_CHECKING

from lakehouse.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MODE = 0o777


@contextlib.contextmanager
def whole(file: Path, *, mode: int | None = None) -> Iterator[Path]:
    """Yield a path to write to, which replaces the file at the end; on failure the file stays unchanged.

    A replaced file keeps its mode; a new one gets `mode`, or the umask's. A pipe or device is written directly.

    Raises:
        UsageError: The file cannot be written.
    """
    place = file.resolve()
    is_replaced = place.is_file() or not place.exists()
    unfinished = place
    try:
        if is_replaced:  # under an unguessable name: no link can be waiting there
            unfinished = place.with_name(f".{place.name}.{secrets.token_hex(8)}.unfinished")
            unfinished.touch(exist_ok=False)
        yield unfinished
        if is_replaced:
            mode = place.stat().st_mode & _MODE if place.exists() else mode
            if mode is not None:
                unfinished.chmod(mode)
            unfinished.replace(place)
    except OSError as error:
        raise UsageError("The file cannot be written.", where=str(file), observed=error.strerror or str(error)) from error
    finally:
        if unfinished != place:
            unfinished.unlink(missing_ok=True)
