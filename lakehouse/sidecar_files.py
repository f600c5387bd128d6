"""Files of the tables, and small files next to them, in a folder or an object store. Knows no Spark."""

from __future__ import annotations

import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from lakehouse.machine import private_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from obstore.store import ObjectStore

    from lakehouse.storage import Storage

_CLIENT = {"timeout": "60s", "connect_timeout": "10s"}
_RETRIES = 2  # of a request to a store; the default takes three minutes


@dataclass(frozen=True)
class LocalFiles:
    """Files under a folder of this machine, which need not exist; links are followed. Every method may raise an OSError."""

    folder: Path

    @property
    def place(self) -> str:
        """The folder, for messages."""
        return str(self.folder)

    def below(self, name: str) -> LocalFiles:
        """Return the files of a folder in it."""
        return LocalFiles(self.folder / name)

    def sizes(self) -> dict[str, int]:
        """Return the size of each file in bytes, by its path from here. A folder that links lead to twice counts once."""
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

    def tables(self) -> list[str] | None:
        """Return the Delta tables that are folders in it; None if the folder does not exist."""
        logs = self.folder.glob("[!_.]*/_delta_log")
        return sorted(log.parent.name for log in logs if any(log.glob("*.json"))) if self.folder.is_dir() else None

    def read(self, name: str) -> bytes:
        """Return a file's content; raise a FileNotFoundError if it does not exist."""
        return (self.folder / name).read_bytes()

    def write(self, name: str, text: str) -> str:
        """Write a file atomically, readable by its owner only; return its path."""
        return str(private_files.replace_file(private_files.folder(self.folder) / name, text))

    def remove(self, name: str) -> None:
        """Remove a file."""
        (self.folder / name).unlink()

    def fill(self, make: Callable[[Path], object]) -> str:
        """Let `make` write files into the folder; return its path. Existing files stay."""
        make(private_files.folder(self.folder))
        return str(self.folder)


@dataclass(frozen=True)
class StoreFiles:
    """Objects under the URI `place` of a store, with the methods of `LocalFiles`. The store decides who may read them."""

    storage: Storage
    place: str

    @cached_property
    def store(self) -> ObjectStore:
        """The store, with `place` as its root and the options of delta-rs."""
        from obstore.store import from_url

        options = self.storage.for_delta_rs()
        is_plain = [options.pop(key) for key in list(options) if key.lower().endswith("allow_http")]
        client = cast("Any", {**_CLIENT, "allow_http": bool(is_plain)})
        return from_url(self.place, config=cast("Any", options), client_options=client, retry_config={"max_retries": _RETRIES})

    def below(self, name: str) -> StoreFiles:
        """See `LocalFiles`."""
        return StoreFiles(self.storage, f"{self.place.rstrip('/')}/{name}")

    def sizes(self) -> dict[str, int]:
        """See `LocalFiles`. An empty object without a suffix is how Hadoop marks a folder; it is left out."""
        with _os_errors():
            listed = [(each["path"], each["size"]) for each in self.store.list().collect()]
        return dict(sorted((path, size) for path, size in listed if size or "." in path.rpartition("/")[2]))

    def tables(self) -> list[str] | None:
        """See `LocalFiles`. None if there is no object."""

        def is_table(name: str) -> bool:
            log = self.store.list(f"{name}/_delta_log", chunk_size=1)
            return any(each["path"].endswith(".json") for chunk in log for each in chunk)

        with _os_errors(), ThreadPoolExecutor() as pool:
            listed = self.store.list_with_delimiter()
            names = sorted(each for each in listed["common_prefixes"] if not each.startswith(("_", ".")))
            found = [name for name, is_one in zip(names, pool.map(is_table, names), strict=True) if is_one]
        return found if listed["common_prefixes"] or listed["objects"] else None

    def read(self, name: str) -> bytes:
        """See `LocalFiles`."""
        with _os_errors():
            return bytes(self.store.get(name).bytes())

    def write(self, name: str, text: str) -> str:
        """See `LocalFiles`."""
        with _os_errors():
            self.store.put(name, text.encode())
        return f"{self.place}/{name}"

    def remove(self, name: str) -> None:
        """See `LocalFiles`."""
        with _os_errors():
            self.store.delete(name)

    def fill(self, make: Callable[[Path], object]) -> str:
        """See `LocalFiles`. Existing files are replaced."""
        with tempfile.TemporaryDirectory(prefix="tidemark-") as folder, _os_errors():
            make(Path(folder))
            self.store.delete(list(self.sizes()))
            for name in LocalFiles(Path(folder)).sizes():
                self.store.put(name, Path(folder, name))
        return self.place


Files: TypeAlias = LocalFiles | StoreFiles


@contextmanager
def _os_errors() -> Iterator[None]:
    """Raise a store's errors as OSErrors."""
    from obstore.exceptions import BaseError

    try:
        yield
    except BaseError as error:
        raise OSError(str(error)) from error
