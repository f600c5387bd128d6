"""A real blob store of Azure's protocol on this machine: Microsoft's Azurite, a program for Node.

It is fetched once from npm, at a pinned version, into the cache folder. It knows blobs and no Data Lake: an account without a
hierarchical namespace.
"""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING

from bronze.dev_broker.process import free_port
from lakehouse.storage.azure import AzureStorage
from tests.support.served import kept_program, served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VERSION = "3.35.0"
CONTAINER = "lake"

_HOST = "127.0.0.1"
_ACCOUNT = "devstoreaccount1.dfs.core.windows.net"
_ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Azurite's own, in its documentation: nothing is behind it."""


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
    with served(command, folder, lambda: account(port).files().create_dir(CONTAINER)):
        yield port


def _program() -> Path:
    def fetch(work: Path) -> Path:
        command = ["npm", "install", "--prefix", str(work / "azurite"), "--no-audit", "--no-fund", "--ignore-scripts"]
        subprocess.run([*command, f"azurite@{VERSION}"], check=True, capture_output=True, timeout=600)
        return work / "azurite"

    folder = kept_program(f"azurite-{VERSION}", fetch)
    return folder / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
