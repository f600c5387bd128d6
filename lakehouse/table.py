"""Location of each table: a folder under one root, or a name in a catalog's schema."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.beside import LocalFolder, StoreFolder
from lakehouse.storage.store import storage_of
from lakehouse.uri import STORE_SCHEMES, scheme

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehouse.beside import Folder
    from lakehouse.settings.pipeline import Settings
    from lakehouse.storage.store import Storage

BRONZE_RECORDS = "bronze_records"
BRONZE_TOPICS = "bronze_topics"
SILVER_RECORDS = "silver_records"
SILVER_WATERMARKS = "silver_watermarks"
SILVER_REJECTS = "silver_rejects"
SILVER_LOADS = "silver_loads"
GATE_RESULTS = "gate_results"
GATE_DECISIONS = "gate_decisions"
GOLD_RECORDS = "gold_records"
GOLD_REJECTS = "gold_rejects"
GOLD_LATEST = "gold_latest"
GOLD_LATEST_BY_STREAM = "gold_latest_by_stream"
GOLD_STREAM_HEALTH = "gold_stream_health"

SHADOWS = "_shadow"
"""Where shadow tables are: in this folder under the root, or with this prefix in a schema."""

TABLE_NAMES = (
    BRONZE_RECORDS,
    BRONZE_TOPICS,
    SILVER_RECORDS,
    SILVER_WATERMARKS,
    SILVER_REJECTS,
    SILVER_LOADS,
    GATE_RESULTS,
    GATE_DECISIONS,
    GOLD_RECORDS,
    GOLD_REJECTS,
    GOLD_LATEST,
    GOLD_LATEST_BY_STREAM,
    GOLD_STREAM_HEALTH,
)

_COUNTED = {
    BRONZE_RECORDS: ("topic", "partition", "offset", "epoch", "sequence", "rules_fingerprint"),
    SILVER_REJECTS: (
        *("topic", "partition", "epoch", "first_offset", "last_offset", "first_sequence", "last_sequence"),
        *("load_seq", "settled_load_seq"),
    ),
    **dict.fromkeys(
        (SILVER_RECORDS, GOLD_RECORDS, GOLD_LATEST, GOLD_LATEST_BY_STREAM),
        ("topic", "partition", "offset", "epoch", "sequence", "load_seq"),
    ),
    SILVER_LOADS: (
        *("load_seq", "kind", "topic", "partition", "bronze_after_version", "bronze_to_version", "last_offset", "claimed_at"),
    ),
    SILVER_WATERMARKS: ("topic", "partition", "epoch", "high_watermark", "last_offset", "load_seq", "updated_at"),
    GATE_RESULTS: ("first_load_seq", "last_load_seq", "evaluated_at"),
    GATE_DECISIONS: ("first_load_seq", "last_load_seq", "decided_at"),
    GOLD_REJECTS: ("topic", "partition", "offset", "epoch", "sequence", "load_seq", "settled_load_seq"),
    GOLD_STREAM_HEALTH: ("load_seq", "topic", "partition", "last_offset", "published_at"),
}
"""The columns whose minimum and maximum Delta's log keeps: numbers, times, topics, kinds. No text of a record or producer."""

_OF_RECORDS = (*(BRONZE_RECORDS, SILVER_RECORDS, SILVER_REJECTS, GOLD_RECORDS, GOLD_LATEST, GOLD_LATEST_BY_STREAM),)
"""The tables that hold what records hold, or hashes of it."""


def holds_records(name: str) -> bool:
    """Whether a table may hold what records hold; an operator's model may.

    >>> holds_records("silver_rejects"), holds_records("silver_loads"), holds_records("incidents_by_day")
    (True, False, True)
    """
    return name in _OF_RECORDS or name not in TABLE_NAMES


def statistics(name: str) -> dict[str, str]:
    """Delta properties that keep texts of records and producers out of a table's log; none if the table has no such text.

    A log outlives the files that it names, so an erased key could still be read there. An operator's model gets no statistics
    at all: what its columns hold is unknown.

    >>> statistics("gate_results"), statistics("bronze_topics")
    ({'delta.dataSkippingStatsColumns': 'first_load_seq,last_load_seq,evaluated_at'}, {})
    >>> statistics("incidents_by_day")
    {'delta.dataSkippingNumIndexedCols': '0'}
    """
    if name in _COUNTED:
        return {"delta.dataSkippingStatsColumns": ",".join(_COUNTED[name])}
    return {} if name in TABLE_NAMES else {"delta.dataSkippingNumIndexedCols": "0"}


@dataclass(frozen=True)
class Table:
    """One Delta table.

    Attributes:
        name: The table's own name, for example `silver_records`.
        location: The folder or URI of a path table, or `catalog.schema.name`.
        is_path: Whether the location is a folder or URI.
        properties: Delta properties in addition to those of its contract.
    """

    name: str
    location: str
    is_path: bool
    properties: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def sql(self) -> str:
        """The table's name as SQL writes it.

        >>> Table("silver_records", "/data/silver_records", is_path=True).sql
        'delta.`/data/silver_records`'
        >>> Table("silver_records", "main.tidemark.silver_records", is_path=False).sql
        '`main`.`tidemark`.`silver_records`'
        """
        if self.is_path:
            return f"delta.`{_escape(self.location)}`"
        return ".".join(f"`{_escape(part)}`" for part in self.location.split("."))

    @property
    def local_folder(self) -> Path | None:
        """The table's folder if it is local, else None.

        >>> Table("silver_records", "file:/data/silver_records", is_path=True).local_folder.as_posix()
        '/data/silver_records'
        >>> Table("silver_records", "s3://bucket/silver_records", is_path=True).local_folder is None
        True
        """
        return local_path(self.location) if self.is_path else None

    def __str__(self) -> str:
        return self.location


@dataclass(frozen=True)
class Lakehouse:
    """All tables of one pipeline, under one root or in one schema.

    Attributes:
        root: The folder or URI that holds path tables; None for catalog tables.
        catalog: The catalog of named tables.
        schema: The schema of named tables.
        volume: Where the checkpoints and reports of named tables go.
        properties: Delta properties of every table.
        shadow: Name of a shadow, which has its own Silver tables and shares all others; None for the tables themselves.
        storage: How tables in an object store are reached; None for any other place, and where only the session reaches it.
        metastore: The address of the catalog's Hive Metastore, for a session that is started here; None for another catalog.
    """

    root: str | None = None
    catalog: str | None = None
    schema: str | None = None
    volume: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict, compare=False)
    shadow: str | None = None
    storage: Storage | None = field(default=None, compare=False)
    metastore: str | None = field(default=None, compare=False)

    @classmethod
    def of(cls, settings: Settings) -> Lakehouse:
        """The lakehouse that the settings, and the environment where they are silent, describe."""
        place = settings.lakehouse
        return cls(
            place.root,
            place.catalog,
            place.schema_,
            place.volume,
            settings.maintenance.table_properties,
            storage=storage_of(place, os.environ),
            metastore=place.metastore,
        )

    def table(self, name: str) -> Table:
        """The table of that name in this lakehouse.

        >>> Lakehouse(root="/data", shadow="s").table("silver_records").location
        '/data/_shadow/s/silver_records'
        >>> Lakehouse(root="/data", shadow="s").table("bronze_records").location
        '/data/bronze_records'
        """
        is_shadowed = self.shadow is not None and not name.startswith(("bronze_", "gold_", "gate_"))
        if self.root is not None:
            folder = f"{SHADOWS}/{self.shadow}/" if is_shadowed else ""
            location, is_path = f"{self.root.rstrip('/')}/{folder}{name}", True
        else:
            prefix = f"{SHADOWS}_{self.shadow}_" if is_shadowed else ""
            location, is_path = f"{self.catalog}.{self.schema}.{prefix}{name}", False
        return Table(name, location, is_path=is_path, properties={**self.properties, **statistics(name)})

    def folder(self, name: str) -> str:
        """A folder next to the tables (`_checkpoints`, `_reports`): under the root, or on the volume."""
        return f"{(self.root or self.volume or '').rstrip('/')}/{name}"

    def local_folder(self, name: str) -> Path | None:
        """A folder next to the tables as a local path, else None. Databricks mounts a volume at the path it names.

        >>> Lakehouse(catalog="main", schema="s", volume="/Volumes/main/s/v").local_folder("_reports").as_posix()
        '/Volumes/main/s/v/_reports'
        >>> Lakehouse(root="s3://bucket/lake").local_folder("_reports") is None
        True
        """
        return local_path(self.folder(name))

    def beside(self, name: str) -> Folder | None:
        """A folder next to the tables, for small files; None if only a session reaches it.

        A volume is a folder only on its platform: for a client elsewhere, its path leads nowhere.
        """
        place = self.folder(name)
        if self.storage is not None and scheme(place) in STORE_SCHEMES:
            return StoreFolder(self.storage, place)
        local = local_path(place)
        return LocalFolder(local) if local is not None and (self.root is not None or local.parent.is_dir()) else None

    @property
    def is_in_files(self) -> bool:
        """Whether the tables lie where they can be read without Spark: in a local folder or in an object store.

        >>> Lakehouse(catalog="main", schema="s").is_in_files
        False
        """
        return self.local_root is not None or (self.root is not None and self.storage is not None)

    @property
    def name(self) -> str:
        """The place of the tables in words.

        >>> Lakehouse(root="/data").name, Lakehouse(catalog="main", schema="s").name
        ('/data', 'main.s')
        """
        return self.root or f"{self.catalog}.{self.schema}"

    @property
    def local_root(self) -> Path | None:
        """The root as a local folder; None if the tables are elsewhere.

        >>> Lakehouse(root="/data/lake").local_root.as_posix()
        '/data/lake'
        >>> Lakehouse(root="file:/data/lake").local_root.as_posix()
        '/data/lake'
        >>> Lakehouse(root="s3://bucket/lake").local_root is None
        True
        """
        return None if self.root is None else local_path(self.root)


def local_path(location: str) -> Path | None:
    """A location as a local path; None if it is a URI of another store."""
    if location.startswith("file:"):
        return Path("/" + location.removeprefix("file:").lstrip("/"))
    return None if "://" in location else Path(location)


def _escape(identifier: str) -> str:
    return identifier.replace("`", "``")
