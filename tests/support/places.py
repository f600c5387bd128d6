"""Where the tables of a test process are: TESTS_PLACE is folder (the default), s3 or metastore.

The session of each place has other jars or another catalog, and a process has one session. A test over `run` is the same test
in each place.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakehouse.table import Lakehouse
from tests.support.metastore import metastore
from tests.support.object_store import BUCKET, object_store, section, storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PLACE = os.environ.get("TESTS_PLACE", "folder")
CATALOG = "spark_catalog"


@dataclass(frozen=True)
class Place:
    """A place of tables.

    Attributes:
        session: What a session gets that is opened for it.
        lakehouse: The tables that belong to a folder.
        config: The same, as the section `lakehouse` of a config.
    """

    session: Lakehouse
    lakehouse: Callable[[Path], Lakehouse]
    config: Callable[[Path], dict[str, Any]]


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[Place]:
    """Open the place of this process, with the server that it needs."""
    if PLACE == "s3":
        with object_store(folder / "store") as port:
            given = storage(port)
            yield Place(
                Lakehouse(storage=given),
                lambda own: Lakehouse(root=f"s3://{BUCKET}/{name_of(own)}", storage=given),
                lambda own: section(f"s3://{BUCKET}/{name_of(own)}", given),
            )
    elif PLACE == "metastore":
        with metastore(folder / "metastore") as address:
            session = Lakehouse(catalog=CATALOG, metastore=address)
            yield Place(
                session,
                lambda own: replace(session, schema=name_of(own), volume=volume_of(own)),
                lambda own: {
                    "catalog": CATALOG,
                    "metastore": address,
                    "schema": name_of(own),
                    "volume": volume_of(own),
                },
            )
    else:
        yield Place(Lakehouse(), lambda own: Lakehouse(root=str(own)), lambda own: {"root": str(own)})


def volume_of(folder: Path) -> str:
    """The volume beside the tables of a catalog."""
    return str(folder.with_name(f"{folder.name}-volume"))


def name_of(folder: Path) -> str:
    """A name for the tables that belong to a folder: of a schema, or under a bucket."""
    return f"t{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}"
