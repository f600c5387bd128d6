"""One writer per local root: Delta on a local disk is not safe between processes."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from lakehouse.errors import AnotherWriterError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakehouse.table import Lakehouse

_NAME = ".tidemark.lock"
_MAINTENANCE_SECONDS = 300
"""How many seconds a run waits for maintenance, which holds the lock for one table at a time."""
_BETWEEN_SECONDS = 0.2
"""Maintenance takes the lock and then its own lock. A run that starts in between must not mistake it for a run."""


@contextlib.contextmanager
def locked(lakehouse: Lakehouse, *, wait_seconds: float = 0, is_maintenance: bool = False) -> Iterator[None]:
    """Hold the lock of a local root. Does nothing for other roots, where the log store or the catalog arbitrates commits.

    The operating system releases the lock when its holder dies. A run waits `wait_seconds` for another run, then raises an
    `AnotherWriterError`. It always waits for maintenance, which holds a second lock file and releases the lock soon.
    """
    root = lakehouse.local_root
    if root is None:
        yield
        return
    root.mkdir(parents=True, exist_ok=True)
    path = root / _NAME
    of_maintenance = FileLock(root / ".tidemark.maintenance.lock")
    with contextlib.ExitStack() as held:
        _acquire(path, of_maintenance, wait_seconds, held)
        if is_maintenance:
            held.enter_context(of_maintenance)
        yield


def require_no_run(lakehouse: Lakehouse) -> None:
    """Raise an `AnotherWriterError` if another run holds a local root's lock. Waits for maintenance. Creates no file."""
    root = lakehouse.local_root
    if root is not None and (root / _NAME).exists():
        with locked(lakehouse):
            pass


def _acquire(path: Path, of_maintenance: FileLock, wait_seconds: float, held: contextlib.ExitStack) -> None:
    started = time.monotonic()
    lock, wait = FileLock(path), wait_seconds
    while True:
        try:
            held.enter_context(lock.acquire(timeout=wait))
        except Timeout:
            waited = time.monotonic() - started
            if waited < wait_seconds + _BETWEEN_SECONDS or (waited < _MAINTENANCE_SECONDS and _is_held(of_maintenance)):
                wait = _BETWEEN_SECONDS
                continue
            raise AnotherWriterError(
                "Another run is writing to this lakehouse; this one has done nothing.",
                where=str(path),
                next_step="Wait until it has ended. Two pipelines that must run at once need a root each.",
            ) from None
        return


def _is_held(lock: FileLock) -> bool:
    try:
        with lock.acquire(timeout=0):
            return False
    except Timeout:
        return True
