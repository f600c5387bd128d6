"""What every store answers, and which store a place is in."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

from lakehouse.storage.azure import AzureStorage
from lakehouse.storage.google import GoogleStorage
from lakehouse.storage.s3 import S3Storage
from lakehouse.uri import AZURE_SCHEMES, GOOGLE_SCHEMES, S3_SCHEMES, scheme

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyarrow.fs import FileSystem

    from lakehouse.settings.pipeline import LakehouseSettings


class Storage(Protocol):
    """A store of objects."""

    jars: ClassVar[str]
    """The set of jars that a session needs for it; see `lakehouse.machine.jars`."""

    def for_spark(self) -> dict[str, str]:
        """Return the settings of a Spark session that is started here."""

    def for_delta_rs(self) -> dict[str, str]:
        """Return the storage options of delta-rs."""

    def files(self) -> FileSystem:
        """Return the store as Arrow's file system, whose paths begin with the bucket or container."""


def storage_of(lakehouse: LakehouseSettings, environ: Mapping[str, str]) -> Storage | None:
    """Return the store of a lakehouse's root, or of a catalog's tables if the config names one; None if they are in none."""
    place, given = lakehouse.root or lakehouse.volume or "", lakehouse.storage
    name = scheme(place)
    if name in AZURE_SCHEMES:
        return AzureStorage.of(place, given, environ)
    if name in GOOGLE_SCHEMES:
        return GoogleStorage(given.endpoint if given else None)
    if name in S3_SCHEMES or given is not None:
        return S3Storage.of(given, environ)
    return None
