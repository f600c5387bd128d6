"""Checks a lakehouse's root without Spark: its tables, their owner, and whether a commit can overwrite another."""

from __future__ import annotations

import contextlib
import os
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import obstore
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from obstore.exceptions import AlreadyExistsError, BaseError

from lakehouse.contracts.bronze import OWNER
from lakehouse.table import BRONZE_RECORDS, TABLE_NAMES

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from lakehouse.sidecar_files import StoreFiles
    from lakehouse.table import Lakehouse

ERRORS = (DeltaError, BaseError, pa.ArrowException, OSError)
"""The errors of a root that cannot be read or written."""
_PATIENCE = {"timeout": "20s", "max_retries": "2", "retry_timeout": "30s"}
"""Timeout and retries of requests to a store. The defaults take three minutes."""


@dataclass(frozen=True)
class Found:
    """The Delta tables of a root: Tidemark's, others, and Bronze's owner. In a store a root exists with its first object."""

    is_there: bool
    ours: list[str]
    others: list[str]
    owner: str | None


def look(lakehouse: Lakehouse, models: Collection[str]) -> Found:
    """Find the Delta tables directly under a root in files. Raises any of ERRORS."""
    names = lakehouse.table_files.tables() if lakehouse.table_files else None
    tables = names or []
    ours = [name for name in TABLE_NAMES if name in tables]
    others = sorted(set(tables) - {*TABLE_NAMES, *models})
    return Found(names is not None, ours, others, _owner(lakehouse) if BRONZE_RECORDS in ours else None)


def _owner(lakehouse: Lakehouse) -> str | None:
    options = {**lakehouse.storage.for_delta_rs(), **_PATIENCE} if lakehouse.storage else None
    location = lakehouse.table(BRONZE_RECORDS).local_folder or lakehouse.table(BRONZE_RECORDS).location
    with contextlib.suppress(DeltaError):  # a session reports why a table cannot be read
        return DeltaTable(location, storage_options=options).metadata().configuration.get(OWNER)
    return None


def is_exclusive(lakehouse: Lakehouse) -> bool | None:
    """Try whether the tables' storage refuses a second commit of the same version. Raises any of ERRORS.

    In a folder, a file is linked twice to one name, as commits are. In a store, an object is put twice with the condition that
    it is absent. For a missing root the nearest folder above it is tried. None if a folder has no links: commits are then
    renamed, and only the lock on the root separates writers.
    """
    name = f"_check-{secrets.token_hex(8)}"
    if (root := lakehouse.local_root) is not None:
        return _is_exclusive_in_folder(next(each for each in (root, *root.parents) if each.exists()) / f".{name}")
    return _is_exclusive_in_store(cast("StoreFiles", lakehouse.table_files), name)  # asked only of tables in files


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


def _is_exclusive_in_store(files: StoreFiles, name: str) -> bool:
    try:
        obstore.put(files.store, name, b"first", mode="create")
        try:
            obstore.put(files.store, name, b"second", mode="create")
        except AlreadyExistsError:
            return True
        return False
    finally:
        with contextlib.suppress(*ERRORS):
            obstore.delete(files.store, name)
