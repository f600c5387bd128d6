"""A real blob store of Azure's protocol on this machine: Microsoft's Azurite, a program for Node.

It is fetched once from npm, at a pinned version, into the cache folder. It knows blobs and no Data Lake: an account without a
hierarchical namespace.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bronze.dev_broker.process import free_port
from lakehouse.storage.azure import AzureStorage

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = "3.35.0"
CONTAINER = "lake"

_HOST = "127.0.0.1"
_ACCOUNT = "devstoreaccount1.dfs.core.windows.net"
_ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Azurite's own, in its documentation: nothing is behind it."""
_PATIENCE_SECONDS = 60


def root(name: str) -> str:
    """The URI of a folder in the container; `abfs`, because the server speaks no TLS."""
    return f"abfs://{CONTAINER}@{_ACCOUNT}/{name}"


def account(port: int) -> AzureStorage:
    """How the store is reached."""
    return AzureStorage(_ACCOUNT, _ACCOUNT_KEY, endpoint=f"http://{_HOST}:{port}")


@contextlib.contextmanager
def azurite(folder: Path) -> Iterator[int]:
    """Start a store with an empty container; yields its port.

    Raises:
        FileNotFoundError: There is no Node on this machine.
        TimeoutError: It did not start.
    """
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        *("node", str(_program()), "--blobHost", _HOST, "--blobPort", str(port), "--location", str(folder)),
        *("--silent", "--skipApiVersionCheck", "--disableTelemetry"),
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:
        _make_container(port, folder / "log")
        yield port
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _make_container(port: int, log: Path) -> None:
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            account(port).files().create_dir(CONTAINER)
        except OSError as error:
            if time.monotonic() > until:
                raise TimeoutError(log.read_text(errors="replace")[-2000:]) from error
            time.sleep(0.2)
        else:
            return


def _program() -> Path:
    """The program's file; fetched where it is not in the cache."""
    caches = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(caches) if caches else Path.home() / ".cache") / "tidemark"
    kept = folder / f"azurite-{VERSION}"
    if not kept.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as fresh:
            command = ["npm", "install", "--prefix", fresh, "--no-audit", "--no-fund", "--ignore-scripts", f"azurite@{VERSION}"]
            subprocess.run(command, check=True, capture_output=True, timeout=600)
            Path(fresh).rename(kept)  # whole or not at all
            Path(fresh).mkdir()
    return kept / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
