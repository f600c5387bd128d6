"""A server that a test process starts for itself, and stops; and the programs of servers that no Python package brings."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.machine import jars

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

PATIENCE_SECONDS = 60
_START_SECONDS = 180
"""On a machine that other tests fill, a registry in Java takes more than one minute."""


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
    until = time.monotonic() + _START_SECONDS
    while True:
        try:
            first()
        except OSError as error:
            if time.monotonic() > until:
                raise TimeoutError(log.read_text(errors="replace")[-2000:]) from error
            time.sleep(0.2)
        else:
            return


def kept_program(name: str, make: Callable[[Path], Path]) -> Path:
    """A program in the cache folder; where it is not there, `make` puts it into a temporary folder and answers its place."""
    place = jars.cache_dir().parent / name
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as work:
            make(Path(work)).rename(place)  # whole or not at all
    return place
