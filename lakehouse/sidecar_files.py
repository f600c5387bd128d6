"""Files of the tables, and small files next to them, in a folder or an object store. Knows no Spark."""

from __future__ import annotations

import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from lakehouse.machine import private_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from obstore.store import ObjectStore

    from lakehouse.storage import Storage

_CLIENT = {"timeout": "60s", "connect_timeout": "10s"}
_RETRIES = 2
"""How often a store is asked again. By default that takes three minutes."""


class Files(Protocol):
    """All files in a place, also those in its folders; it need not exist. Every method may raise an OSError."""

    @property
    def place(self) -> str:
        """The place, in an operator's terms."""

    def below(self, name: str) -> Files:
        """Return the files of a folder in it."""

    def sizes(self) -> dict[str, int]:
        """Return the bytes of each file, by its path from here."""

    def tables(self) -> list[str] | None:
        """Return the Delta tables that are folders in it; None if there is nothing."""

    def read(self, name: str) -> bytes:
        """Return a file's content; raise a FileNotFoundError if it does not exist."""

    def write(self, name: str, text: str) -> str:
        """Write a file, whole or not at all; return its place."""

    def remove(self, name: str) -> None:
        """Remove a file."""

    def fill(self, make: Callable[[Path], object]) -> str:
        """Keep the files that `make` writes to a local folder, and return their place."""


@dataclass(frozen=True)
class LocalFiles:
    """Files under a folder of this machine, following links, each folder once. Only the owner may read a written file."""

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

    def tables(self) -> list[str] | None:
        """See `Files`."""
        logs = self.folder.glob("[!_.]*/_delta_log")
        return sorted(log.parent.name for log in logs if any(log.glob("*.json"))) if self.folder.is_dir() else None

    def read(self, name: str) -> bytes:
        """See `Files`."""
        return (self.folder / name).read_bytes()

    def write(self, name: str, text: str) -> str:
        """See `Files`."""
        return str(private_files.replace_file(private_files.folder(self.folder) / name, text))

    def remove(self, name: str) -> None:
        """See `Files`."""
        (self.folder / name).unlink()

    def fill(self, make: Callable[[Path], object]) -> str:
        """See `Files`. Existing files stay."""
        make(private_files.folder(self.folder))
        return str(self.folder)


@dataclass(frozen=True)
class StoreFiles:
    """Objects under a prefix of a store, the URI `place`. The store says who may read them."""

    storage: Storage
    place: str

    @cached_property
    def store(self) -> ObjectStore:
        """The store, with the prefix as its root, and with the options of delta-rs."""
        from obstore.store import from_url

        options = self.storage.for_delta_rs()
        is_plain = [options.pop(key) for key in list(options) if key.lower().endswith("allow_http")]
        client = cast("Any", {**_CLIENT, "allow_http": bool(is_plain)})
        return from_url(self.place, config=cast("Any", options), client_options=client, retry_config={"max_retries": _RETRIES})

    def below(self, name: str) -> StoreFiles:
        """See `Files`."""
        return StoreFiles(self.storage, f"{self.place.rstrip('/')}/{name}")

    def sizes(self) -> dict[str, int]:
        """See `Files`. An empty object without a suffix is Hadoop's sign of a folder."""
        import obstore

        with _os_errors():
            listed = [(each["path"], each["size"]) for each in obstore.list(self.store).collect()]
        return dict(sorted((path, size) for path, size in listed if size or "." in path.rpartition("/")[2]))

    def tables(self) -> list[str] | None:
        """See `Files`."""
        import obstore

        def is_table(name: str) -> bool:
            log = obstore.list(self.store, f"{name}/_delta_log", chunk_size=1)
            return any(each["path"].endswith(".json") for chunk in log for each in chunk)

        with _os_errors(), ThreadPoolExecutor() as pool:
            listed = obstore.list_with_delimiter(self.store)
            names = sorted(each for each in listed["common_prefixes"] if not each.startswith(("_", ".")))
            found = [name for name, is_one in zip(names, pool.map(is_table, names), strict=True) if is_one]
        return found if listed["common_prefixes"] or listed["objects"] else None

    def read(self, name: str) -> bytes:
        """See `Files`."""
        import obstore

        with _os_errors():
            return bytes(obstore.get(self.store, name).bytes())

    def write(self, name: str, text: str) -> str:
        """See `Files`."""
        import obstore

        with _os_errors():
            obstore.put(self.store, name, text.encode())
        return f"{self.place}/{name}"

    def remove(self, name: str) -> None:
        """See `Files`."""
        import obstore

        with _os_errors():
            obstore.delete(self.store, name)

    def fill(self, make: Callable[[Path], object]) -> str:
        """See `Files`. Existing files are replaced."""
        import obstore

        with tempfile.TemporaryDirectory(prefix="tidemark-") as folder, _os_errors():
            make(Path(folder))
            obstore.delete(self.store, list(self.sizes()))
            for name in LocalFiles(Path(folder)).sizes():
                obstore.put(self.store, name, Path(folder, name))
        return self.place


@contextmanager
def _os_errors() -> Iterator[None]:
    """Raise a store's errors as OSErrors."""
    from obstore.exceptions import BaseError

    try:
        yield
    except BaseError as error:
        raise OSError(str(error)) from error
