"""A server that a test process starts for itself, and stops."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

PATIENCE_SECONDS = 60


@contextlib.contextmanager
def served(command: Sequence[str], folder: Path, first: Callable[[], object]) -> Iterator[None]:
    """Run a server that keeps all it has in a folder, which goes with it.

    Args:
        command: What starts it.
        folder: Its folder, which exists; its log goes there too.
        first: What is asked of it first, again and again until it answers: an OSError until then.

    Raises:
        TimeoutError: It did not answer.
    """
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:
        _answered(first, folder / "log")
        yield
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _answered(first: Callable[[], object], log: Path) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            first()
        except OSError as error:
            if time.monotonic() > until:
                raise TimeoutError(log.read_text(errors="replace")[-2000:]) from error
            time.sleep(0.2)
        else:
            return
