"""Where the tables of a test are: in a folder, in S3, in Azure, in Google's store, or in a Hive Metastore.

A test process has one session, and a session one catalog: TESTS_PLACE=metastore makes it a metastore's, and all its tables are
there; TESTS_PLACE=azure, google and metastore-s3 likewise. Otherwise tables are in folders, and those of tests that are marked
`everywhere` in a folder and in S3.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse.spark.session import FILE_MANAGER
from lakehouse.storage.s3 import S3Storage
from lakehouse.table import Lakehouse
from lakehouse.uri import path_in_store
from tests.support import azurite, fake_gcs
from tests.support.metastore import metastore
from tests.support.object_store import BUCKET, object_store, section, storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import SparkSession

PLACE = os.environ.get("TESTS_PLACE", "folder")
PLACES = (PLACE,) if PLACE != "folder" else ("folder", "s3")
CATALOG = "spark_catalog"
_ACCOUNT_KEY = "TESTS_ACCOUNT_KEY"


@dataclass(frozen=True)
class Place:
    """A place of tables.

    Attributes:
        lakehouse: The tables that belong to a folder.
        config: The same, as the section `lakehouse` of a config.
        session: What a session gets that is opened for it.
        settings: What is set on that session afterwards.
        of_schema: Where a schema puts the tables that belong to a folder.
    """

    lakehouse: Callable[[Path], Lakehouse]
    config: Callable[[Path], dict[str, Any]]
    session: Lakehouse = field(default_factory=Lakehouse)
    settings: Mapping[str, str] = field(default_factory=dict)
    of_schema: Callable[[Path], str] = str


@contextlib.contextmanager
def in_folder() -> Iterator[Place]:
    """Tables in folders. The session has the jars for S3 too, and of a session for S3 nothing else."""
    yield Place(
        lambda own: Lakehouse(root=str(own)),
        lambda own: {"root": str(own)},
        Lakehouse(storage=S3Storage()),
        {"spark.sql.streaming.checkpointFileManagerClass": FILE_MANAGER},
    )


def in_store(port: int) -> Place:
    """Tables in an S3 store."""
    given = storage(port)
    return Place(
        lambda own: Lakehouse(root=f"s3://{BUCKET}/{name_of(own)}", storage=given),
        lambda own: section("root", f"s3://{BUCKET}/{name_of(own)}", given),
    )


@contextlib.contextmanager
def in_azure(folder: Path) -> Iterator[Place]:
    """Tables in a blob store of Azure's protocol, which is started for it."""
    with azurite.azurite(folder) as port:
        given = azurite.account(port)
        os.environ[_ACCOUNT_KEY] = given.account_key or ""
        section = {"endpoint": given.endpoint, "account_key": f"${{env:{_ACCOUNT_KEY}}}"}
        yield Place(
            lambda own: Lakehouse(root=azurite.root(name_of(own)), storage=given),
            lambda own: {"root": azurite.root(name_of(own)), "storage": section},
            Lakehouse(storage=given),
        )


@contextlib.contextmanager
def in_google(folder: Path) -> Iterator[Place]:
    """Tables in a store of Google's protocol, which is started for it."""
    with fake_gcs.fake_gcs(folder) as port:
        given = fake_gcs.reached_at(port)
        yield Place(
            lambda own: Lakehouse(root=f"gs://{fake_gcs.BUCKET}/{name_of(own)}", storage=given),
            lambda own: {"root": f"gs://{fake_gcs.BUCKET}/{name_of(own)}", "storage": {"endpoint": given.endpoint}},
            Lakehouse(storage=given),
            fake_gcs.MOVE_BY_COPY,
        )


@contextlib.contextmanager
def in_metastore(folder: Path) -> Iterator[Place]:
    """Tables of a Hive Metastore, which is started for it."""
    with metastore(folder) as address:
        session = Lakehouse(catalog=CATALOG, metastore=address)
        yield Place(
            lambda own: replace(session, schema=name_of(own), volume=volume_of(own)),
            lambda own: {"catalog": CATALOG, "metastore": address, "schema": name_of(own), "volume": volume_of(own)},
            session,
        )


@contextlib.contextmanager
def in_metastore_and_s3(folder: Path) -> Iterator[Place]:
    """Tables of a Hive Metastore that lie in S3, as do their volumes; both are started for it."""
    with object_store(folder / "store") as port, metastore(folder / "schemas", given := storage(port)) as address:
        session = Lakehouse(catalog=CATALOG, metastore=address, storage=given)

        def place(own: Path) -> dict[str, Any]:
            volume = f"s3://{BUCKET}/{name_of(own)}-volume"
            return {"catalog": CATALOG, "metastore": address, "schema": name_of(own), **section("volume", volume, given)}

        yield Place(
            lambda own: replace(session, schema=name_of(own), volume=place(own)["volume"]),
            place,
            session,
            of_schema=lambda own: f"s3://{BUCKET}/{name_of(own)}",
        )


STARTED = {"azure": in_azure, "google": in_google, "metastore": in_metastore, "metastore-s3": in_metastore_and_s3}
"""What a test process starts for a place, in a folder of its own."""


def copy_objects(original: Lakehouse, new: Lakehouse) -> None:
    """Copy all that lies under one root in a store to another."""
    from pyarrow.fs import FileSelector, FileType

    assert original.storage is not None
    files = original.storage.files()
    before, after = (path_in_store(str(each.root)) for each in (original, new))

    def copy(path: str) -> None:
        with files.open_input_stream(path) as here, files.open_output_stream(after + path.removeprefix(before)) as there:
            there.write(here.readall())

    found = files.get_file_info(FileSelector(before, recursive=True))
    with ThreadPoolExecutor(8) as pool:  # an empty one is the sign of a folder
        list(pool.map(copy, (each.path for each in found if each.type is FileType.File and each.size)))


def upload(folder: Path, root: str, storage: S3Storage) -> None:
    """Copy the tables of a folder under a root in a store."""
    files, place = storage.files(), path_in_store(root)

    def copy(file: Path) -> None:
        with files.open_output_stream(f"{place}/{file.relative_to(folder).as_posix()}") as there:
            there.write(file.read_bytes())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(copy, (file for file in folder.rglob("*") if file.is_file())))


def copy_schema(spark: SparkSession, original: Lakehouse, new: Lakehouse, folder: Path) -> None:
    """Copy the tables of a schema, which lie in folders, and what lies beside them, into the schema of another folder."""
    described = spark.sql(f"DESCRIBE DATABASE {original.schema}").collect()
    place = next(row["info_value"] for row in described if row["info_name"] == "Location").removeprefix("file:")
    for table in sorted(each for each in Path(place).iterdir() if (each / "_delta_log").is_dir()):
        shutil.copytree(table, folder / table.name)
        spark.sql(f"CREATE TABLE {new.schema}.{table.name} USING delta LOCATION '{folder / table.name}'")
    shutil.copytree(str(original.volume), str(new.volume), dirs_exist_ok=True)


def volume_of(folder: Path) -> str:
    """The volume beside the tables of a catalog."""
    return str(folder.with_name(f"{folder.name}-volume"))


def name_of(folder: Path) -> str:
    """A name for the tables that belong to a folder: of a schema, or under a bucket."""
    return f"t{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}"
