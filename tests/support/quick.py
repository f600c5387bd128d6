"""JVMs of seconds, and queries over a few rows. What a test waits for most is that classes are loaded and compiled.

`python -m tests.support.quick` makes the archive of classes that the tests' JVMs start from, see `make test`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

QUICK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
}
"""What such a query waits for most is that it is compiled, and planned again. It pays neither in a test nor in a process that
is about to die."""

_ARCHIVE = Path(sys.prefix) / "classes.jsa"
_FIRST_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""With the first compiler alone a JVM has room for 48 MiB of code: it drops and compiles the same again and again."""
_LATE_SECOND_COMPILER = " ".join(
    [
        *("-XX:Tier4InvocationThreshold=100000", "-XX:Tier4MinInvocationThreshold=12000"),
        *("-XX:Tier4CompileThreshold=300000", "-XX:Tier4BackEdgeThreshold=800000", "-XX:ReservedCodeCacheSize=240m"),
    ]
)
"""At the usual thresholds the second compiler takes much of two cores: tests run much code, and little of it for long."""
_SILENT = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"


def jvm_options(*, is_short: bool = True) -> str:
    """Options of a JVM of the tests: its classes; when the second compiler starts, for a JVM of seconds never."""
    archive = f"-XX:SharedArchiveFile={_ARCHIVE} {_SILENT}" if _ARCHIVE.exists() else ""
    return f"{_FIRST_COMPILER if is_short else _LATE_SECOND_COMPILER} {archive}".strip()


def start_quickly(*, is_short: bool) -> None:
    """Have every JVM that this process and its children start from here on by Spark's scripts take these options."""
    for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
        os.environ[name] = jvm_options(is_short=is_short)


def _make_archive() -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "classes.jsa")
        options = f"{_FIRST_COMPILER} -XX:ArchiveClassesAtExit={made} {_SILENT}"
        command = [sys.executable, "-c", "from tests.support.quick import _use_classes; _use_classes()", folder]
        # The JVM has this process's output too, and writes its archive after Python has gone: the end of the output is its end.
        subprocess.run(command, env={**os.environ, "SPARK_SUBMIT_OPTS": options}, check=True, stdout=subprocess.PIPE)
        _ARCHIVE.write_bytes(made.read_bytes())


def _use_classes() -> None:
    """Run every stage over a few records."""
    from lakehouse.run.context import Run
    from lakehouse.spark.session import open_session
    from lakehouse.table import Lakehouse
    from tests.conftest import Events
    from tests.support.bronze import Record
    from tests.support.small_config import settings_of
    from tests.support.stages import loaded, published

    spark = open_session("tidemark-tests")
    for name, value in QUICK.items():
        spark.conf.set(name, value)
    run = Run("tests", Lakehouse(root=f"{sys.argv[1]}/lakehouse"), Events())
    loaded(spark, run, settings_of(run), [Record.of(0, 1), Record.of(1, 1), Record.of(2, 1.5)])
    published(spark, run, settings_of(run))
    spark.stop()


if __name__ == "__main__":
    _make_archive()
