"""Where tables are: in the place that TESTS_PLACE names, else in a folder, and for tests marked `everywhere` also in S3."""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import obstore
from pyspark.sql import SparkSession

from lakehouse.sidecar_files import Files
from lakehouse.spark.session import FILE_MANAGER
from lakehouse.storage import S3Storage, Storage
from lakehouse.table import Lakehouse
from tests.support.object_store import BUCKET, azurite, fake_gcs, object_store, section, storage
from tests.support.spark_servers import metastore

PLACE = os.environ.get("TESTS_PLACE", "folder")
PLACES = (PLACE,) if PLACE != "folder" else ("folder", "s3")
CATALOG = "spark_catalog"


@dataclass(frozen=True)
class Place:
    lakehouse: Callable[[Path], Lakehouse]  # the tables that belong to a folder
    config: Callable[[Path], dict[str, Any]]  # the same, as the section `lakehouse` of a config
    session: Lakehouse = field(default_factory=Lakehouse)  # what a session gets that is opened for it
    settings: Mapping[str, str] = field(default_factory=dict)  # what is set on that session afterwards
    of_schema: Callable[[Path], str] = str  # where a schema puts the tables that belong to a folder


@contextlib.contextmanager
def in_folder() -> Iterator[Place]:
    """Tables in folders. The session has the jars for S3 too, and of a session for S3 nothing else."""
    yield Place(
        lambda own: Lakehouse(root=str(own)),
        lambda own: {"root": str(own)},
        Lakehouse(storage=S3Storage()),
        {"spark.sql.streaming.checkpointFileManagerClass": FILE_MANAGER},
    )


def _below(uri: str, given: Storage, section: dict[str, Any], settings: Mapping[str, str] | None = None) -> Place:
    return Place(
        lambda own: Lakehouse(root=f"{uri}/{name_of(own)}", storage=given),
        lambda own: {"root": f"{uri}/{name_of(own)}", "storage": section},
        Lakehouse(storage=given),
        settings or {},
    )


def in_store(port: int) -> Place:
    given = storage(port)
    return _below(f"s3://{BUCKET}", given, section("root", "", given)["storage"])


@contextlib.contextmanager
def in_azure(folder: Path) -> Iterator[Place]:
    with azurite(folder) as (given, uri):
        os.environ["TESTS_ACCOUNT_KEY"] = given.account_key or ""
        yield _below(uri, given, {"endpoint": given.endpoint, "account_key": "${env:TESTS_ACCOUNT_KEY}"})


@contextlib.contextmanager
def in_google(folder: Path) -> Iterator[Place]:
    """The server knows no move of an object, so the connector copies and deletes instead."""
    with fake_gcs(folder) as (given, uri):
        yield _below(uri, given, {"endpoint": given.endpoint}, {"fs.gs.operation.move.enable": "false"})


@contextlib.contextmanager
def in_metastore(folder: Path) -> Iterator[Place]:
    with metastore(folder) as address:
        session = Lakehouse(catalog=CATALOG, metastore=address)
        yield Place(
            lambda own: replace(session, schema=name_of(own), volume=f"{own}-volume"),
            lambda own: {"catalog": CATALOG, "metastore": address, "schema": name_of(own), "volume": f"{own}-volume"},
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
    assert original.table_files is not None
    _copy_all(original.table_files, new.table_files)


def upload(folder: Path, root: str, storage: S3Storage) -> None:
    _copy_all(Files(str(folder)), Files(root, storage))


def _copy_all(here: Files, there: Files | None) -> None:
    assert there is not None
    store = there.store
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: obstore.put(store, name, here.read(name)), here.sizes()))


def copy_schema(spark: SparkSession, original: Lakehouse, new: Lakehouse, folder: Path) -> None:
    """Copy the tables of a schema, which lie in folders, and what lies beside them, into the schema of another folder."""
    described = spark.sql(f"DESCRIBE DATABASE {original.schema}").collect()
    place = next(row["info_value"] for row in described if row["info_name"] == "Location").removeprefix("file:")
    for table in sorted(each for each in Path(place).iterdir() if (each / "_delta_log").is_dir()):
        shutil.copytree(table, folder / table.name)
        spark.sql(f"CREATE TABLE {new.schema}.{table.name} USING delta LOCATION '{folder / table.name}'")
    shutil.copytree(str(original.volume), str(new.volume), dirs_exist_ok=True)


def name_of(folder: Path) -> str:
    return f"t{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}"
