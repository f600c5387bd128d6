"""Checks a lakehouse's root without Spark: its tables, their owner, and whether a commit can overwrite another."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import obstore
import pyarrow as pa
from deltalake.exceptions import DeltaError
from obstore.exceptions import AlreadyExistsError, BaseError

from lakehouse.contracts.bronze import OWNER
from lakehouse.delta import log_files
from lakehouse.sidecar_files import Files
from lakehouse.table import BRONZE_RECORDS, TABLE_NAMES

if TYPE_CHECKING:
    from lakehouse.table import Lakehouse

ERRORS = (DeltaError, BaseError, pa.ArrowException, OSError)
"""The errors of a root that cannot be read or written."""


@dataclass(frozen=True)
class Found:
    """The Delta tables of a root: Tidemark's, others, and Bronze's owner. In a store a root exists with its first object."""

    is_there: bool
    ours: list[str]
    others: list[str]
    owner: str | None


def look(lakehouse: Lakehouse, models: Collection[str]) -> Found:
    """Find the Delta tables directly under a root in files. Raises any of ERRORS."""
    files = lakehouse.table_files
    names = files.tables() if files else None
    ours = [name for name in TABLE_NAMES if name in (names or [])]
    others = sorted({*(names or [])} - {*TABLE_NAMES, *models})
    owner = None
    if files and BRONZE_RECORDS in ours:
        with contextlib.suppress(DeltaError):  # a session reports why a table cannot be read
            owner = log_files.opened_from(files.below(BRONZE_RECORDS)).metadata().configuration.get(OWNER)
    return Found(names is not None, ours, others, owner)


def is_exclusive(lakehouse: Lakehouse) -> bool | None:
    """Try whether the tables' storage refuses a second commit of the same version. Raises any of ERRORS.

    A file is put twice with the condition that it is absent. In a folder that links it to its name, as commits are linked; for
    a missing root the nearest folder above it is tried. None if a folder has no links: commits are then renamed, and only the
    lock on the root separates writers.
    """
    root = lakehouse.local_root
    if root is None:
        files = Files(lakehouse.name, lakehouse.storage)
    else:
        files = Files(str(next(each for each in (root, *root.parents) if each.exists())))
    store, name = files.store, f"._check-{secrets.token_hex(8)}"
    try:
        obstore.put(store, name, b"first", mode="create")
        try:
            obstore.put(store, name, b"second", mode="create")
        except AlreadyExistsError:
            return True
    except BaseError:
        if root is None:
            raise
        obstore.put(store, name, b"without a link")
        return None
    else:
        return False
    finally:
        with contextlib.suppress(*ERRORS):
            obstore.delete(store, name)
