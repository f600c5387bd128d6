"""Small files next to the tables, in a folder or a store: results of runs, and what a run leaves for later ones."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from lakehouse.machine import private_files
from lakehouse.uri import path_in_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakehouse.storage.store import Storage


class Folder(Protocol):
    """A folder of files next to the tables; it need not exist."""

    def read(self, name: str) -> str:
        """Return a file's text; raise a FileNotFoundError, another OSError, or a ValueError if it is not UTF-8."""

    def write(self, name: str, text: str) -> str:
        """Write a file, whole or not at all; return its place. Raises an OSError."""

    def names(self) -> list[str]:
        """Return the names of its files, in no particular order, without those of folders in it."""

    def fill(self, make: Callable[[Path], object]) -> str:
        """Keep the files that `make` writes to a local folder, and return their place. Raises an OSError."""


@dataclass(frozen=True)
class LocalFolder:
    """A folder of this machine that only its owner may read."""

    path: Path

    def read(self, name: str) -> str:
        """See `Folder`."""
        return (self.path / name).read_text(encoding="utf-8")

    def write(self, name: str, text: str) -> str:
        """See `Folder`."""
        return str(private_files.replace_file(private_files.folder(self.path) / name, text))

    def names(self) -> list[str]:
        """See `Folder`."""
        return [file.name for file in self.path.iterdir() if file.is_file()] if self.path.is_dir() else []

    def fill(self, make: Callable[[Path], object]) -> str:
        """See `Folder`. What is there stays."""
        make(private_files.folder(self.path))
        return str(self.path)


@dataclass(frozen=True)
class StoreFolder:
    """A folder in an object store, at the URI `place`. The store says who may read it."""

    storage: Storage
    place: str

    def read(self, name: str) -> str:
        """See `Folder`."""
        with self.storage.files().open_input_stream(f"{self._path}/{name}") as file:
            text: bytes = file.readall()
        return text.decode()

    def write(self, name: str, text: str) -> str:
        """See `Folder`."""
        with self.storage.files().open_output_stream(f"{self._path}/{name}") as file:
            file.write(text.encode())
        return f"{self.place}/{name}"

    def names(self) -> list[str]:
        """See `Folder`."""
        from pyarrow.fs import FileSelector, FileType

        found = self.storage.files().get_file_info(FileSelector(self._path, allow_not_found=True))
        return [each.base_name for each in found if each.type is FileType.File]

    def fill(self, make: Callable[[Path], object]) -> str:
        """See `Folder`. What was there is replaced."""
        files = self.storage.files()
        with tempfile.TemporaryDirectory(prefix="tidemark-") as made:
            make(Path(made))
            files.delete_dir_contents(self._path, missing_dir_ok=True)
            for file in Path(made).rglob("*"):  # one by one: in Azure, Arrow makes no folder in a folder
                if file.is_file():
                    with files.open_output_stream(f"{self._path}/{file.relative_to(made).as_posix()}") as there:
                        there.write(file.read_bytes())
        return self.place

    @property
    def _path(self) -> str:
        return path_in_store(self.place)
