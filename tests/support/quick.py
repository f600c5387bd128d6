"""JVMs of seconds, and queries over a few rows. What a test waits for most is that code is compiled."""

import os
from pathlib import Path

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


def start_quickly(folder: Path) -> None:
    """Give these options and settings to every JVM that this process and its children start by Spark's scripts from here on."""
    (folder / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in QUICK.items()), encoding="utf-8")
    os.environ["SPARK_CONF_DIR"] = str(folder)
    for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
        os.environ[name] = JVM_OPTIONS
