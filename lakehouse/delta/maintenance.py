"""Maintenance of one table: retention, small files, files of old versions. Each step is one of Delta's commits.

Compaction clusters rows by the columns that the contract names. It leaves full files alone, so that the work grows with
the new data (docs/decisions/0017-maintenance.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pyspark.sql import functions as F

from lakehouse.contracts.contract import sql_text
from lakehouse.delta import log_files, tables
from lakehouse.delta.errors import FIXED_SETTING, SPARK_ERRORS, has_condition

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import SparkSession

    from lakehouse.table import Table

_OPTIMIZE = "spark.databricks.delta.optimize"
_FILES_IN_CUBE = 8
"""Clustered files are rewritten until they add up to this many full files. Delta's default is 100 GB."""
_LISTING = {"spark.sql.sources.parallelPartitionDiscovery.parallelism": "16"}
"""VACUUM lists in 10,000 tasks by default, which took 37 s for 82 files; Tidemark's tables have no partitions."""
_STATISTICS = "delta.dataSkippingStatsColumns"
_MIB = 2**20


@dataclass(frozen=True)
class State:
    """A table as of its latest version: number and bytes of its data files, properties and columns."""

    files: int
    bytes: int
    properties: dict[str, str]
    columns: tuple[str, ...]


def state(spark: SparkSession, table: Table) -> State:
    """Return the state of the table's latest version, without Spark in a local folder."""
    if (local := log_files.local(table)) is not None:
        sizes, columns = _sizes(local), tuple(field.name for field in local.schema().fields)
        return State(len(sizes), sum(sizes), local.metadata().configuration, columns)
    row = spark.sql(f"DESCRIBE DETAIL {table.sql}").select("numFiles", "sizeInBytes", "properties").collect()[0]
    return State(row["numFiles"], row["sizeInBytes"], dict(row["properties"]), tuple(spark.read.table(table.sql).columns))


def lacking(table: Table, found: State) -> dict[str, str]:
    """Return the expected properties that the table lacks or has with another value."""
    return {name: value for name, value in fitting(table.properties, found).items() if found.properties.get(name) != value}


def fitting(properties: Mapping[str, str], found: State) -> dict[str, str]:
    """Return the properties, with statistics of existing columns only, as Delta requires. Old tables lack some columns.

    >>> found = State(files=1, bytes=1, properties={}, columns=("topic", "offset"))
    >>> fitting({"delta.dataSkippingStatsColumns": "topic,offset,sequence"}, found)
    {'delta.dataSkippingStatsColumns': 'topic,offset'}
    """
    own = ",".join(name for name in properties.get(_STATISTICS, "").split(",") if name in found.columns)
    return {**properties, **({_STATISTICS: own} if _STATISTICS in properties else {})}


def unset_properties(spark: SparkSession, table: Table, names: Sequence[str]) -> None:
    """Remove properties from the table; raise an `AnotherWriterError` if another writer commits at the same time."""
    listed = ", ".join(map(sql_text, names))
    tables.execute(spark, f"ALTER TABLE {table.sql} UNSET TBLPROPERTIES IF EXISTS ({listed})", table)


def small_files(spark: SparkSession, table: Table, *, file_mib: int) -> int:
    """Count the files below the size. Compaction does not rewrite a single one."""
    if (local := log_files.local(table)) is not None:
        return sum(size < file_mib * _MIB for size in _sizes(local))
    files = spark.read.table(table.sql).select("_metadata.file_path", "_metadata.file_size").distinct()
    return files.where(F.col("file_size") < file_mib * _MIB).count()


def _sizes(table: DeltaTable) -> list[int]:
    found: list[int] = log_files.statistics(table, "size_bytes")["size_bytes"].to_pylist()
    return found


def compact(spark: SparkSession, table: Table, *, file_mib: int) -> None:
    """Merge small files up to a size, if there are several; raise an `AnotherWriterError` if another writer removes some."""
    size = file_mib * _MIB
    sizes = {"minFileSize": size, "maxFileSize": size, "clustering.mergeStrategy.minCubeSize.threshold": _FILES_IN_CUBE * size}
    with _configured(spark, {f"{_OPTIMIZE}.{name}": str(value) for name, value in sizes.items()}):
        tables.execute(spark, f"OPTIMIZE {table.sql}", table)


def unneeded_files(spark: SparkSession, table: Table) -> int:
    """Count the files that no version within the table's retention uses, without Spark in a local folder."""
    with suppress(*log_files.ERRORS):
        if (folder := table.local_folder) is not None:
            # delta-rs also names removed files that a VACUUM has already deleted.
            return sum((folder / unquote(name)).exists() for name in log_files.opened(folder).vacuum(dry_run=True, full=True))
    with _configured(spark, _LISTING):
        return spark.sql(f"VACUUM {table.sql} DRY RUN").count()


def vacuum(spark: SparkSession, table: Table) -> None:
    """Remove the files that no version within the table's retention uses, including files of a crashed writer."""
    with _configured(spark, _LISTING):
        tables.execute(spark, f"VACUUM {table.sql}", table)


@contextmanager
def _configured(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set the session settings of these commands, unless the platform fixes them (Databricks serverless)."""
    before: dict[str, str | None] = {}
    for name, value in settings.items():
        try:
            found = spark.conf.get(name, None)
            spark.conf.set(name, value)
        except SPARK_ERRORS as error:
            if not has_condition(error, FIXED_SETTING):
                raise
        else:
            before[name] = found
    try:
        yield
    finally:
        for name, found in before.items():
            spark.conf.unset(name) if found is None else spark.conf.set(name, found)
