"""Checks that a session's commits overwrite nothing in the tables' storage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from lakehouse.errors import TableMissingError, ToolError, headline
from lakehouse.machine.storage_jar import LOG_STORE
from lakehouse.spark.session import is_databricks
from lakehouse.storage import S3Storage, log_store_key
from lakehouse.uri import S3_SCHEMES, scheme

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.table import Lakehouse

_OTHERS = ("io.delta.storage.S3DynamoDBLogStore",)
"""Delta's own log stores that are safe between several writers."""


def require_log_store(spark: SparkSession, lakehouse: Lakehouse) -> None:
    """Check that a commit to S3 cannot overwrite another writer's. Every command that may write does this first.

    Delta's own log store for S3 overwrites a commit, and loses its rows. The first commit shows whether the store supports
    our conditional put. Raises a `ToolError` if the session's commits would overwrite others and `single_writer` is not set, a
    `TableMissingError` if the catalog has no such schema, or the session may not see it.
    """
    is_allowed = isinstance(lakehouse.storage, S3Storage) and lakehouse.storage.is_single_writer
    if is_allowed or is_databricks(spark):
        return
    location = lakehouse.root or _location(spark, lakehouse)
    name = scheme(location)
    if name not in S3_SCHEMES:
        return
    found = spark.conf.get(log_store_key(name), None)
    if found not in (LOG_STORE, *_OTHERS):
        raise ToolError(
            "This session's commits to S3 overwrite those of others, so nothing was written.",
            where=location,
            observed=f"{log_store_key(name)} is {found or 'not set, so Delta takes its own'}",
            expected=LOG_STORE,
            next_step="Start the session with that setting and the jars that `tidemark jars fetch s3` names, or let Tidemark "
            "start it. If nobody else ever writes to these tables: lakehouse: {storage: {single_writer: true}}.",
        )


def _location(spark: SparkSession, lakehouse: Lakehouse) -> str:
    try:
        return spark.catalog.getDatabase(f"{lakehouse.catalog}.{lakehouse.schema}").locationUri or ""
    except PySparkException as error:
        raise TableMissingError(
            "The schema does not exist, or this session may not see it.",
            where=lakehouse.name,
            observed=headline(str(error)),
            next_step=f"Create it once, with the place of its tables: CREATE SCHEMA {lakehouse.name} LOCATION '...'; see "
            "docs/catalogs.md.",
        ) from error
