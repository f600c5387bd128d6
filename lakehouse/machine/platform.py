"""What the platform that a process runs on brings with it."""

from __future__ import annotations

import os


def brings_session() -> bool:
    """Whether there is a Spark session already, or a server of Spark Connect that gives one."""
    return any(name in os.environ for name in ("DATABRICKS_RUNTIME_VERSION", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"))
