"""The one place that opens a Spark session.

A session that the platform brings (Databricks, a Spark Connect server) is used; under spark-submit its master, jars and memory
are; otherwise a local session is started with the cached jars.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from lakehouse.machine import jars
from lakehouse.machine.storage_jar import LOCAL_FILES, LOCAL_LOG_STORE, storage_jar
from lakehouse.spark.avro_limits import JAVA_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse.table import Lakehouse

_RUNTIME = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
}
"""Set on every session, including one that a platform brought: the only settings that the tables' content depends on."""

_OWN = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # A bit flip in a Parquet page is read as data unless its checksum is verified.
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
    # Reading a table's state takes 50 tasks by default: seconds for tables of a few commits.
    "spark.databricks.delta.snapshotPartitions": "2",
    # Other engines read every table; not all of them know deletion vectors.
    "spark.databricks.delta.properties.defaults.enableDeletionVectors": "false",
    # Spark's default for timestamps in Parquet is an old form that some engines misread.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # The JVM compiles no method above 8,000 bytes: a long expression generated as one method would be interpreted.
    "spark.sql.codegen.hugeMethodLimit": "8000",
    # A run of all stages generates 400 classes, mostly the same as in the run before. By default 100 are kept.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # Otherwise every expression keeps the line of Python that it was made in, and carries it to every task: an eighth of a
    # small load. Without it, errors in a query do not quote that line either.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.dataFrameQueryContext.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Otherwise ${env:NAME} in a query's text is substituted before parsing.
    "spark.sql.variable.substitute": "false",
}

_LOCAL_FILES = {"spark.hadoop.fs.file.impl": LOCAL_FILES, "spark.delta.logStore.file.impl": LOCAL_LOG_STORE}
"""Commits in a folder that overwrite nothing, and no process started for each file. See `LocalFiles.java`."""

FILE_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""Writes the checkpoint of a local session. The default starts a process to look for links a dozen times a file."""

_MEMORY_SHARE = 4
_MEMORY_RANGE_GIB = (1, 8)


def open_session(app_name: str, lakehouse: Lakehouse | None = None) -> SparkSession:
    """Open a session with the settings that Tidemark needs: UTC, ANSI, checksums verified, Delta.

    Args:
        app_name: The application's name, if the session is started here.
        lakehouse: Where the tables are; a session that is started here gets the jars and settings that reach them.

    Returns:
        The platform's session if there is one, else a new or already running classic one.

    Raises:
        ToolError: A local session is needed and Java or the jars are missing.
    """
    spark = SparkSession.builder.getOrCreate() if _is_brought_by_platform() else _start(app_name, lakehouse)
    for name, value in _RUNTIME.items():
        spark.conf.set(name, value)
    return spark


@contextlib.contextmanager
def no_file_relations(spark: SparkSession) -> Iterator[None]:
    """In a session started here, let Spark resolve no file as a table (``text.`/etc/hostname` ``) while it analyses a query."""
    if _is_brought_by_platform():
        yield
        return
    spark.conf.set("spark.sql.runSQLOnFiles", "false")
    try:
        yield
    finally:
        spark.conf.set("spark.sql.runSQLOnFiles", "true")  # Tidemark's own tables are named by their folders


def _is_brought_by_platform() -> bool:
    return any(name in os.environ for name in ("DATABRICKS_RUNTIME_VERSION", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"))


def _start(app_name: str, lakehouse: Lakehouse | None) -> SparkSession:
    storage = lakehouse.storage if lakehouse else None
    conf = {**_OWN, **_RUNTIME}
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # not under spark-submit, which brings master, memory and jars
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # not the machine's python3, which may be another version
        conf |= _local()
        if storage is not None:
            conf["spark.jars"] = ",".join(jar.as_uri() for jar in jars.spark_jars(storage.jars))
    if storage is not None:
        conf |= storage.for_spark()
    if lakehouse is not None and lakehouse.metastore is not None:
        conf |= {"spark.sql.catalogImplementation": "hive", "spark.hadoop.hive.metastore.uris": lakehouse.metastore}
    builder = SparkSession.builder.appName(app_name)
    for name, value in conf.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _local() -> dict[str, str]:
    log4j = Path(__file__).with_name("log4j2.properties")
    cores = os.cpu_count() or 1
    master = os.environ.get("SPARK_MASTER", "local[*]")
    return {
        **(_LOCAL_FILES if master.startswith("local") else {}),  # the executors of a cluster have no such classes
        "spark.master": master,
        "spark.driver.extraClassPath": os.pathsep.join(str(jar) for jar in [*jars.spark_jars(), storage_jar()]),
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log4j.as_uri()} -XX:+UseParallelGC {JAVA_OPTIONS}",
        "spark.driver.memory": driver_memory(),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(max(2, 2 * cores)),
        "spark.ui.enabled": "false",
        "spark.sql.streaming.checkpointFileManagerClass": FILE_MANAGER,
    }


def driver_memory() -> str:
    """The driver memory of a local session: SPARK_DRIVER_MEMORY, else a share of the machine's memory."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30
    low, high = _MEMORY_RANGE_GIB
    return os.environ.get("SPARK_DRIVER_MEMORY") or f"{max(low, min(high, total // _MEMORY_SHARE))}g"
