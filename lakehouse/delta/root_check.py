"""Checks a lakehouse's root without Spark: its tables, their owner, and whether a commit can overwrite another."""

from __future__ import annotations

import contextlib
import os
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import obstore
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import from_url

from lakehouse.contracts.bronze import OWNER
from lakehouse.delta.stored_files import table_names
from lakehouse.table import BRONZE_RECORDS, TABLE_NAMES

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from lakehouse.storage.store import Storage
    from lakehouse.table import Lakehouse

ERRORS = (DeltaError, BaseError, pa.ArrowException, OSError)
"""The errors of a root that cannot be read or written."""
_REQUEST, _RETRIES = "20s", 2
"""How long a store is waited for, and how often it is asked again. By default that takes three minutes."""
_PATIENCE = {"timeout": _REQUEST, "max_retries": str(_RETRIES), "retry_timeout": "30s"}


@dataclass(frozen=True)
class Found:
    """The Delta tables of a root: Tidemark's, others, and Bronze's owner. In a store a root exists with its first object."""

    is_there: bool
    ours: list[str]
    others: list[str]
    owner: str | None


def look(lakehouse: Lakehouse, models: Collection[str]) -> Found:
    """Find the Delta tables directly under a root in files. Raises any of ERRORS."""
    names = table_names(lakehouse)
    tables = names or []
    ours = [name for name in TABLE_NAMES if name in tables]
    others = sorted(set(tables) - {*TABLE_NAMES, *models})
    return Found(names is not None, ours, others, _owner(lakehouse) if BRONZE_RECORDS in ours else None)


def _owner(lakehouse: Lakehouse) -> str | None:
    options = {**lakehouse.storage.for_delta_rs(), **_PATIENCE} if lakehouse.storage else None
    location = lakehouse.table(BRONZE_RECORDS).local_folder or lakehouse.table(BRONZE_RECORDS).location
    with contextlib.suppress(DeltaError):  # a session says why a table cannot be read
        return DeltaTable(location, storage_options=options).metadata().configuration.get(OWNER)
    return None


def is_exclusive(lakehouse: Lakehouse) -> bool | None:
    """Whether a second commit of the same version is refused where the tables are, by trying it. Raises any of ERRORS.

    In a folder, a file is linked twice to one name, as commits are. In a store, an object is put twice, if it is absent. A
    root that does not exist is tried in the nearest folder above it. None if a folder has no links: commits are renamed there,
    and only the lock on the root separates writers.
    """
    name = f"_check-{secrets.token_hex(8)}"
    if lakehouse.local_root is None:
        return _is_exclusive_in_store(_storage(lakehouse), str(lakehouse.root), name)
    return _is_exclusive_in_folder(_nearest_existing(lakehouse.local_root) / f".{name}")


def _nearest_existing(path: Path) -> Path:
    return next(each for each in (path, *path.parents) if each.exists())


def _is_exclusive_in_folder(file: Path) -> bool | None:
    target = file.with_name(f"{file.name}-linked")
    try:
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            target.hardlink_to(file)
        except OSError:
            return None
        try:
            target.hardlink_to(file)
        except FileExistsError:
            return True
        return False
    finally:
        with contextlib.suppress(OSError):
            target.unlink(missing_ok=True)
            file.unlink(missing_ok=True)


def _is_exclusive_in_store(storage: Storage, root: str, name: str) -> bool:
    given = storage.for_delta_rs()
    is_plain = [given.pop(key) for key in list(given) if key.lower().endswith("allow_http")]
    store = from_url(
        root,
        config=cast("Any", given),  # the options that delta-rs takes, whose store this is
        client_options={"allow_http": bool(is_plain), "timeout": _REQUEST},
        retry_config={"max_retries": _RETRIES},
    )
    try:
        obstore.put(store, name, b"first", mode="create")
        try:
            obstore.put(store, name, b"second", mode="create")
        except AlreadyExistsError:
            return True
        return False
    finally:
        with contextlib.suppress(*ERRORS):
            obstore.delete(store, name)


def _storage(lakehouse: Lakehouse) -> Storage:
    if lakehouse.storage is None:
        raise ValueError(f"{lakehouse.name} is in no store that can be reached from here")
    return lakehouse.storage
