"""Opens the Spark session: a caller's, the platform's, spark-submit's, or a local one from cached jars."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakehouse.errors import TableMissingError, ToolError, UsageError, headline
from lakehouse.machine import class_archive, jars
from lakehouse.machine.java import AVRO_OPTIONS, SECOND_COMPILER_LATE
from lakehouse.machine.storage_jar import LOCAL_FILES, LOCAL_LOG_STORE, LOG_STORE, storage_jar
from lakehouse.storage import S3Storage, log_store_key
from lakehouse.uri import S3_SCHEMES, scheme

if TYPE_CHECKING:
    from lakehouse.table import Lakehouse

_RUNTIME = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
}
"""Set on every session, also on a platform's. The content of tables depends on no other settings."""

_EXTENSIONS = "spark.sql.extensions"
_CATALOG = "spark.sql.catalog.spark_catalog"
_DELTA = {
    _EXTENSIONS: "io.delta.sql.DeltaSparkSessionExtension",
    _CATALOG: "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}

_OWN = {
    **_DELTA,
    # A bit flip in a Parquet page is read as data unless its checksum is verified.
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
    # Reading a table's state takes 50 tasks by default: seconds for tables of a few commits. A run reads a dozen states.
    "spark.databricks.delta.snapshotPartitions": "1",
    # Other engines read every table, and not all of them know deletion vectors.
    "spark.databricks.delta.properties.defaults.enableDeletionVectors": "false",
    # Spark's default for timestamps in Parquet is an old form that some engines misread.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # The JVM compiles no method above 8,000 bytes: a long expression generated as one method would be interpreted.
    "spark.sql.codegen.hugeMethodLimit": "8000",
    # Every hash table, even a small broadcast one, takes at least a page: by default 64 MB with a heap of 5 GB or more.
    "spark.buffer.pageSize": "2m",
    # A run of all stages generates 400 classes, mostly the same as in the run before. By default 100 are kept.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # Otherwise every expression sends its line of Python to every task, which takes an eighth of a small load.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.dataFrameQueryContext.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Otherwise ${env:NAME} in a query's text is substituted before parsing.
    "spark.sql.variable.substitute": "false",
}

_LOCAL_FILES = {"spark.hadoop.fs.file.impl": LOCAL_FILES, "spark.delta.logStore.file.impl": LOCAL_LOG_STORE}
"""Commits in a folder overwrite nothing, and no process is started per file. See `LogStores.java`."""

FILE_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""Writes the checkpoint of a local session. The default starts a dozen processes per file to look for links."""

_OF_DATABRICKS = "spark.databricks.clusterUsageTags.clusterId"
"""A setting of every session on Databricks."""

_SAFE_LOG_STORES = (LOG_STORE, "io.delta.storage.S3DynamoDBLogStore")
"""Log stores for S3, ours and one of Delta's, that are safe between several writers."""

_of_caller: ContextVar[SparkSession | None] = ContextVar("_of_caller", default=None)


@contextlib.contextmanager
def given(spark: SparkSession) -> Iterator[None]:
    """Within the block, use a caller's session, classic or Spark Connect, instead of opening one. It keeps its settings.

    Raises a `UsageError` for another object, and as `require_delta`.
    """
    if not (hasattr(spark, "conf") and hasattr(spark, "sql")):
        raise UsageError("Not a Spark session.", where="spark", observed=type(spark).__name__, expected="a SparkSession")
    require_delta(spark)
    before = {name: spark.conf.get(name, None) for name in _RUNTIME}
    token = _of_caller.set(spark)
    try:
        yield
    finally:
        _of_caller.reset(token)
        with contextlib.suppress(Exception):  # stopped meanwhile: the caller needs the error of the block
            for name, value in before.items():
                spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def brings_session() -> bool:
    """Whether there is a Spark session already, of a caller or a platform, or a server of Spark Connect that gives one."""
    of_platform = ("DATABRICKS_RUNTIME_VERSION", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
    return _of_caller.get() is not None or any(name in os.environ for name in of_platform)


def is_databricks(spark: SparkSession) -> bool:
    """Whether the session is Databricks': Delta is part of it, and commits to its stores are safe."""
    return "DATABRICKS_RUNTIME_VERSION" in os.environ or spark.conf.get(_OF_DATABRICKS, None) is not None


def require_delta(spark: SparkSession) -> None:
    """Check that a session that was not started here has Delta's settings and jars; raise a `ToolError` otherwise."""
    if is_databricks(spark):
        return
    set_ = {name: spark.conf.get(name, None) or "" for name in _DELTA}
    # Delta's catalog may be wrapped by another one, such as Unity Catalog's.
    lacks = [name for name in _DELTA if (_DELTA[name] not in set_[name] if name == _EXTENSIONS else not set_[name])]
    if lacks:
        observed = "; ".join(f"{name} is {set_[name] or 'not set'}" for name in lacks)
        raise _without_delta("The Spark session lacks settings of Delta Lake.", observed)
    try:
        # Any path without a table: a session without the jars fails before it reads the path.
        _ = spark.read.format("delta").load("file:///tidemark/no/such/table").schema
    except Exception as error:
        text = str(error)
        if "stopped SparkContext" in text or "No active or default Spark session" in text:
            raise ToolError("The Spark session is stopped.", where="spark", next_step="Start a new one.") from None
        if "ClassNotFoundException: delta" in text or "DATA_SOURCE_NOT_FOUND" in text or "io/delta" in text:
            raise _without_delta("The Spark session lacks the jars of Delta Lake.", headline(text)) from None
        if not isinstance(error, PySparkException):
            raise


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
    if found not in _SAFE_LOG_STORES:
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


def _without_delta(what: str, observed: str) -> ToolError:
    lines = [f'.config("{name}", "{value}")' for name, value in {"spark.jars.packages": jars.packages(), **_DELTA}.items()]
    begin = "Stop it, and start one with these lines, or let Tidemark start one by leaving `spark` out:"
    return ToolError(what, where="spark", observed=observed, next_step="\n".join([begin, *lines]))


def open_session(app_name: str, lakehouse: Lakehouse | None = None, *, log_level: str = "error") -> SparkSession:
    """Open a session with UTC, ANSI, verified checksums and Delta: the caller's (`given`), the platform's, or a classic one.

    A session that is started here gets the jars and settings that reach the lakehouse. Raises a `ToolError` without Java or
    jars, or if a running session lacks Delta.
    """
    spark = _of_caller.get()
    if spark is None:
        spark = SparkSession.builder.getOrCreate() if brings_session() else _start(app_name, lakehouse, log_level)
    for name, value in _RUNTIME.items():
        spark.conf.set(name, value)
    return spark


def _start(app_name: str, lakehouse: Lakehouse | None, log_level: str) -> SparkSession:
    running = _running()
    # Another caller started it. It would take those of our settings that can still be changed, and break.
    if running is not None and _DELTA[_EXTENSIONS] not in (running.conf.get(_EXTENSIONS, None) or ""):
        require_delta(running)
    storage = lakehouse.storage if lakehouse else None
    conf: dict[str, Any] = {**_OWN, **_RUNTIME}
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # not under spark-submit, which sets master, memory and jars
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # not the machine's python3, which may be another version
        conf |= _local(log_level)
        if running is None and (lakehouse is None or lakehouse.catalog is None):
            conf["spark.sql.warehouse.dir"] = _no_warehouse()
        if storage is not None:
            conf["spark.jars"] = ",".join(jar.as_uri() for jar in jars.spark_jars(storage.jars))
    if storage is not None:
        conf |= storage.for_spark()
    if lakehouse is not None and lakehouse.metastore is not None:
        conf |= {"spark.sql.catalogImplementation": "hive", "spark.hadoop.hive.metastore.uris": lakehouse.metastore}
    return SparkSession.builder.appName(app_name).config(map=conf).getOrCreate()


def _running() -> SparkSession | None:
    try:
        return SparkSession.active()
    except PySparkException:
        return None


def _no_warehouse() -> str:
    """Return a folder for Spark's own catalog, which is not used: otherwise Spark makes one in the working folder."""
    folder = tempfile.mkdtemp(prefix="tidemark-warehouse-")
    atexit.register(_remove_empty, folder)
    return Path(folder).as_uri()


def _remove_empty(folder: str) -> None:
    with contextlib.suppress(OSError):  # the user of the session created a table there
        Path(folder).rmdir()


def _local(log_level: str) -> dict[str, str]:
    log4j = Path(__file__).with_name("log4j2.properties").as_uri()
    cores = os.cpu_count() or 1
    master = os.environ.get("SPARK_MASTER", "local[*]")
    return {
        **(_LOCAL_FILES if master.startswith("local") else {}),  # the executors of a cluster have no such classes
        "spark.master": master,
        "spark.driver.extraClassPath": os.pathsep.join(str(jar) for jar in [*jars.spark_jars(), storage_jar()]),
        "spark.driver.extraJavaOptions": " ".join(
            [
                *(f"-Dlog4j2.configurationFile={log4j}", f"-Dtidemark.log={log_level}", "-XX:+UseParallelGC", AVRO_OPTIONS),
                "-XX:MetaspaceSize=256m",  # with the default, the first classes force five collections of the whole heap
                *SECOND_COMPILER_LATE,
                *class_archive.jvm_options(),
            ]
        ),
        "spark.driver.memory": driver_memory(),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(max(2, 2 * cores)),
        "spark.ui.enabled": "false",
        "spark.sql.streaming.checkpointFileManagerClass": FILE_MANAGER,
    }


def driver_memory() -> str:
    """Return the driver memory of a local session: SPARK_DRIVER_MEMORY, else a quarter of the machine's, 1 to 8 GiB."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30
    return os.environ.get("SPARK_DRIVER_MEMORY") or f"{max(1, min(8, total // 4))}g"
