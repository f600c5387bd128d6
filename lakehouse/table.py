"""Location of each table: a folder under one root, or a name in a catalog's schema."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from lakehouse.sidecar_files import Files
from lakehouse.storage import Storage, storage_of
from lakehouse.uri import STORE_SCHEMES, scheme

if TYPE_CHECKING:
    from lakehouse.settings.pipeline import Settings

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

SHADOWS = "_shadow"  # folder of the shadow tables under the root, or their prefix in a schema

TABLE_NAMES = (
    *(BRONZE_RECORDS, BRONZE_TOPICS),
    *(SILVER_RECORDS, SILVER_WATERMARKS, SILVER_REJECTS, SILVER_LOADS),
    *(GATE_RESULTS, GATE_DECISIONS),
    *(GOLD_RECORDS, GOLD_REJECTS, GOLD_LATEST, GOLD_LATEST_BY_STREAM, GOLD_STREAM_HEALTH),
)

_RECORD = "topic,partition,offset,epoch,sequence,load_seq"
_COUNTED = {
    BRONZE_RECORDS: "topic,partition,offset,epoch,sequence,rules_fingerprint",
    SILVER_RECORDS: _RECORD,
    SILVER_REJECTS: "topic,partition,epoch,first_offset,last_offset,first_sequence,last_sequence,load_seq,settled_load_seq",
    SILVER_LOADS: "load_seq,kind,topic,partition,bronze_after_version,bronze_to_version,last_offset,claimed_at",
    SILVER_WATERMARKS: "topic,partition,epoch,high_watermark,last_offset,load_seq,updated_at",
    GATE_RESULTS: "first_load_seq,last_load_seq,evaluated_at",
    GATE_DECISIONS: "first_load_seq,last_load_seq,decided_at",
    GOLD_RECORDS: _RECORD,
    GOLD_REJECTS: f"{_RECORD},settled_load_seq",
    GOLD_LATEST: _RECORD,
    GOLD_LATEST_BY_STREAM: _RECORD,
    GOLD_STREAM_HEALTH: "load_seq,topic,partition,last_offset,published_at",
}
"""Columns whose minimum and maximum Delta's log keeps: numbers, times, topics and kinds; no text of a record or producer."""
_OF_RECORDS = (BRONZE_RECORDS, SILVER_RECORDS, SILVER_REJECTS, GOLD_RECORDS, GOLD_LATEST, GOLD_LATEST_BY_STREAM)


def holds_records(name: str) -> bool:
    """Whether a table may hold contents of records, or hashes of them. An operator's model may.

    >>> holds_records("silver_rejects"), holds_records("silver_loads"), holds_records("incidents_by_day")
    (True, False, True)
    """
    return name in _OF_RECORDS or name not in TABLE_NAMES


def statistics(name: str) -> dict[str, str]:
    """Return Delta properties that keep texts of records and producers out of a table's log, which outlives erased files.

    >>> statistics("gate_results"), statistics("bronze_topics")
    ({'delta.dataSkippingStatsColumns': 'first_load_seq,last_load_seq,evaluated_at'}, {})
    >>> statistics("incidents_by_day")
    {'delta.dataSkippingNumIndexedCols': '0'}
    """
    if name in _COUNTED:
        return {"delta.dataSkippingStatsColumns": _COUNTED[name]}
    return {} if name in TABLE_NAMES else {"delta.dataSkippingNumIndexedCols": "0"}


@dataclass(frozen=True)
class Table:
    """A Delta table, in a folder or URI (`is_path`) or as `catalog.schema.name`. `properties` add to its contract's."""

    name: str
    location: str
    is_path: bool
    properties: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def sql(self) -> str:
        """The table's name in SQL.

        >>> [Table("t", place, is_path=place[0] == "/").sql for place in ("/data/t", "main.tidemark.t")]
        ['delta.`/data/t`', '`main`.`tidemark`.`t`']
        """
        if self.is_path:
            return f"delta.`{_escape(self.location)}`"
        return ".".join(f"`{_escape(part)}`" for part in self.location.split("."))

    @property
    def local_folder(self) -> Path | None:
        """The table's folder if it is local, else None."""
        return local_path(self.location) if self.is_path else None

    def __str__(self) -> str:
        return self.location


@dataclass(frozen=True)
class Lakehouse:
    """All tables of one pipeline: under a root, or in a catalog's schema with a volume for checkpoints and reports.

    A `shadow` has its own Silver tables and shares the others. `storage` is None if the tables are in no object store or only
    the session reaches it. `metastore` is for a session that Tidemark starts.
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
    def of(cls, settings: "Settings") -> Self:
        """Build it from the settings; storage keys that they lack come from the environment."""
        place = settings.lakehouse
        names = (place.root, place.catalog, place.schema_, place.volume)
        properties, storage = settings.maintenance.table_properties, storage_of(place, os.environ)
        return cls(*names, properties, storage=storage, metastore=place.metastore)

    def table(self, name: str) -> Table:
        """Return the table of that name in this lakehouse.

        >>> [Lakehouse(root="/data", shadow="s").table(name).location for name in ("silver_records", "bronze_records")]
        ['/data/_shadow/s/silver_records', '/data/bronze_records']
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
        """Return a folder next to the tables (`_checkpoints`, `_reports`): under the root, or on the volume."""
        return f"{(self.root or self.volume or '').rstrip('/')}/{name}"

    def sidecar_files(self, name: str) -> Files | None:
        """Return the files of a folder next to the tables; None if only a session reaches it, such as a volume elsewhere."""
        place = self.folder(name).rstrip("/")
        if self.storage is not None and scheme(place) in STORE_SCHEMES:
            return Files(place, self.storage)
        local = local_path(place)  # Databricks mounts a volume at the path that it names
        return Files(str(local)) if local is not None and (self.root is not None or local.parent.is_dir()) else None

    @property
    def table_files(self) -> Files | None:
        """All files under the root; None for a catalog's tables, or if only a session reaches the root."""
        return None if self.root is None else self.sidecar_files("")

    @property
    def is_in_files(self) -> bool:
        """Whether the tables can be read without Spark: they are in a local folder or an object store."""
        return self.local_root is not None or (self.root is not None and self.storage is not None)

    @property
    def name(self) -> str:
        """The place of the tables, for messages.

        >>> Lakehouse(root="/data").name, Lakehouse(catalog="main", schema="s").name
        ('/data', 'main.s')
        """
        return self.root or f"{self.catalog}.{self.schema}"

    @property
    def local_root(self) -> Path | None:
        """The root as a local folder; None if the tables are elsewhere.

        >>> [Lakehouse(root=f"{scheme}/data/lake").local_root for scheme in ("", "file:", "s3:/")]
        [PosixPath('/data/lake'), PosixPath('/data/lake'), None]
        """
        return None if self.root is None else local_path(self.root)


def local_path(location: str) -> Path | None:
    """Return a location as a local path; None if it is a URI of another store."""
    if location.startswith("file:"):
        return Path("/" + location.removeprefix("file:").lstrip("/"))
    return None if "://" in location else Path(location)


def _escape(identifier: str) -> str:
    return identifier.replace("`", "``")
