"""Whether a process has a Spark session without starting one: from its caller, or from its platform."""

from __future__ import annotations

import os
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

given: ContextVar[SparkSession | None] = ContextVar("given", default=None)
"""The session that a caller gave, see `lakehouse.spark.session.given`."""


def brings_session() -> bool:
    """Whether there is a Spark session already, or a server of Spark Connect that gives one."""
    of_platform = ("DATABRICKS_RUNTIME_VERSION", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
    return given.get() is not None or any(name in os.environ for name in of_platform)
