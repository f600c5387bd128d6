"""Commits that overwrite nothing: whether a session can make them where the tables are."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lakehouse.errors import ToolError
from lakehouse.machine.storage_jar import LOG_STORE
from lakehouse.storage import log_store_key
from lakehouse.uri import S3_SCHEMES, scheme

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.table import Lakehouse

_OTHERS = ("io.delta.storage.S3DynamoDBLogStore",)
"""Log stores of Delta's that are as safe between several writers."""


def require(spark: SparkSession, lakehouse: Lakehouse) -> None:
    """Check that of two writers of one commit in S3 the second is refused. Every command that may write does this first.

    Delta's own log store for S3 overwrites the first one's commit, and with it its rows. Whether the store keeps the condition
    that ours sends is seen at the first commit.

    Raises:
        ToolError: The session's commits would overwrite others, and `lakehouse.storage.single_writer` does not allow that.
    """
    name = scheme(lakehouse.root or "")
    is_allowed = lakehouse.storage is not None and lakehouse.storage.is_single_writer
    if name not in S3_SCHEMES or is_allowed or "DATABRICKS_RUNTIME_VERSION" in os.environ:
        return
    found = spark.conf.get(log_store_key(name), None)
    if found not in (LOG_STORE, *_OTHERS):
        raise ToolError(
            "This session's commits to S3 overwrite those of others, so nothing was written.",
            where=str(lakehouse.root),
            observed=f"{log_store_key(name)} is {found or 'not set, so Delta takes its own'}",
            expected=LOG_STORE,
            next_step="Start the session with that setting and the jars that `tidemark jars fetch s3` names, or let Tidemark "
            "start it. If nobody else ever writes to these tables: lakehouse: {storage: {single_writer: true}}.",
        )
