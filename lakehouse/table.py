"""Where each table lies: a folder under one root, or a name in a catalog's schema."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

BRONZE_RECORDS = "bronze_records"
SILVER_RECORDS = "silver_records"
SILVER_WATERMARKS = "silver_watermarks"
SILVER_REJECTS = "silver_rejects"
SILVER_LOADS = "silver_loads"
GATE_RESULTS = "gate_results"
GOLD_RECORDS = "gold_records"
GOLD_LATEST = "gold_latest"
GOLD_STREAM_HEALTH = "gold_stream_health"

TABLE_NAMES = (
    BRONZE_RECORDS,
    SILVER_RECORDS,
    SILVER_WATERMARKS,
    SILVER_REJECTS,
    SILVER_LOADS,
    GATE_RESULTS,
    GOLD_RECORDS,
    GOLD_LATEST,
    GOLD_STREAM_HEALTH,
)


@dataclass(frozen=True)
class Table:
    """One Delta table.

    Attributes:
        name: The table's own name, for example `silver_records`.
        location: The folder or URI of a path table, or `catalog.schema.name`.
        is_path: Whether the location is a folder or URI.
        properties: Delta's properties that every table of the lakehouse has, beside those of its contract.
    """

    name: str
    location: str
    is_path: bool
    properties: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def sql(self) -> str:
        """The table as it is written in SQL.

        >>> Table("silver_records", "/data/silver_records", is_path=True).sql
        'delta.`/data/silver_records`'
        >>> Table("silver_records", "main.tidemark.silver_records", is_path=False).sql
        '`main`.`tidemark`.`silver_records`'
        """
        if self.is_path:
            return f"delta.`{_escape(self.location)}`"
        return ".".join(f"`{_escape(part)}`" for part in self.location.split("."))

    def __str__(self) -> str:
        return self.location


@dataclass(frozen=True)
class Lakehouse:
    """All tables of one pipeline, under one root or in one schema.

    Attributes:
        root: The folder or URI that holds path tables; None for catalog tables.
        catalog: The catalog of named tables.
        schema: The schema of named tables.
        volume: Where checkpoints and reports of named tables go.
        properties: Delta's properties that every table gets.
    """

    root: str | None = None
    catalog: str | None = None
    schema: str | None = None
    volume: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict, compare=False)

    def table(self, name: str) -> Table:
        """The table of that name in this lakehouse."""
        if self.root is not None:
            return Table(name, f"{self.root.rstrip('/')}/{name}", is_path=True, properties=self.properties)
        return Table(name, f"{self.catalog}.{self.schema}.{name}", is_path=False, properties=self.properties)

    def folder(self, name: str) -> str:
        """A folder beside the tables (`_checkpoints`, `_reports`): under the root, or on the volume."""
        return f"{(self.root or self.volume or '').rstrip('/')}/{name}"

    @property
    def local_root(self) -> Path | None:
        """The root as a local folder, or None where the tables lie elsewhere.

        >>> Lakehouse(root="/data/lake").local_root.as_posix()
        '/data/lake'
        >>> Lakehouse(root="file:/data/lake").local_root.as_posix()
        '/data/lake'
        >>> Lakehouse(root="s3://bucket/lake").local_root is None
        True
        """
        if self.root is None:
            return None
        if self.root.startswith("file:"):
            return Path("/" + self.root.removeprefix("file:").lstrip("/"))
        return None if "://" in self.root else Path(self.root)


def _escape(identifier: str) -> str:
    return identifier.replace("`", "``")
