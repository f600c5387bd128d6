"""Files of the tables, and small files next to them, in a folder or an object store. Knows no Spark."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lakehouse.machine import private_files

if TYPE_CHECKING:
    from obstore.store import ObjectStore

    from lakehouse.storage import Storage

_CLIENT = {"timeout": "60s", "connect_timeout": "10s"}
_RETRIES = 2  # of a request to a store; the default takes three minutes


@dataclass(frozen=True)
class Files:
    """Files under a folder, which need not exist, or objects under a URI of a store. Every method may raise an OSError."""

    place: str
    storage: Storage | None = None

    @cached_property
    def store(self) -> ObjectStore:
        """The store, with `place` as its root and the options of delta-rs; an OSError for a folder that cannot be read."""
        from obstore.store import LocalStore, from_url

        if self.storage is None:
            os.scandir(self.place).close()  # obstore's error does not say that there is no folder
            return LocalStore(self.place)
        options = self.storage.for_delta_rs()
        is_plain = [options.pop(key) for key in list(options) if key.lower().endswith("allow_http")]
        client = cast("Any", {**_CLIENT, "allow_http": bool(is_plain)})
        return from_url(self.place, config=cast("Any", options), client_options=client, retry_config={"max_retries": _RETRIES})

    @property
    def _is_missing_folder(self) -> bool:
        return self.storage is None and not Path(self.place).is_dir()

    def below(self, name: str) -> Files:
        """Return the files of a folder in it."""
        return Files(f"{self.place.rstrip('/')}/{name}", self.storage)

    def sizes(self) -> dict[str, int]:
        """Return the size of each file in bytes, by its path from here, without Hadoop's empty objects for folders."""
        if self._is_missing_folder:
            return {}
        with _os_errors():
            listed = [(each["path"], each["size"]) for each in self.store.list().collect()]
        return dict(sorted((path, size) for path, size in listed if size or "." in path.rpartition("/")[2]))

    def tables(self) -> list[str] | None:
        """Return the Delta tables that are folders in it; None if there is no folder, or no object of a store."""

        def is_table(name: str) -> bool:
            log = self.store.list(f"{name}/_delta_log", chunk_size=1)
            return any(each["path"].endswith(".json") for chunk in log for each in chunk)

        if self._is_missing_folder:
            return None
        with _os_errors(), ThreadPoolExecutor() as pool:
            listed = self.store.list_with_delimiter()
            names = sorted(each for each in listed["common_prefixes"] if not each.startswith(("_", ".")))
            found = [name for name, is_one in zip(names, pool.map(is_table, names), strict=True) if is_one]
        is_there = self.storage is None or listed["common_prefixes"] or listed["objects"]
        return found if is_there else None

    def read(self, name: str) -> bytes:
        """Return a file's content; raise a FileNotFoundError if it does not exist."""
        with _os_errors():
            return bytes(self.store.get(name).bytes())

    def write(self, name: str, text: str) -> str:
        """Write a file atomically and return its path. In a folder only its owner may read it; a store decides that itself."""
        if self.storage is None:
            return str(private_files.replace_file(private_files.folder(Path(self.place)) / name, text))
        with _os_errors():
            self.store.put(name, text.encode())
        return f"{self.place}/{name}"

    def remove(self, name: str) -> None:
        """Remove a file."""
        with _os_errors():
            self.store.delete(name)

    def fill(self, make: Callable[[Path], object]) -> str:
        """Let `make` write files into a folder, and return its path. Existing files stay; those of a store are replaced."""
        if self.storage is None:
            make(private_files.folder(Path(self.place)))
            return self.place
        with tempfile.TemporaryDirectory(prefix="tidemark-") as folder, _os_errors():
            make(Path(folder))
            self.store.delete(list(self.sizes()))
            for name in Files(folder).sizes():
                self.store.put(name, Path(folder, name))
        return self.place


@contextmanager
def _os_errors() -> Iterator[None]:
    """Raise a store's errors as OSErrors."""
    from obstore.exceptions import BaseError

    try:
        yield
    except BaseError as error:
        raise OSError(str(error)) from error
