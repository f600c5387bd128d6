"""JVMs of seconds, and queries over a few rows. What a test waits for most is that code is compiled."""

from __future__ import annotations

import os

from lakehouse.machine.java import FIRST_COMPILER

QUICK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
}
"""What such a query waits for most is that it is compiled, and planned again. It pays neither in a test nor in a process that
is about to die."""

JVM_OPTIONS = " ".join(FIRST_COMPILER)  # of a JVM of seconds


def start_quickly() -> None:
    """Have every JVM that this process and its children start from here on by Spark's scripts take these options."""
    for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
        os.environ[name] = JVM_OPTIONS
