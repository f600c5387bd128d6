"""One writer per local root: Delta on a local disk is not safe between processes."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from lakehouse.errors import AnotherWriterError
from lakehouse.table import Lakehouse

_NAME = ".tidemark.lock"
_MAINTENANCE_SECONDS = 300  # a run waits so long for maintenance, which holds the lock for one table at a time
_BETWEEN_SECONDS = 0.2
"""Maintenance takes the lock and then its own lock. A run that starts in between must not take it for another run."""


@contextlib.contextmanager
def locked(lakehouse: Lakehouse, *, wait_seconds: float = 0, is_maintenance: bool = False) -> Iterator[None]:
    """Hold the lock of a local root. Does nothing for other roots, where the log store or the catalog decides on commits.

    A run waits `wait_seconds` for another run, then raises an `AnotherWriterError`. It waits longer for maintenance, which
    holds a second lock file. The operating system releases the locks of a process that dies.
    """
    root = lakehouse.local_root
    if root is None:
        yield
        return
    root.mkdir(parents=True, exist_ok=True)
    path = root / _NAME
    of_maintenance = FileLock(root / ".tidemark.maintenance.lock")
    second: contextlib.AbstractContextManager[object] = of_maintenance if is_maintenance else contextlib.nullcontext()
    with _acquired(path, of_maintenance, wait_seconds), second:
        yield


def require_no_run(lakehouse: Lakehouse) -> None:
    """Raise an `AnotherWriterError` if another run holds the lock of a local root. Waits for maintenance; creates no file."""
    root = lakehouse.local_root
    if root is not None and (root / _NAME).exists():
        with locked(lakehouse):
            pass


def _acquired(path: Path, of_maintenance: FileLock, wait_seconds: float) -> contextlib.AbstractContextManager[object]:
    started, lock, wait = time.monotonic(), FileLock(path), wait_seconds
    while True:
        with contextlib.suppress(Timeout):
            return lock.acquire(timeout=wait)
        waited, wait = time.monotonic() - started, _BETWEEN_SECONDS
        if waited >= wait_seconds + _BETWEEN_SECONDS and (waited >= _MAINTENANCE_SECONDS or not _is_held(of_maintenance)):
            raise AnotherWriterError(
                "Another run is writing to this lakehouse; this run wrote nothing.",
                where=str(path),
                next_step="Wait until it has ended. Two pipelines that must run at once need a root each.",
            )


def _is_held(lock: FileLock) -> bool:
    with contextlib.suppress(Timeout), lock.acquire(timeout=0):
        return False
    return True
