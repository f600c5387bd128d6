"""One writer on a local root: Delta on a local disk is not safe between processes."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from lakehouse.errors import AnotherWriterError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse.table import Lakehouse


@contextlib.contextmanager
def locked(lakehouse: Lakehouse, *, wait_seconds: float = 0) -> Iterator[None]:
    """Hold the lock of a local root; do nothing elsewhere, where the log store or the catalog decides who commits.

    The operating system releases the lock when its holder dies.

    Raises:
        AnotherWriterError: Another process holds it, and did so for the seconds that were waited.
    """
    root = lakehouse.local_root
    if root is None:
        yield
        return
    root.mkdir(parents=True, exist_ok=True)
    path = root / ".tidemark.lock"
    lock = FileLock(path)
    try:
        lock.acquire(timeout=wait_seconds)
    except Timeout:
        raise AnotherWriterError(
            "Another run is writing to this lakehouse; this one has done nothing.",
            where=str(path),
            next_step="Wait until it has ended. Two pipelines that must run at once need a root each.",
        ) from None
    try:
        yield
    finally:
        lock.release()
