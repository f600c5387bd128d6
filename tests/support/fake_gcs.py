"""A store of Google's protocol on this machine: fake-gcs-server, a program in Go.

It is built once, at a pinned version, into the cache folder. It keeps the conditions that Google's store keeps, and knows no
move of an object: `MOVE_BY_COPY` has the connector copy and delete instead.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from typing import TYPE_CHECKING

from bronze.dev_broker.process import free_port
from lakehouse.storage.google import GoogleStorage
from tests.support.served import kept_program, served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VERSION = "v1.56.1"
BUCKET = "lake"
MOVE_BY_COPY = {"fs.gs.operation.move.enable": "false"}
"""What is set on a session that was opened for the server."""

_HOST = "127.0.0.1"
_BUILD_SECONDS = 900


def reached_at(port: int) -> GoogleStorage:
    """How the store, or a proxy before it, is reached."""
    return GoogleStorage(f"http://{_HOST}:{port}")


@contextlib.contextmanager
def fake_gcs(folder: Path) -> Iterator[int]:
    """Start a store with an empty bucket; yields its port.

    Raises:
        FileNotFoundError: There is no Go on this machine.
        TimeoutError: It did not start.
    """
    port = free_port()
    (folder / "objects" / BUCKET).mkdir(parents=True)
    command = [
        *(str(_program()), "-scheme", "http", "-host", _HOST, "-port", str(port), "-log-level", "error"),
        *("-filesystem-root", str(folder / "objects"), "-public-host", f"{_HOST}:{port}"),
    ]
    with served(command, folder, lambda: reached_at(port).files().get_file_info(BUCKET)):
        yield port


def _program() -> Path:
    def build(work: Path) -> Path:
        environ = {**os.environ, "GOBIN": str(work), "GOFLAGS": "-modcacherw", "GOPATH": str(work / "go")}
        command = ["go", "install", f"github.com/fsouza/fake-gcs-server@{VERSION}"]
        subprocess.run(command, check=True, capture_output=True, timeout=_BUILD_SECONDS, env=environ, cwd=work)
        return work / "fake-gcs-server"

    return kept_program(f"fake-gcs-server-{VERSION}", build)
