"""The files under a place, in a folder of this machine or in an object store: listed, read and removed. Knows no Spark."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol, cast

from lakehouse.storage.google import GoogleStorage
from lakehouse.uri import path_in_store

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

    from lakehouse.storage.store import Storage
    from lakehouse.table import Lakehouse


class Files(Protocol):
    """All files under a place, also those in its folders; it need not exist."""

    @property
    def place(self) -> str:
        """The place, in an operator's terms."""

    def below(self, name: str) -> Files:
        """Return the files of a folder in it."""

    def sizes(self) -> dict[str, int]:
        """Return the bytes of each file, by its path from here. Raises an OSError."""

    def open(self, name: str) -> IO[bytes]:
        """Open a file to be read from any position; raise a FileNotFoundError or another OSError."""

    def remove(self, name: str) -> None:
        """Remove a file. Raises an OSError."""


@dataclass(frozen=True)
class LocalFiles:
    """Files under a folder of this machine, following links, each folder once."""

    folder: Path

    @property
    def place(self) -> str:
        """See `Files`."""
        return str(self.folder)

    def below(self, name: str) -> LocalFiles:
        """See `Files`."""
        return LocalFiles(self.folder / name)

    def sizes(self) -> dict[str, int]:
        """See `Files`."""
        seen, found = set(), {}
        for folder, below, names in os.walk(self.folder, followlinks=True):
            real = os.path.realpath(folder)
            if real in seen:
                below.clear()
                continue
            seen.add(real)
            below.sort()
            for path in (Path(folder, name) for name in sorted(names)):
                if path.is_file():
                    found[str(path.relative_to(self.folder))] = path.stat().st_size
        return found

    def open(self, name: str) -> IO[bytes]:
        """See `Files`."""
        return (self.folder / name).open("rb")

    def remove(self, name: str) -> None:
        """See `Files`."""
        (self.folder / name).unlink()


@dataclass(frozen=True)
class StoreFiles:
    """Objects under a prefix of a store, the URI `place`."""

    storage: Storage
    place: str

    def below(self, name: str) -> StoreFiles:
        """See `Files`."""
        return StoreFiles(self.storage, f"{self.place.rstrip('/')}/{name}")

    def sizes(self) -> dict[str, int]:
        """See `Files`."""
        from pyarrow.fs import FileSelector, FileType

        listed = self.storage.files().get_file_info(FileSelector(self._path, allow_not_found=True, recursive=True))
        beginning = f"{self._path}/"
        found = {each.path.removeprefix(beginning): each.size for each in listed if each.type is FileType.File}
        return dict(sorted(found.items()))

    def open(self, name: str) -> IO[bytes]:
        """See `Files`. The object is fetched whole to a local file without a name."""
        with self.storage.files().open_input_stream(f"{self._path}/{name}") as there:
            here = cast("IO[bytes]", tempfile.TemporaryFile())  # noqa: SIM115 -- the caller closes it
            shutil.copyfileobj(there, here)
        here.seek(0)
        return here

    def remove(self, name: str) -> None:
        """See `Files`."""
        self.storage.files().delete_file(f"{self._path}/{name}")

    @property
    def _path(self) -> str:
        return path_in_store(self.place)


def table_names(lakehouse: Lakehouse) -> list[str] | None:
    """Return the Delta tables directly under a root in files, or None. Raises an OSError or a DeltaError."""
    if (root := lakehouse.local_root) is not None:
        logs = root.glob("[!_.]*/_delta_log")
        return sorted(log.parent.name for log in logs if any(log.glob("*.json"))) if root.is_dir() else None
    if lakehouse.root is None or lakehouse.storage is None:
        raise ValueError(lakehouse)
    return _names_in_store(lakehouse.storage, lakehouse.root)


def _names_in_store(storage: Storage, root: str) -> list[str] | None:
    from pyarrow.fs import FileSelector, FileType

    files = _listing(storage, root)
    listed = files.get_file_info(FileSelector("", allow_not_found=True))
    names = sorted(found.base_name for found in listed if not found.base_name.startswith(("_", ".")))
    signs = [f"{name}/_delta_log/{sign}" for name in names for sign in (f"{0:020}.json", "_last_checkpoint")]
    there = {found.path for found in files.get_file_info(signs) if found.type is FileType.File} if signs else set()
    return [name for name in names if any(path.startswith(f"{name}/_delta_log/") for path in there)] if listed else None


def _listing(storage: Storage, root: str) -> FileSystem:
    """Return what lists the folders under a root: Arrow, or delta-rs where Arrow sees none."""
    from deltalake.fs import DeltaStorageHandler
    from pyarrow.fs import PyFileSystem, SubTreeFileSystem

    if isinstance(storage, GoogleStorage):
        return PyFileSystem(DeltaStorageHandler(root, storage.for_delta_rs()))
    return SubTreeFileSystem(path_in_store(root), storage.files())


def files_of(lakehouse: Lakehouse) -> Files | None:
    """Return all files under a lakehouse's root; None for a catalog's tables, and where only Spark reaches the root."""
    if lakehouse.local_root is not None:
        return LocalFiles(lakehouse.local_root)
    if lakehouse.root is not None and lakehouse.storage is not None:
        return StoreFiles(lakehouse.storage, lakehouse.root)
    return None
